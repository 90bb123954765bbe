"""``situ-release gpu-smoke``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from situ_release.cli.command import Outcome, execute
from situ_release.cli.console import Console

if TYPE_CHECKING:
    from situ_release.bundle.evidence import Case, Evidence
    from situ_release.smoke.suite import SmokeReport

_SHOWN = 40
"""Cases beyond this many are shown only where they failed."""


def gpu_smoke(
    wheel: Annotated[
        Path, typer.Argument(readable=False, help="The wheel whose runner is to run.")
    ],
    tier: Annotated[
        Optional[list[str]],
        typer.Option(help="Tier to run; may be given several times. [default: all on a GPU]"),
    ] = None,
    recipe: Annotated[
        Optional[str], typer.Option(help="Recipe, where it is not the one the wheel names.")
    ] = None,
    evidence: Annotated[
        Optional[Path],
        typer.Option(readable=False, help="Write what was shown, bound to the wheel's digest."),
    ] = None,
    junit: Annotated[
        Optional[Path], typer.Option(readable=False, help="Write the cases as JUnit XML, for CI.")
    ] = None,
    seeds: Annotated[
        int, typer.Option(min=1, help="Sets of random inputs that the numerics run with.")
    ] = 1,
    short: Annotated[
        bool,
        typer.Option("--short", help="Numerics with 1 and 128 tokens only, every kernel at both."),
    ] = False,
    claim_sm: Annotated[
        Optional[int],
        typer.Option(help="SM of the rehearsal's device. [default: the recipe's first]"),
    ] = None,
    sysroot: Annotated[
        Optional[Path],
        typer.Option(
            readable=False, help="Unpacked newer system whose C library the rehearsal runs on."
        ),
    ] = None,
) -> None:
    """Run the compiled runner, tier by tier, and take down what that shows."""

    def work(console: Console) -> Outcome:
        from situ_release.atomic import check_new_file, new_file
        from situ_release.cli.smoke_progress import SmokeProgress
        from situ_release.smoke.junit import junit_xml
        from situ_release.smoke.suite import DEFAULT_TIERS, TIER_NAMES, Options, run_smoke
        from situ_release.wheel.bundle import open_bundle

        loaded = open_bundle(wheel, recipe).loaded
        for output, other in ((evidence, junit), (junit, None)):
            if output is not None:
                check_new_file(output, [wheel, loaded.path, sysroot, other])
        tiers = tier or DEFAULT_TIERS
        progress = SmokeProgress(console, [name for name in TIER_NAMES if name in tiers])
        with console.live(progress.table):
            report = run_smoke(
                wheel,
                tiers,
                recipe=loaded,
                options=Options(seeds=seeds, short=short, claim_sm=claim_sm, sysroot=sysroot),
                on_update=progress.update,
            )
        for path, text in (
            (evidence, report.evidence.canonical()),
            (junit, junit_xml(report.evidence)),
        ):
            if path is not None:
                with new_file(path) as fresh:
                    fresh.write_text(text, encoding="utf-8")
        return _outcome(report)

    execute("gpu-smoke", work)


def _outcome(report: SmokeReport) -> Outcome:
    from situ_release.cli.output.gpu_smoke import SmokeOutput

    evidence = report.evidence

    def show(console: Console) -> None:
        _show(console, evidence)
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
            mutants=document["mutants"],
            advisories=document["advisories"],
            not_run=document["not_run"],
            times=document["times"],
        ),
        show,
        exit_code=report.exit_code,
        problems=report.problems,
    )


def _show(console: Console, evidence: Evidence) -> None:
    host = evidence.host
    if host is not None:
        device = host.devices[0]
        console.line(
            f"device: {device.name}, sm_{device.sm}, "
            f"driver {host.driver_version or 'unknown'}, CUDA {host.runtime_cuda}"
        )
    shown = [case for case in evidence.cases if console.verbose or case.status != "pass"]
    if len(evidence.cases) <= _SHOWN:
        shown = evidence.cases
    if shown:
        console.table(
            ["tier", "contract", "tokens", "subject", "status", "figures"],
            [_row(case) for case in shown],
        )
    if len(shown) < len(evidence.cases):
        console.line(f"{len(evidence.cases) - len(shown)} cases that passed are not shown (-v)")
    if evidence.mutants:
        caught = sum(mutant.caught for mutant in evidence.mutants)
        console.line(f"mutants: {caught} of {len(evidence.mutants)} caught")
    for tier in evidence.tiers:
        meaning = {"pass": "pass", "fail": "fail"}.get(tier.status, "warn")
        seconds = evidence.times.seconds.get(tier.name, 0.0)
        memory = tier.peak_memory_bytes
        peak = f", {memory / 2**30:.1f} GiB of GPU memory" if memory else ""
        console.marked(meaning, f"{tier.status:<8}", f"{tier.name} ({seconds:.1f} s{peak})")
    for skipped in evidence.not_run:
        console.marked("skip", "not run ", f"{skipped.tier}: {skipped.reason}")
    for advisory in evidence.advisories:
        console.line(f"advisory {advisory.outcome}: {advisory.reference}")


def _row(case: Case) -> list[object]:
    figures = ", ".join(f"{name} {_figure(value)}" for name, value in case.figures.items())
    return [case.tier, case.contract, case.tokens, case.subject, case.status, figures]


def _figure(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"
