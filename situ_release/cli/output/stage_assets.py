"""Fields of ``stage-assets``."""

from __future__ import annotations

from dataclasses import dataclass, field

from situ_release.cli.output.common import FileDigest, NamedDigest


@dataclass(frozen=True)
class FamilyOutput:
    """One family of ``stage-assets``."""

    name: str
    role: str
    expected: int
    selected: int
    bytes: int


@dataclass(frozen=True)
class LockOutput:
    """Staged against reviewed binaries; ``matches`` is null without a lock."""

    path: str
    matches: bool | None
    differences: list[str]


@dataclass(frozen=True)
class StageOutput:
    """Fields of ``stage-assets``."""

    recipe: NamedDigest
    payload: str
    dry_run: bool
    package_version: str
    generated_at: str
    gpu_validated: bool
    manifest: FileDigest
    families: list[FamilyOutput]
    cubin_count: int
    recovered_from: NamedDigest | None
    lock: LockOutput
    warnings: list[str]


@dataclass(frozen=True)
class VerdictOutput:
    """What one family says of one kernel."""

    family: str
    taken: bool
    refusals: list[str]


@dataclass(frozen=True)
class ExplainOutput:
    """Fields of ``stage-assets --explain``; ``in_table`` is null without ``--pool-root``."""

    recipe: NamedDigest
    kernel: str
    filename: str
    in_table: bool | None
    families: list[VerdictOutput]
    warnings: list[str] = field(default_factory=list)
