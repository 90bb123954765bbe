"""Fields of ``recover``."""

from __future__ import annotations

from dataclasses import dataclass

from situ_release.cli.output.common import FileDigest


@dataclass(frozen=True)
class RecoverOutput:
    """Fields of ``recover``."""

    out: str
    wheel: FileDigest
    snapshot: str
    pool: str
    module: FileDigest
    cubin_count: int
    metadata_entries: int
    not_recovered: list[str]
