"""Writes the documents of a release into one folder, all or none."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from situ_release.atomic import new_directory
from situ_release.digests import sha256_bytes
from situ_release.report.document import make_document
from situ_release.report.markdown import to_markdown
from situ_release.report.model import Decision
from situ_release.report.notes import release_notes, requirement
from situ_release.report.render import to_html, to_json
from situ_release.report.statement import statement
from situ_release.report.subject import Subject

MADE_BY = "report"
SUMS = "SHA256SUMS"


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A document; ``size`` in bytes."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Report:
    """What was written.

    Attributes:
        out: the folder.
        files: the documents, by name.
        decision: what they come down to.
        sbom_in_wheel: whether the bill of materials is the wheel's own.
    """

    out: Path
    files: tuple[WrittenFile, ...]
    decision: Decision
    sbom_in_wheel: bool


def write_report(subject: Subject, out: Path) -> Report:
    """Write every document.

    The same wheel, evidence, approvals and previous release give the same bytes, whenever and
    wherever: no clock, host, user or path goes into any document.

    Args:
        subject: the wheel and what is known beside it.
        out: replaced as a whole if situ-release made it, else it must be new or empty.

    Raises:
        InputError: ``out`` may not be replaced, or no bill of materials can be made.
    """
    document = make_document(subject)
    texts = {
        "PROVENANCE.md": to_markdown(document).encode(),
        "RELEASE_NOTES.md": release_notes(subject, document.decision).encode(),
        "provenance.html": to_html(document).encode(),
        "provenance.intoto.json": statement(subject).encode(),
        "provenance.json": to_json(document).encode(),
        "requirements.txt": f"{requirement(subject)}\n".encode(),
        "sbom.cdx.json": subject.sbom.data,
    }
    sums = {name: sha256_bytes(data) for name, data in texts.items()}
    sums[subject.wheel.filename] = subject.wheel.sha256
    # The format of sha256sum, which checks it: `sha256sum --check SHA256SUMS`.
    lines = (f"{digest}  {name}\n" for name, digest in sorted(sums.items()))
    texts[SUMS] = "".join(lines).encode()
    with new_directory(out, MADE_BY) as fresh:
        for name, data in texts.items():
            (fresh / name).write_bytes(data)
    return Report(
        out=out,
        files=tuple(
            WrittenFile(name, len(data), sha256_bytes(data)) for name, data in sorted(texts.items())
        ),
        decision=document.decision,
        sbom_in_wheel=subject.sbom.in_wheel,
    )
