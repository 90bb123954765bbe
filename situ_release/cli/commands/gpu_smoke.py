"""``situ-release gpu-smoke``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from situ_release.atomic import new_file
from situ_release.cli.command import Outcome, execute
from situ_release.cli.console import Console

if TYPE_CHECKING:
    from situ_release.smoke.suite import SmokeReport


def gpu_smoke(
    wheel: Annotated[Path, typer.Argument(help="The wheel whose runner is to run.")],
    tier: Annotated[
        Optional[list[str]], typer.Option(help="Tier to run; may be given several times.")
    ] = None,
    recipe: Annotated[
        Optional[str], typer.Option(help="Recipe, where it is not the one the wheel names.")
    ] = None,
    evidence: Annotated[
        Optional[Path], typer.Option(help="Write what was shown, bound to the wheel's digest.")
    ] = None,
) -> None:
    """Run the compiled runner, tier by tier, and take down what that shows."""

    def work(console: Console) -> Outcome:
        from situ_release.smoke.suite import TIERS, run_smoke
        from situ_release.wheel.bundle import open_bundle

        loaded = open_bundle(wheel, recipe).loaded

        def progress(name: str, step: str) -> None:
            if console.verbose:
                console.line(f"  {name}: {step}", meaning="dim")

        report = run_smoke(wheel, tier or TIERS, recipe=loaded, on_progress=progress)
        if evidence is not None:
            with new_file(evidence) as fresh:
                fresh.write_text(report.evidence.canonical(), encoding="utf-8")
        return _outcome(report)

    execute("gpu-smoke", work)


def _outcome(report: SmokeReport) -> Outcome:
    from situ_release.cli.output import SmokeOutput

    evidence = report.evidence
    host = evidence.host

    def show(console: Console) -> None:
        if host is not None:
            device = host.devices[0]
            console.line(
                f"device: {device.name}, sm_{device.sm}, "
                f"driver {host.driver_version or 'unknown'}, CUDA {host.runtime_cuda}"
            )
        console.table(
            ["tier", "contract", "tokens", "status", "figures"],
            [[c.tier, c.contract, c.tokens, c.status, _figures(c.figures)] for c in evidence.cases],
        )
        for tier in evidence.tiers:
            meaning = {"pass": "pass", "fail": "fail"}.get(tier.status, "warn")
            console.marked(meaning, f"{tier.status:<8}", tier.name)
        for skipped in evidence.not_run:
            console.marked("skip", "not run ", f"{skipped.tier}: {skipped.reason}")
        for problem in report.problems:
            console.error(str(problem))
        if report.log_tail:
            console.error_detail(report.log_tail)

    document = evidence.model_dump(mode="json", by_alias=True)
    return Outcome(
        SmokeOutput(
            wheel_sha256=evidence.wheel.sha256,
            runner_sha256=evidence.wheel.runner_sha256,
            device=document["host"],
            versions=document["versions"],
            tiers=document["tiers"],
            cases=document["cases"],
            not_run=document["not_run"],
            times=document["times"],
        ),
        show,
        exit_code=report.exit_code,
        problems=report.problems,
    )


def _figures(figures: dict[str, int | float]) -> str:
    return ", ".join(f"{name} {value:,}" for name, value in figures.items())
