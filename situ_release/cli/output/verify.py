"""Fields of ``verify``."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FindingOutput:
    """One finding of a check; ``remedy`` and ``who`` (must act) are empty for notes."""

    severity: str
    subject: str
    message: str
    remedy: str
    who: str


@dataclass(frozen=True)
class CheckOutput:
    """One check of ``verify``."""

    id: str
    status: str
    findings: list[FindingOutput]


@dataclass(frozen=True)
class OpenPoint:
    """Something that keeps ``verify`` from being ok: what, and who must do what about it."""

    check: str
    subject: str
    message: str
    who: str
    remedy: str


@dataclass(frozen=True)
class VerifiedWheel:
    """The wheel that was verified."""

    path: str
    size: int
    sha256: str


@dataclass(frozen=True)
class VerifyOutput:
    """Fields of ``verify``; ``summary`` counts checks by status, ``open`` is empty when ok."""

    wheel: VerifiedWheel
    recipe: str | None
    strict: bool
    for_publication: bool
    checks: list[CheckOutput]
    open: list[OpenPoint]
    summary: dict[str, int]
