"""One side of a comparison: the files of a wheel, payload or pool, each read and hashed once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from situ_release.atomic import OWNER_FILE
from situ_release.bundle.manifest import MANIFEST_NAME
from situ_release.digests import sha256_bytes
from situ_release.errors import InputError, Problem, UsageError, raise_all
from situ_release.inspection.facts.wheel import payload_names
from situ_release.inspection.identify import ELF, Identified, Kind, identify
from situ_release.sources.files import SourceFiles, join
from situ_release.wheel.archive import on_all_cores
from situ_release.wheel.dist_info import DIST_INFO

COMPARABLE: tuple[Kind, ...] = ("wheel", "payload", "pool", "cubin", "runner")

DIST_INFO_LABEL = f"*{DIST_INFO}"
"""Stands for the dist-info folder, whose name holds the version and so differs in every release."""

SINGLE = "the file"
"""Label of the one file where two files are compared and not two folders."""


@dataclass(frozen=True, slots=True)
class FileState:
    """A file as it is on one side; ``size`` in bytes."""

    size: int
    sha256: str
    is_elf: bool


@dataclass(frozen=True)
class Side:
    """One of the two things.

    Attributes:
        kind: what it is.
        path: as the user gave it.
        states: every file by label: its path, with :data:`DIST_INFO_LABEL` for the dist-info folder
            of a wheel.
        paths: the real path by label.
        package: the import package with a manifest; None without one.
    """

    kind: Kind
    path: Path
    states: Mapping[str, FileState]
    paths: Mapping[str, str]
    package: str | None
    _files: SourceFiles | None
    _data: bytes

    def read(self, label: str) -> bytes:
        """The content of a file.

        Raises:
            InputError: it cannot be read.
        """
        return self._data if self._files is None else self._files.read(self.paths[label])

    @property
    def manifest_label(self) -> str | None:
        """The label of the manifest; None without one."""
        return None if self.package is None else join(self.package, MANIFEST_NAME)


def open_sides(old: Path, new: Path) -> tuple[Side, Side]:
    """Open and read both.

    Raises:
        InputError: one cannot be read, is damaged, or is nothing that can be compared.
        UsageError: they are of different kinds.
    """
    identified = [identify(path) for path in (old, new)]
    for side in identified:
        if side.kind not in COMPARABLE:
            raise InputError.of(
                "this cannot be compared",
                side.path,
                expected="a wheel, a payload, a pool, a cubin or a library",
                found=f"a {side.kind}",
                remedy="compare what it belongs to",
            )
    kinds = [side.kind for side in identified]
    if kinds[0] != kinds[1]:
        raise UsageError.of(
            "two different kinds of things cannot be compared",
            "situ-release diff",
            expected="two wheels, two payloads or two pools",
            found=f"a {kinds[0]} and a {kinds[1]}",
            remedy="compare a wheel with a wheel; `inspect` shows what one says",
        )
    return _open(identified[0]), _open(identified[1])


def _open(identified: Identified) -> Side:
    files = identified.files
    if files is None:
        states = {SINGLE: _state(identified.data)}
        return Side(
            identified.kind,
            identified.path,
            states,
            {SINGLE: str(identified.path)},
            None,
            None,
            identified.data,
        )
    names = _names(files, identified.kind)
    labels = {_label(name, identified.kind): name for name in names}
    read = on_all_cores(lambda name: _read(files, name), list(labels.values()))
    raise_all(InputError, [p for item in read if isinstance(item, tuple) for p in item])
    states = {
        label: item for label, item in zip(labels, read, strict=True) if isinstance(item, FileState)
    }
    packages = sorted(
        name.split("/")[0]
        for name in names
        if name.count("/") == 1 and name.endswith(f"/{MANIFEST_NAME}")
    )
    package = packages[0] if len(packages) == 1 else None
    return Side(identified.kind, identified.path, states, labels, package, files, b"")


def _names(files: SourceFiles, kind: Kind) -> list[str]:
    """The files to compare; what cannot be compared is an error and never left out."""
    raise_all(
        InputError,
        (
            Problem(
                "cannot be compared",
                files.place(join(folder, name)),
                expected="regular files alone",
                found=reason,
                remedy="put the file itself there",
            )
            for folder, listing in files.walk()
            for name, reason in listing.refused.items()
        ),
    )
    if kind == "payload":
        return [name for name in payload_names(files) if name != OWNER_FILE]
    return sorted(join(folder, name) for folder, found in files.walk() for name in found.files)


def _label(name: str, kind: Kind) -> str:
    top, slash, rest = name.partition("/")
    inside = kind in ("wheel", "payload") and slash and top.endswith(DIST_INFO)
    return f"{DIST_INFO_LABEL}/{rest}" if inside else name


def _read(files: SourceFiles, name: str) -> FileState | tuple[Problem, ...]:
    try:
        return _state(files.read(name))
    except InputError as error:
        return error.problems


def _state(data: bytes) -> FileState:
    return FileState(len(data), sha256_bytes(data), data.startswith(ELF))
