"""``situ-release report``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from situ_release.cli.command import Outcome, execute
from situ_release.cli.console import Console
from situ_release.text import size_text

if TYPE_CHECKING:
    from situ_release.report.subject import Subject
    from situ_release.report.write import Report


def report(
    wheel: Annotated[Path, typer.Argument(readable=False, help="The wheel to report on.")],
    out: Annotated[Path, typer.Option(readable=False, help="Folder for the documents.")],
    evidence: Annotated[
        Optional[Path],
        typer.Option(readable=False, help="Evidence that gpu-smoke took down for this wheel."),
    ] = None,
    approvals: Annotated[
        Optional[Path], typer.Option(readable=False, help="What reviewers recorded with approve.")
    ] = None,
    allowed_signers: Annotated[
        Optional[Path],
        typer.Option(readable=False, help="Who may decide, as ssh-keygen's ALLOWED SIGNERS."),
    ] = None,
    previous: Annotated[
        Optional[Path],
        typer.Option(readable=False, help="The release before, to say what changed."),
    ] = None,
    recipe: Annotated[
        Optional[str], typer.Option(help="Recipe, where it is not the one the wheel names.")
    ] = None,
) -> None:
    """Write what a reviewer decides from: provenance, bill of materials, statement, notes."""

    def work(console: Console) -> Outcome:
        from situ_release.atomic import check_apart, check_replaceable, check_writable
        from situ_release.cli.gate_inputs import gate_inputs
        from situ_release.report.subject import read_subject
        from situ_release.report.write import write_report

        check_apart(out, [wheel, evidence, approvals, allowed_signers, previous])
        check_replaceable(out)
        check_writable(out)
        subject = read_subject(
            wheel,
            gate=gate_inputs(approvals, allowed_signers, evidence, reproducible=True),
            recipe=recipe,
            previous=previous,
        )
        return _outcome(wheel, subject, write_report(subject, out))

    execute("report", work)


def _outcome(wheel: Path, subject: Subject, written: Report) -> Outcome:
    from situ_release.cli.output.common import FileDigest
    from situ_release.cli.output.report import DocumentOutput, PointOutput, ReportOutput

    decision = written.decision

    def show(console: Console) -> None:
        console.marked("pass" if decision.cleared else "fail", decision.headline, f": {wheel.name}")
        for point in decision.points:
            mark = "open " if point.severity == "blocking" else "weigh"
            console.marked(
                "fail" if point.severity == "blocking" else "warn", mark, f" {point.title}"
            )
            console.line(f"      {point.who}: {point.action}", meaning="dim")
        if not written.sbom_in_wheel:
            console.line("The wheel carries no bill of materials; one was made for the report.")
        for file in written.files:
            console.line(f"  {written.out / file.name}  {size_text(file.size)}")

    return Outcome(
        ReportOutput(
            out=str(written.out),
            wheel=FileDigest(str(wheel), subject.wheel.sha256),
            recipe=subject.recipe.name,
            cleared=decision.cleared,
            headline=decision.headline,
            points=[
                PointOutput(p.severity, p.title, p.who, p.action, str(p.source))
                for p in decision.points
            ],
            sbom_in_wheel=written.sbom_in_wheel,
            documents=[
                DocumentOutput(str(written.out / file.name), file.size, file.sha256)
                for file in written.files
            ],
        ),
        show,
    )
