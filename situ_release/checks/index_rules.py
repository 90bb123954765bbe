"""What the Python package index refuses beyond what is no valid wheel or METADATA.

Source of the rules: the index's own validation of uploads (pypi/warehouse, ``forklift/metadata.py``
and ``forklift/legacy.py``) and the packaging specifications.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from urllib.parse import urlsplit

from packaging.metadata import Metadata
from packaging.version import Version

from situ_release.checks.model import Finding, Unchecked, fail
from situ_release.errors import InputError
from situ_release.wheel.dist_info import parse_wheel_name

_MANYLINUX = re.compile(r"manylinux_[0-9]+_[0-9]+_[a-z0-9_]+")
_LONGEST_SUMMARY = 512
_LONGEST_LABEL = 32
_REFUSED_CLASSIFIER = "Private ::"

_CONTENT_TYPES = ("text/markdown", "text/x-rst", "text/plain")


def version_faults(version: Version, member: str) -> Iterator[Finding]:
    """A local version is for one's own index."""
    if version.local is not None:
        yield fail(
            member,
            "the version is a local one",
            expected=f"a public version such as {version.public}",
            found=str(version),
            remedy="build the wheel again with a public --package-version",
        )


def tag_faults(filename: str) -> Iterator[Finding]:
    """Compiled wheels for Linux need a manylinux tag."""
    try:
        name = parse_wheel_name(filename)
    except InputError:
        raise Unchecked("wheel.filename", filename) from None
    for tag in sorted(tag.platform for tag in name.tags):
        if _MANYLINUX.fullmatch(tag) is None:
            yield fail(
                filename,
                "the index takes no wheel with this platform tag",
                expected="manylinux_<major>_<minor>_<machine>",
                found=tag,
                remedy="repair the built wheel with `situ-release repair`",
            )


def metadata_faults(metadata: Metadata, member: str) -> Iterator[Finding]:
    """Fields that are valid core metadata and that the index refuses all the same."""
    yield from _texts(metadata, member)
    yield from _classifiers(metadata, member)
    yield from _urls(metadata, member)
    yield from _description(metadata, member)


def _texts(metadata: Metadata, member: str) -> Iterator[Finding]:
    length = len(metadata.summary or "")
    if length > _LONGEST_SUMMARY:
        expected = f"at most {_LONGEST_SUMMARY} characters"
        yield fail(member, "Summary is too long", expected=expected, found=f"{length} characters")
    for requirement in metadata.requires_dist or ():
        if requirement.url is not None:
            yield fail(
                member,
                "Requires-Dist names a URL",
                expected="a project of the index, with a version specifier",
                found=str(requirement),
            )


def _classifiers(metadata: Metadata, member: str) -> Iterator[Finding]:
    # Comes with hatchling, which checks the same at build time.
    from trove_classifiers import classifiers, deprecated_classifiers

    for classifier in metadata.classifiers or ():
        expected, found = "one that the index knows and takes", classifier
        if classifier.startswith(_REFUSED_CLASSIFIER):
            yield fail(member, "a Classifier that forbids upload", expected=expected, found=found)
        elif classifier in deprecated_classifiers:
            yield fail(member, "a deprecated Classifier", expected=expected, found=found)
        elif classifier not in classifiers:
            yield fail(member, "an unknown Classifier", expected=expected, found=found)


def _urls(metadata: Metadata, member: str) -> Iterator[Finding]:
    for label, url in (metadata.project_urls or {}).items():
        if not 0 < len(label) <= _LONGEST_LABEL:
            expected = f"1 to {_LONGEST_LABEL} characters"
            yield fail(member, "the label of a Project-URL", expected=expected, found=repr(label))
        try:
            parts = urlsplit(url)
        except ValueError:
            parts = urlsplit("")
        if parts.scheme not in ("http", "https") or not parts.netloc:
            expected = "an http or https URL"
            yield fail(member, f"Project-URL {label} is no URL", expected=expected, found=url)


def _description(metadata: Metadata, member: str) -> Iterator[Finding]:
    from readme_renderer import markdown, rst, txt

    kind = (metadata.description_content_type or "text/x-rst").split(";", 1)[0].strip().lower()
    text = metadata.description or ""
    complaints = io.StringIO()
    if kind == "text/markdown":
        rendered = markdown.render(text)
    elif kind == "text/plain":
        rendered = txt.render(text)
    elif kind == "text/x-rst":
        rendered = rst.render(text, stream=complaints)
    else:
        expected = " or ".join(_CONTENT_TYPES)
        yield fail(member, "Description-Content-Type", expected=expected, found=kind)
        return
    if rendered is None:
        yield fail(
            member,
            "the index cannot render the description",
            expected=f"a text in {kind}",
            found=" ".join(complaints.getvalue().split()) or "one that its renderer refuses",
            remedy="correct the README of the payload and build the wheel again",
        )
