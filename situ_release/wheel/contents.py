"""A bundle's files against its manifest, both ways: nothing is missing and nothing is added.

The manifest lists the binaries (the *payload*): the runner and every cubin. What a package may hold
besides is its own: Python sources, licence texts and the manifest itself. Anything else below the
package is a file that nobody reviewed, and so is anything outside of package and dist-info.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from situ_release.bundle.manifest import MANIFEST_NAME, CubinEntry, Manifest, RunnerEntry
from situ_release.errors import InputError, Problem
from situ_release.wheel.archive import MemberContent
from situ_release.wheel.dist_info import DIST_INFO

_OWN_SUFFIXES = (".py", ".pyi")
_TEXT_SUFFIXES = ("", ".md", ".txt")
_PACKAGE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class PayloadFile:
    """A binary that the manifest lists; ``path`` is relative to the package, ``size`` in bytes."""

    path: str
    sha256: str
    size: int


def payload_files(manifest: Manifest) -> tuple[PayloadFile, ...]:
    """The runner and every cubin, in the manifest's order."""
    entries: Iterable[RunnerEntry | CubinEntry] = (manifest.runner, *manifest.cubins)
    return tuple(PayloadFile(entry.path, entry.sha256, entry.size) for entry in entries)


def package_folder(members: Iterable[str], where: str) -> str:
    """The import package: the one top-level folder with a manifest.

    Args:
        members: file names, relative to the wheel's root or to the payload project.
        where: the wheel or folder, used in errors.

    Raises:
        InputError: no or more than one manifest.
    """
    found = sorted(
        name
        for name in members
        if name.count("/") == 1
        and name.endswith(f"/{MANIFEST_NAME}")
        and _PACKAGE.fullmatch(name.split("/", 1)[0])
    )
    if len(found) == 1:
        return found[0].split("/", 1)[0]
    raise InputError.of(
        "more than one manifest" if found else "there is no manifest",
        where,
        expected=f"one <package>/{MANIFEST_NAME}",
        found=", ".join(found) or "none",
        remedy="use a wheel or payload that situ-release or the publisher made",
    )


def payload_problems(
    package: str, manifest: Manifest, contents: Mapping[str, MemberContent], remedy: str
) -> list[Problem]:
    """Everything in which a package's files and its manifest differ.

    Args:
        package: name of the package's folder.
        manifest: its manifest.
        contents: every file by name, relative to the wheel's root; others than the package's are
            ignored here, see :func:`foreign_files`.
        remedy: what the reader should do, which depends on who asks.
    """
    problems = []
    listed: set[str] = set()
    for file in payload_files(manifest):
        name = f"{package}/{file.path}"
        if name in listed:
            problems.append(
                Problem("listed twice in the manifest", name, "one entry", "two", remedy)
            )
        elif name not in contents:
            problems.append(
                Problem("listed in the manifest and missing", name, "a file", "none", remedy)
            )
        else:
            problems.extend(_differences(name, file, contents[name], remedy))
        listed.add(name)
    problems.extend(
        Problem("not listed in the manifest", name, "a listed or source file", "an extra", remedy)
        for name in contents
        if name.startswith(f"{package}/")
        and name not in listed
        and not is_package_source(name.removeprefix(f"{package}/"))
    )
    return problems


def foreign_files(package: str, names: Iterable[str]) -> tuple[str, ...]:
    """Files of a wheel that lie neither in the package nor in a dist-info folder."""
    return tuple(
        name
        for name in names
        if not name.startswith(f"{package}/") and not name.split("/", 1)[0].endswith(DIST_INFO)
    )


def is_package_source(path: str) -> bool:
    """Whether a file is the package's own and needs no entry in the manifest.

    Args:
        path: relative to the package. Its own are ``manifest.json``, Python sources and stubs,
            ``py.typed``, and texts (no suffix, ``.txt``, ``.md``) below ``licenses/``.
    """
    pure = PurePosixPath(path)
    if path in (MANIFEST_NAME, "py.typed") or pure.suffix in _OWN_SUFFIXES:
        return True
    return pure.parts[0] == "licenses" and len(pure.parts) > 1 and pure.suffix in _TEXT_SUFFIXES


def _differences(
    name: str, file: PayloadFile, content: MemberContent, remedy: str
) -> Iterator[Problem]:
    if content.fault:
        return
    if content.size != file.size:
        expected, found = f"{file.size} bytes as in the manifest", f"{content.size} bytes"
        yield Problem("the size differs from the manifest", name, expected, found, remedy)
    if content.sha256 != file.sha256:
        expected = f"SHA-256 {file.sha256} as in the manifest"
        yield Problem("the bytes differ from the manifest", name, expected, content.sha256, remedy)
