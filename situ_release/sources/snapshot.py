"""The source snapshot a runner was compiled from: its version, its commit, its licence texts.

Three layouts are read: a git checkout or an exported copy of one (``version.txt``, ``LICENSE``,
``NOTICE``, ``licenses/``), and a wheel or what it unpacks to (``*.dist-info`` with METADATA and
``licenses/``, and a ``_build_meta.py``, which is read as text and never executed; flashinfer-python
0.6.13 has neither ``version.txt`` nor a NOTICE).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from situ_release.errors import InputError
from situ_release.sources.faults import shown
from situ_release.sources.files import DirectoryFiles, SourceFiles, join, open_source
from situ_release.sources.git import Checkout, read_checkout

if TYPE_CHECKING:
    from situ_release.sources.marker import RecoveredMarker

VERSION_FILE = "version.txt"
BUILD_META = "_build_meta.py"

_LICENSE_NAME = re.compile(r"(?:LICEN[CS]E|NOTICE|COPYING|THIRD_PARTY_NOTICES)(?:[.-].+)?")
_LICENSE_FOLDER = "licenses"
_DIST_INFO = ".dist-info"
_HEADER_VERSION = re.compile(r"^Version:[ \t]*(.*?)[ \t]*$", re.MULTILINE)
_ASSIGNED = r"""^{}[ \t]*=[ \t]*["']([^"'\n]*)["'][ \t]*$"""
_META_VERSION = re.compile(_ASSIGNED.format("__version__"), re.MULTILINE)
_META_COMMIT = re.compile(_ASSIGNED.format("__git_version__"), re.MULTILINE)
_VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+!_-]{0,99}")
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a snapshot says about itself.

    Attributes:
        where: the folder or wheel, for messages.
        version: the version it states.
        version_source: the file that states it, relative.
        checkout: the state of its git checkout; None where it is not the top folder of one.
        stated_commit: the commit that a ``_build_meta.py`` names; a statement, not a checkout.
        licenses: relative path of each licence text by its name: ``LICENSE``, ``NOTICE``, or
            ``licenses/<file>``. In wheel layout the texts of ``*.dist-info/licenses`` have the
            names that they have at the top of the source tree.
        marker: what the snapshot was recovered from; None for an original.
    """

    where: str
    version: str
    version_source: str
    checkout: Checkout | None
    stated_commit: str | None
    licenses: Mapping[str, str]
    marker: RecoveredMarker | None
    files: SourceFiles = field(repr=False, compare=False)

    @property
    def kind(self) -> Literal["git", "files", "recovered"]:
        """How far its identity can be told: a commit, only files, or recovered from a wheel."""
        if self.marker is not None:
            return "recovered"
        return "files" if self.checkout is None else "git"

    @property
    def commit(self) -> str | None:
        """The checkout's commit, else the stated one, else None."""
        return self.checkout.commit if self.checkout else self.stated_commit

    @property
    def tree(self) -> str | None:
        """The checkout's tree hash."""
        return self.checkout.tree if self.checkout else None

    @property
    def branch(self) -> str | None:
        """The checkout's branch; None on a detached HEAD and without a checkout."""
        return self.checkout.branch if self.checkout else None

    @property
    def dirty(self) -> bool | None:
        """Whether the checkout was changed; None where there is none to compare with."""
        return self.checkout.dirty if self.checkout else None

    @property
    def commit_time(self) -> int | None:
        """Committer time of the checkout's commit, seconds since the epoch."""
        return self.checkout.commit_time if self.checkout else None

    def read(self, path: str) -> bytes:
        """The bytes of a file of the snapshot.

        Raises:
            InputError: it is missing, no regular file, or unreadable.
        """
        return self.files.read(path)


def open_snapshot(root: Path) -> Snapshot:
    """Read a snapshot in a folder or wheel.

    Raises:
        InputError: there is none, it states no version or contradicting ones, its checkout is
            damaged.
        HostError: it is a git checkout and git is not installed.
        ToolError: git failed.
    """
    from situ_release.sources.marker import find_marker

    files = open_source(root, "snapshot")
    stated = _statement(files)
    licenses = dict(_licenses(files))
    used = (stated.source, *licenses.values())
    return Snapshot(
        where=files.where,
        version=stated.version,
        version_source=stated.source,
        checkout=(
            read_checkout(root, used, files.read) if isinstance(files, DirectoryFiles) else None
        ),
        stated_commit=stated.commit,
        licenses=licenses,
        marker=find_marker(files),
        files=files,
    )


class _Statement(NamedTuple):
    """What one file says of version and commit."""

    source: str
    version: str
    commit: str | None = None


def _statement(files: SourceFiles) -> _Statement:
    """What the snapshot states, from ``version.txt`` or else from all files of the wheel layout."""
    if files.has(VERSION_FILE):
        # A checkout's generated files may be older than the checkout, so they are not asked.
        return _checked(files, _Statement(VERSION_FILE, _text(files, VERSION_FILE).strip()))
    stated = [_checked(files, statement) for statement in _wheel_statements(files)]
    if not stated:
        raise InputError.of(
            "the snapshot states no version",
            files.where,
            expected=f"{VERSION_FILE}, *{_DIST_INFO}/METADATA or */{BUILD_META}",
            found="none of them",
            remedy="give the top folder of the source checkout, or the unpacked wheel",
        )
    if len({statement.version for statement in stated}) > 1:
        raise InputError.of(
            "the snapshot states several versions",
            files.where,
            expected="one version",
            found=", ".join(f"{each.version} in {each.source}" for each in stated),
            remedy="give a folder that holds one package alone",
        )
    commit = next((statement.commit for statement in stated if statement.commit), None)
    return stated[0]._replace(commit=commit)


def _wheel_statements(files: SourceFiles) -> Iterator[_Statement]:
    folders = sorted(files.listing().folders)
    for path in (f"{folder}/METADATA" for folder in folders if folder.endswith(_DIST_INFO)):
        if files.has(path):
            headers = _text(files, path).partition("\n\n")[0]
            yield _Statement(path, _first(_HEADER_VERSION, headers))
    for path in (f"{folder}/{BUILD_META}" for folder in folders):
        if files.has(path):
            text = _text(files, path)
            commit = _first(_META_COMMIT, text)
            known = commit if _COMMIT.fullmatch(commit) else None
            yield _Statement(path, _first(_META_VERSION, text), known)


def _checked(files: SourceFiles, statement: _Statement) -> _Statement:
    if _VERSION.fullmatch(statement.version) is None:
        raise InputError.of(
            "no version in the file that states it",
            files.place(statement.source),
            expected="a version, like 0.6.13",
            found=repr(shown(statement.version, 60)),
            remedy="restore the file from the snapshot's origin",
        )
    return statement


def _licenses(files: SourceFiles) -> Iterator[tuple[str, str]]:
    """Name and path of every licence text; of two with one name the later wins."""
    for folder in sorted(files.listing().folders):
        if folder.endswith(_DIST_INFO):
            inner = join(folder, _LICENSE_FOLDER)
            for path in _walk(files, inner):
                yield path.removeprefix(f"{inner}/"), path
    for path in _walk(files, _LICENSE_FOLDER):
        yield path, path
    for name in sorted(files.listing().files):
        if _LICENSE_NAME.fullmatch(name):
            yield name, name


def _walk(files: SourceFiles, folder: str) -> list[str]:
    return [join(here, name) for here, found in files.walk(folder) for name in sorted(found.files)]


def _text(files: SourceFiles, path: str) -> str:
    return files.read(path).decode("utf-8", errors="replace").replace("\r\n", "\n")


def _first(pattern: re.Pattern[str], text: str) -> str:
    match = pattern.search(text)
    return match[1] if match else ""
