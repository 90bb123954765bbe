"""Checks of ``manifest.json``: its schema, its files both ways, their digests."""

from __future__ import annotations

from collections.abc import Iterator

from situ_release.bundle.manifest import Manifest
from situ_release.checks.context import Context
from situ_release.checks.model import Finding, Unchecked, fail, from_problem
from situ_release.sources.content_kind import describe_content
from situ_release.text import size_text
from situ_release.wheel.contents import foreign_files, is_package_source, payload_files

_BINARY_MAGICS = (b"\x7fELF", b"\x50\xed\x55\xba", b"!<arch>\n", b"PK\x03\x04")


def schema(context: Context) -> Iterator[Finding]:
    """There is one manifest and it fits the schema."""
    if not context.contents:
        return
    manifest = context.manifest_or_problems
    if isinstance(manifest, tuple):
        yield from map(from_problem, manifest)


def files(context: Context) -> Iterator[Finding]:
    """Every file of the manifest is in the wheel, and every file of the wheel is accounted for."""
    package, manifest = context.package, context.manifest
    yield from _one_name_each(package, manifest)
    listed = {f"{package}/{file.path}" for file in payload_files(manifest)}
    for member in sorted(listed - context.contents.keys()):
        yield fail(member, "the manifest lists a file that the wheel does not have")
    foreign = set(foreign_files(package, context.contents))
    for member, content in context.contents.items():
        if member in listed:
            continue
        if (content.data or b"").startswith(_BINARY_MAGICS):
            found = describe_content(content.data or b"")
            yield fail(member, "a binary that the manifest does not list", found=found)
        elif member in foreign:
            expected = f"files in {package}/ and its dist-info folder only"
            yield fail(member, "a file outside the package", expected=expected)
        elif member.startswith(f"{package}/"):
            path = member.removeprefix(f"{package}/")
            if not is_package_source(path):
                expected = "binaries of the manifest, Python sources and licence texts only"
                yield fail(member, "a file that the manifest does not list", expected=expected)


def _one_name_each(package: str, manifest: Manifest) -> Iterator[Finding]:
    # Loader and runner look cubins up by file name, so a name may occur once, whatever its folder
    # and (for file systems that fold case) its spelling.
    seen: dict[str, str] = {}
    for entry in manifest.cubins:
        key = entry.filename.casefold()
        if key in seen:
            yield fail(
                f"{package}/{entry.path}",
                "two cubins of one file name in the manifest",
                expected="names that differ, also where case does not count",
                found=seen[key],
            )
        seen.setdefault(key, entry.path)


def digests(context: Context) -> Iterator[Finding]:
    """Every listed file has the size and SHA-256 that the manifest gives it."""
    missing = ""
    for file in payload_files(context.manifest):
        member = f"{context.package}/{file.path}"
        content = context.contents.get(member)
        if content is None:
            missing = missing or member
            continue
        if content.size != file.size:
            yield fail(
                member,
                "the size is not the manifest's",
                expected=size_text(file.size),
                found=size_text(content.size),
            )
        if content.sha256 != file.sha256:
            yield fail(
                member,
                "the SHA-256 is not the manifest's",
                expected=file.sha256,
                found=content.sha256,
            )
    if missing:
        raise Unchecked("manifest.files", missing)
