"""Fields of ``coverage``."""

from __future__ import annotations

from dataclasses import dataclass

from situ_release.cli.output.common import FileDigest


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
class TacticListOutput:
    """The tactic list of one problem, in the runner's order."""

    device: str
    contract: str
    tokens: int
    tactics: list[tuple[int, int]]


@dataclass(frozen=True)
class CoverageOutput:
    """Fields of ``coverage``; ``devices`` by name (``sm103``)."""

    wheel: FileDigest
    recipe: str
    rules: str
    devices: dict[str, DeviceOutput]
    tactics: list[TacticListOutput] | None
