"""The JSON fields of each command, as typed records; the JSON Schemas are generated from them.

Paths are as given on the command line or below it; sizes are bytes; digests are SHA-256 in
lower-case hexadecimal.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


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


@dataclass(frozen=True)
class BuildOutput:
    """Fields of ``build`` and ``repair``."""

    wheel: WheelFile
    warnings: list[str]


@dataclass(frozen=True)
class FindingOutput:
    """One finding of a check."""

    severity: str
    subject: str
    message: str
    remedy: str


@dataclass(frozen=True)
class CheckOutput:
    """One check of ``verify``."""

    id: str
    status: str
    findings: list[FindingOutput]


@dataclass(frozen=True)
class VerifiedWheel:
    """The wheel that was verified."""

    path: str
    size: int
    sha256: str


@dataclass(frozen=True)
class VerifyOutput:
    """Fields of ``verify``; ``summary`` counts checks by status."""

    wheel: VerifiedWheel
    recipe: str | None
    strict: bool
    checks: list[CheckOutput]
    summary: dict[str, int]


@dataclass(frozen=True)
class InspectOutput:
    """Fields of ``inspect``; ``facts`` depends on ``kind``."""

    path: str
    kind: str
    facts: dict[str, Any]


@dataclass(frozen=True)
class ContractOutput:
    """One contract of ``coverage``."""

    name: str
    tactics: int
    passing: int
    selectable: list[str]
    default: list[str]
    missing: list[str]
    unreachable: list[str]


@dataclass(frozen=True)
class DeviceOutput:
    """One device of ``coverage``."""

    target: bool
    runs: bool
    device_code: list[str]
    selectable: int
    missing: list[str]
    unreachable: list[str]
    unreachable_bytes: int
    contracts: list[ContractOutput]


@dataclass(frozen=True)
class CoverageOutput:
    """Fields of ``coverage``; ``devices`` by name (``sm103``)."""

    wheel: FileDigest
    recipe: str
    rules: str
    devices: dict[str, DeviceOutput]
    tactics: list[TacticListOutput] | None


@dataclass(frozen=True)
class TacticListOutput:
    """The tactic list of one problem, in the runner's order."""

    device: str
    contract: str
    tokens: int
    tactics: list[tuple[int, int]]


@dataclass(frozen=True)
class SmokeOutput:
    """Fields of ``gpu-smoke``, as in the evidence document; ``device`` is null without one."""

    wheel_sha256: str
    runner_sha256: str
    device: dict[str, Any] | None
    versions: dict[str, Any]
    tiers: list[dict[str, Any]]
    cases: list[dict[str, Any]]
    mutants: list[dict[str, Any]]
    advisories: list[dict[str, Any]]
    not_run: list[dict[str, Any]]
    times: dict[str, Any]


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
