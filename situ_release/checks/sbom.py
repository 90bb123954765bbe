"""Checks of the bill of materials that a wheel carries in ``.dist-info/sboms`` (PEP 770)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from situ_release import canonical
from situ_release.bundle.sbom_serial import serial_number
from situ_release.checks.context import Context
from situ_release.checks.model import Finding, Unchecked, fail, from_problem, note, warn
from situ_release.errors import InputError
from situ_release.wheel.contents import payload_files
from situ_release.wheel.dist_info import SBOMS

FORMAT = ("CycloneDX", "1.6")

_SHA256 = "SHA-256"


def bill(context: Context) -> Iterator[Finding]:
    """The bill of materials belongs to the manifest and lists the very binaries of the wheel.

    Every wheel of this tool carries one; that another carries none is no fault.
    """
    folder = f"{context.dist_info}/{SBOMS}"
    member = f"{folder}{context.recipe.sbom_name}"
    for name in context.contents:
        if name.startswith(folder) and name != member:
            yield fail(
                name, "a bill of materials of other things", expected=member, found="another"
            )
    if member not in context.contents:
        if context.manifest.tools is None:
            yield note(context.filename, "the wheel carries no bill of materials")
        else:
            yield fail(
                member, "the bill of materials is missing", expected="the file", found="none"
            )
        return
    data = context.data(member)
    if data is None:
        raise Unchecked("wheel.archive", member)
    try:
        document = canonical.loads(data, member)
    except InputError as error:
        yield from map(from_problem, error.problems)
        return
    if not isinstance(document, dict):
        yield fail(member, "not a bill of materials", expected="an object", found="something else")
        return
    yield from _identity(context, member, document)
    yield from _binaries(context, member, document)
    yield from _licences(context, member, document)


def _identity(context: Context, member: str, document: Mapping[str, Any]) -> Iterator[Finding]:
    """Format, serial number, and the wheel it is about."""
    found = (document.get("bomFormat"), document.get("specVersion"))
    if found != FORMAT:
        yield fail(
            member,
            "another format",
            expected=" ".join(FORMAT),
            found=" ".join(str(part) for part in found),
        )
    serial = serial_number(context.contents[context.manifest_member].sha256)
    if document.get("serialNumber") != serial:
        yield fail(
            member,
            "it belongs to another manifest",
            expected=serial,
            found=str(document.get("serialNumber")),
        )
    subject = _object(_object(document.get("metadata")).get("component"))
    wanted = (context.recipe.package.distribution, context.manifest.package_version)
    named = (subject.get("name"), subject.get("version"))
    if named != wanted:
        yield fail(
            member,
            "it is about another wheel",
            expected=" ".join(wanted),
            found=" ".join(str(part) for part in named),
        )


def _binaries(context: Context, member: str, document: Mapping[str, Any]) -> Iterator[Finding]:
    """Names and digests are the manifest's, both ways."""
    listed: Counter[tuple[str, str]] = Counter()
    for component in _components(document):
        for digest in _list(component.get("hashes")):
            entry = _object(digest)
            if entry.get("alg") == _SHA256:
                listed[str(component.get("name")), str(entry.get("content"))] += 1
    stated = Counter((file.path, file.sha256) for file in payload_files(context.manifest))
    yield from _one_way(member, "it lacks", stated - listed)
    yield from _one_way(member, "it lists what the manifest does not:", listed - stated)


def _one_way(member: str, what: str, entries: Counter[tuple[str, str]]) -> Iterator[Finding]:
    """One finding for all binaries of one kind of difference: a foreign bill lacks every one."""
    if not entries:
        return
    path, sha256 = min(entries)
    more = f" and {len(entries) - 1} more" if len(entries) > 1 else ""
    yield fail(
        member,
        f"{what} {path}{more}",
        expected="the binaries of the manifest with their SHA-256",
        found=f"a difference in SHA-256 {sha256}",
    )


def _licences(context: Context, member: str, document: Mapping[str, Any]) -> Iterator[Finding]:
    """The licences are those that the recipe declares."""
    declared = context.recipe.declared
    for component in _components(document):
        ref = str(component.get("bom-ref"))
        if ref == "python":
            wanted = declared.wrapper_license
        elif ref == "runner":
            wanted = declared.runner_license
        elif ref.startswith("family/"):
            wanted = declared.cubin_license
        else:
            continue
        stated = [_object(entry).get("expression") for entry in _list(component.get("licenses"))]
        if stated != ([wanted] if wanted else []):
            yield warn(
                member,
                f"the licence of {component.get('name')} is not the recipe's",
                expected=wanted or "none declared",
                found=", ".join(map(str, stated)) or "none",
            )


def _components(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The components, and those inside them: a family holds its cubins."""
    for component in map(_object, _list(document.get("components"))):
        yield component
        yield from map(_object, _list(component.get("components")))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
