"""Fields of ``verify``."""

from __future__ import annotations

from dataclasses import dataclass


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
