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
    wheel: Annotated[Path, typer.Argument(help="The wheel to check.")],
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
) -> None:
    """Check everything about a wheel and list every finding."""

    def work(console: Console) -> Outcome:
        from situ_release.checks.verify import verify_wheel

        report = verify_wheel(
            wheel,
            recipe=recipe,
            select=_ids(select),
            ignore=_ids(ignore),
            strict=strict,
        )
        return _outcome(wheel, report, strict=strict)

    execute("verify", work)


def _ids(options: list[str] | None) -> list[str]:
    return [part for option in options or [] for part in option.split(",") if part]


def _outcome(wheel: Path, report: VerifyReport, *, strict: bool) -> Outcome:
    from situ_release.cli.output.verify import (
        CheckOutput,
        FindingOutput,
        VerifiedWheel,
        VerifyOutput,
    )

    def show(console: Console) -> None:
        for check in report.checks:
            _show_check(console, check)
        counts = ", ".join(f"{count} {status}" for status, count in report.summary.items())
        verdict = "ok" if report.exit_code == 0 else "NOT ok"
        meaning = "pass" if report.exit_code == 0 else "fail"
        console.marked(meaning, f"{wheel.name}: {verdict}", f" ({counts})")

    return Outcome(
        VerifyOutput(
            wheel=VerifiedWheel(str(wheel), report.wheel.size, report.wheel.sha256),
            recipe=report.recipe,
            strict=strict,
            checks=[
                CheckOutput(
                    check.id,
                    check.status,
                    [
                        FindingOutput(f.severity, f.subject, f.message, f.remedy)
                        for f in check.findings
                    ],
                )
                for check in report.checks
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
            console.line(f"       -> {finding.remedy}", meaning="dim")
