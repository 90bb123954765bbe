"""Fields of ``report``."""

from __future__ import annotations

from dataclasses import dataclass

from situ_release.cli.output.common import FileDigest


@dataclass(frozen=True)
class DocumentOutput:
    """A document that was written."""

    path: str
    size: int
    sha256: str


@dataclass(frozen=True)
class PointOutput:
    """Something that a person has to settle; ``severity`` is ``blocking`` or ``attention``."""

    severity: str
    title: str
    who: str
    action: str
    source: str


@dataclass(frozen=True)
class ReportOutput:
    """Fields of ``report``; ``sbom_in_wheel`` is false where the bill was made for the report."""

    out: str
    wheel: FileDigest
    recipe: str
    cleared: bool
    headline: str
    points: list[PointOutput]
    sbom_in_wheel: bool
    documents: list[DocumentOutput]
