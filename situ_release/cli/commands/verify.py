"""``situ-release verify``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from situ_release.cli.command import Outcome, execute
from situ_release.cli.console import Console

if TYPE_CHECKING:
    from situ_release.checks.model import CheckResult, VerifyReport


def verify(
    wheel: Annotated[Path, typer.Argument(readable=False, help="The wheel to check.")],
    recipe: Annotated[
        Optional[str], typer.Option(help="Recipe, where it is not the one the wheel names.")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Warnings fail, too.")] = False,
    select: Annotated[
        Optional[list[str]],
        typer.Option(help="Only these checks, by id or its first part; repeat or use commas."),
    ] = None,
    ignore: Annotated[
        Optional[list[str]], typer.Option(help="Leave these checks out; repeat or use commas.")
    ] = None,
    sarif: Annotated[
        Optional[Path], typer.Option(readable=False, help="Write the findings as SARIF 2.1.0, too.")
    ] = None,
    for_publication: Annotated[
        bool,
        typer.Option("--for-publication", help="Also whether the wheel may be published."),
    ] = False,
    approvals: Annotated[
        Optional[Path],
        typer.Option(readable=False, help="What reviewers decided (with --for-publication)."),
    ] = None,
    allowed_signers: Annotated[
        Optional[Path],
        typer.Option(
            readable=False, help="Who may decide, as in ssh-keygen(1) (with --for-publication)."
        ),
    ] = None,
    evidence: Annotated[
        Optional[Path],
        typer.Option(readable=False, help="What gpu-smoke took down (with --for-publication)."),
    ] = None,
) -> None:
    """Check everything about a wheel and list every finding."""

    def work(console: Console) -> Outcome:
        from situ_release.atomic import check_new_file
        from situ_release.checks.verify import verify_wheel
        from situ_release.cli.gate_inputs import gate_inputs

        gate = None
        if for_publication:
            gate = gate_inputs(approvals, allowed_signers, evidence)
        elif given := [
            name
            for name, value in (
                ("--approvals", approvals),
                ("--allowed-signers", allowed_signers),
                ("--evidence", evidence),
            )
            if value is not None
        ]:
            raise _without_the_gate(given)
        if sarif is not None:
            own_recipe = Path(recipe) if recipe and recipe.endswith(".toml") else None
            check_new_file(sarif, [wheel, own_recipe, approvals, allowed_signers, evidence])
        report = verify_wheel(
            wheel,
            recipe=recipe,
            select=_ids(select),
            ignore=_ids(ignore),
            strict=strict,
            gate=gate,
        )
        _publish(console, wheel, report, sarif)
        return _outcome(wheel, report)

    execute("verify", work)


def _ids(options: list[str] | None) -> list[str]:
    return [part for option in options or [] for part in option.split(",") if part]


def _without_the_gate(given: list[str]) -> Exception:
    from situ_release.errors import UsageError

    return UsageError.of(
        "nothing looks at these files",
        " ".join(given),
        expected="--for-publication beside them",
        found="a plain verify",
        remedy="add --for-publication",
    )


def _publish(console: Console, wheel: Path, report: VerifyReport, sarif: Path | None) -> None:
    """Everything that is for other programs than a person's eyes."""
    from situ_release.cli import github

    if sarif is not None:
        from situ_release.atomic import new_file
        from situ_release.cli.sarif import sarif_text

        with new_file(sarif) as fresh:
            fresh.write_text(sarif_text(report, wheel), encoding="utf-8")
    if github.on_github():
        for line in github.annotation_lines(report, wheel):
            console.command(line)
        github.write_summary(report)


def _outcome(wheel: Path, report: VerifyReport) -> Outcome:
    from situ_release.cli.output.verify import (
        CheckOutput,
        FindingOutput,
        OpenPoint,
        VerifiedWheel,
        VerifyOutput,
    )

    def show(console: Console) -> None:
        for check in report.checks:
            _show_check(console, check)
        if report.for_publication:
            _show_open_points(console, report)
        counts = ", ".join(f"{count} {status}" for status, count in report.summary.items())
        meaning = "pass" if report.ok else "fail"
        console.marked(meaning, f"{wheel.name}: {report.verdict}", f" ({counts})")

    return Outcome(
        VerifyOutput(
            wheel=VerifiedWheel(str(wheel), report.wheel.size, report.wheel.sha256),
            recipe=report.recipe,
            strict=report.strict,
            for_publication=report.for_publication,
            checks=[
                CheckOutput(
                    check.id,
                    check.status,
                    [
                        FindingOutput(f.severity, f.subject, f.message, f.remedy, f.who)
                        for f in check.findings
                    ],
                )
                for check in report.checks
            ],
            open=[
                OpenPoint(check.id, finding.subject, finding.message, finding.who, finding.remedy)
                for check, finding in report.open_points
            ],
            summary=dict(report.summary),
        ),
        show,
        exit_code=report.exit_code,
    )


def _show_check(console: Console, check: CheckResult) -> None:
    findings = [f for f in check.findings if console.verbose or f.severity != "note"]
    if not findings and check.status == "pass" and not console.verbose:
        return
    console.marked(check.status, f"{check.status:<4}", f" {check.id}")
    for finding in findings:
        console.line(f"       {finding.subject}: {finding.message}")
        if finding.remedy:
            console.line(f"       -> {finding.who}: {finding.remedy}", meaning="dim")


def _show_open_points(console: Console, report: VerifyReport) -> None:
    """What stands against publication, by who must act."""
    by_actor: dict[str, list[str]] = {}
    for check, finding in report.open_points:
        by_actor.setdefault(finding.who, []).append(f"{check.id}: {finding.subject}")
    if by_actor:
        console.line()
        console.line(f"open before publication: {len(report.open_points)}", meaning="head")
        for who, points in by_actor.items():
            console.line(f"  {who}")
            for point in points:
                console.line(f"    {point}")
        console.line()
