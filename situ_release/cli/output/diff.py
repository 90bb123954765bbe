"""Fields of ``diff``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class BinariesOutput:
    """The binaries of ``diff``: each has at least ``path``; ``changed`` ones a ``comparison``."""

    changed: list[dict[str, Any]]
    added: list[dict[str, Any]]
    removed: list[dict[str, Any]]
    same: list[dict[str, Any]]


@dataclass(frozen=True)
class DiffOutput:
    """Fields of ``diff``.

    ``identical`` decides the exit code; ``contents_identical`` leaves the zip around the files out.
    ``manifest`` is null where neither side has one, ``kernel_table`` where neither has a table or
    one cannot be read, ``compression`` for anything but wheels. ``problems`` says what could not be
    compared.
    """

    kind: str
    old: str
    new: str
    headline: str
    identical: bool
    contents_identical: bool
    binaries: BinariesOutput
    kernel_table: dict[str, Any] | None
    manifest: list[dict[str, Any]] | None
    metadata: list[dict[str, Any]]
    python: list[dict[str, Any]]
    files: list[dict[str, Any]]
    compression: dict[str, Any] | None
    problems: list[dict[str, Any]]
