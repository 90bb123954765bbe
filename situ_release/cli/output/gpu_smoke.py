"""Fields of ``gpu-smoke``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


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
