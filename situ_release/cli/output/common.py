"""Records that several commands share."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FileDigest:
    """A file and its digest."""

    path: str
    sha256: str


@dataclass(frozen=True)
class NamedDigest:
    """Something with a name and a digest."""

    name: str
    sha256: str


@dataclass(frozen=True)
class WheelFile:
    """A wheel that was written."""

    path: str
    size: int
    sha256: str
    tag: str
