"""Two wheels compared as zip files: everything that is not the files' own content."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from situ_release.digests import sha256_file
from situ_release.wheel.archive import Member, WheelArchive, examine_wheel


@dataclass(frozen=True, slots=True)
class WheelState:
    """A wheel file; ``size`` in bytes."""

    path: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class ContainerComparison:
    """How two wheels differ as zip files.

    Attributes:
        compression: files of equal content that take another number of bytes or another method.
        dates: files of one name with another date.
        modes: files of one name with other permissions.
        order: files of both are in another order.
        folders: entries for folders that only one of them has.
        other: the same files, nothing of the above differs, and still not the same bytes.
    """

    old: WheelState
    new: WheelState
    compression: tuple[str, ...]
    dates: tuple[str, ...]
    modes: tuple[str, ...]
    order: bool
    folders: tuple[str, ...]
    other: bool

    @property
    def same_bytes(self) -> bool:
        """Whether both wheels are the same file."""
        return self.old.sha256 == self.new.sha256


def compare_containers(
    old: Path,
    new: Path,
    paths: Mapping[str, tuple[str, str]],
    equal: frozenset[str],
    *,
    contents_identical: bool,
) -> ContainerComparison:
    """Compare two wheels as zip files.

    Args:
        old: a wheel.
        new: another.
        paths: by label the names in the old and the new one, for files that are in both.
        equal: labels of files with equal content.
        contents_identical: whether both hold the same files with the same content.

    Raises:
        InputError: one cannot be read.
    """
    archives = [examine_wheel(path) for path in (old, new)]
    before, after = ({member.name: member for member in a.members} for a in archives)
    pairs = {label: (before[o], after[n]) for label, (o, n) in paths.items()}
    compression = tuple(
        label
        for label, (first, second) in pairs.items()
        if label in equal and _packing(first) != _packing(second)
    )
    dates = tuple(label for label, (first, second) in pairs.items() if first.date != second.date)
    modes = tuple(label for label, (first, second) in pairs.items() if first.mode != second.mode)
    order = sorted(pairs, key=lambda label: pairs[label][0].offset) != sorted(
        pairs, key=lambda label: pairs[label][1].offset
    )
    folders = tuple(sorted(_folders(archives[0]) ^ _folders(archives[1])))
    states = [WheelState(str(p), p.stat().st_size, sha256_file(p)) for p in (old, new)]
    explained = compression or dates or modes or order or folders or not contents_identical
    return ContainerComparison(
        old=states[0],
        new=states[1],
        compression=compression,
        dates=dates,
        modes=modes,
        order=order,
        folders=folders,
        other=states[0].sha256 != states[1].sha256 and not explained,
    )


def _packing(member: Member) -> tuple[int, int]:
    return member.compression, member.compressed_size


def _folders(archive: WheelArchive) -> set[str]:
    return {
        member.name
        for member in archive.members
        if member.is_dir and not member.name.split("/")[0].endswith(".dist-info")
    }
