"""Checks of what a wheel carries besides its binaries: the wrapper's code and its texts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from situ_release import __version__, resources
from situ_release.bundle.template import PACKAGE, rendered_files, template_values
from situ_release.checks.context import Context
from situ_release.checks.model import Finding, fail, from_problem, warn
from situ_release.errors import InputError
from situ_release.wheel.contents import is_package_source, payload_files
from situ_release.wheel.dist_info import SBOMS
from situ_release.wheel.record import RECORD

_DIST_INFO_FILES = ("METADATA", "WHEEL", RECORD, "top_level.txt")
_LICENSES = "licenses/"
_WRAPPER_LICENSES = ("LICENSE", "THIRD_PARTY_NOTICES.md")
_PROGRAM_MAGICS = (b"#!", b"MZ", b"\x7fELF")


def code(context: Context) -> Iterator[Finding]:
    """The package's own files are those that this version of the tool gives the bundle.

    Only a wheel of this very version can be compared: no other version's template is known.
    """
    yield from _dist_info(context)
    yield from _texts(context)
    tools = context.manifest.tools
    if tools is None or tools.situ_release != __version__:
        made_by = f"situ-release {tools.situ_release}" if tools else "no version that it names"
        yield warn(
            context.package,
            "the package's Python code cannot be compared with what it was made from",
            expected=f"a wheel made by situ-release {__version__}",
            found=made_by,
            remedy="verify with the version that made the wheel, or read its code",
        )
        return
    try:
        wanted = _template(context)
    except InputError as error:
        yield from map(from_problem, error.problems)
        return
    for member, text in wanted.items():
        content = context.contents.get(member)
        if content is None:
            yield fail(member, "a file of the bundle's template is missing")
        elif content.data is not None and content.data != text:
            yield fail(
                member,
                "the file is not the one that this version of situ-release puts there",
                expected=f"the template of recipe {context.recipe.name}",
                found=f"{content.size} bytes that differ from it",
            )
    for member in _own_files(context):
        if member not in wanted:
            expected = f"the files of the template of recipe {context.recipe.name}"
            yield fail(member, "a file that no template of the bundle has", expected=expected)


def _template(context: Context) -> Mapping[str, bytes]:
    """What the wheel's own files must be, by member name."""
    recipe = context.recipe
    values = template_values(recipe, context.manifest.package_version)
    rendered = rendered_files(resources.payload_templates() / recipe.template, values)
    wanted = {}
    for name, text in rendered.items():
        if name.startswith(f"{PACKAGE}/"):
            wanted[f"{context.package}/{name.removeprefix(f'{PACKAGE}/')}"] = text.encode()
        elif name in _WRAPPER_LICENSES:
            wanted[f"{context.dist_info}/{_LICENSES}{name}"] = text.encode()
    return wanted


def _own_files(context: Context) -> Iterator[str]:
    """Members that only the template can have brought: no binary, manifest or third-party text.

    What is no source of a package at all, ``manifest.files`` reports.
    """
    package, licenses = f"{context.package}/", f"{context.dist_info}/{_LICENSES}"
    others = {f"{package}{file.path}" for file in payload_files(context.manifest)}
    others.add(context.manifest_member)
    for member in context.contents:
        path = member.removeprefix(package)
        in_package = path != member and member not in others and is_package_source(path)
        if member.startswith(licenses) or (in_package and not path.startswith(_LICENSES)):
            yield member


def _dist_info(context: Context) -> Iterator[Finding]:
    folder = context.dist_info
    for member in context.contents:
        name = member.removeprefix(f"{folder}/")
        if name == member or name in _DIST_INFO_FILES or name.startswith((_LICENSES, SBOMS)):
            continue
        yield fail(
            member,
            "a file that the dist-info folder of a bundle does not have",
            expected=f"{', '.join(_DIST_INFO_FILES)}, {_LICENSES} and {SBOMS} only",
        )


def _texts(context: Context) -> Iterator[Finding]:
    """What lies among the licences is text."""
    folders = (f"{context.package}/{_LICENSES}", f"{context.dist_info}/{_LICENSES}")
    for member, content in context.contents.items():
        if not member.startswith(folders) or content.data is None:
            continue
        if content.data.startswith(_PROGRAM_MAGICS) or not _is_text(content.data):
            yield fail(member, "among the licences, a file that is no plain text")


def _is_text(data: bytes) -> bool:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return "\0" not in text
