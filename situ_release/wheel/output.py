"""A finished wheel: what it is, and how it reaches its folder."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from situ_release import atomic
from situ_release.digests import sha256_file
from situ_release.wheel.dist_info import parse_wheel_name


@dataclass(frozen=True, slots=True)
class WheelFile:
    """A wheel on disk.

    Attributes:
        path: the file.
        size: in bytes.
        sha256: its digest.
        tag: as in its name, ``py3-none-manylinux_2_39_x86_64``.
        notes: what the tools said that a maintainer should know and need not act on.
    """

    path: Path
    size: int
    sha256: str
    tag: str
    notes: tuple[str, ...] = ()


def place_wheel(finished: Path, folder: Path, notes: tuple[str, ...] = ()) -> WheelFile:
    """Copy a proven wheel into ``folder`` in one step, replacing one of the same name.

    Raises:
        InputError: the folder cannot be written.
    """
    target = folder / finished.name
    with atomic.new_file(target) as fresh:
        shutil.copyfile(finished, fresh)
        size, sha256 = fresh.stat().st_size, sha256_file(fresh)
    return WheelFile(target, size, sha256, parse_wheel_name(target.name).tag, notes)
