"""The smoke suite: tiers in order, each in child processes, and what they prove taken down.

A tier fails, is refused by the host, or passes; a tier that was not run is named with the reason,
so that nobody takes its absence for success.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Literal

from situ_release import __version__
from situ_release.bundle.binaries import binaries_sha256
from situ_release.bundle.evidence import (
    AdvisoryOutcome,
    Evidence,
    NotRun,
    ProblemEntry,
    Scope,
    Tier,
    Times,
    Versions,
    WheelFacts,
    terms_sha256,
)
from situ_release.bundle.recipe import LoadedRecipe
from situ_release.bundle.smoke_policy import SmokeTier
from situ_release.errors import HostError, Problem, UsageError
from situ_release.smoke.child import FaultError
from situ_release.smoke.run import Options, Run, TierResult, Update
from situ_release.smoke.supervise import tvm_ffi_version
from situ_release.smoke.tiers.needs import host_glibc, torch_version
from situ_release.smoke.tiers.registry import DEFAULT_TIERS, TIER_NAMES, TIERS, TierSpec
from situ_release.smoke.unpack import unpacked
from situ_release.sources.runner import read_runner

__all__ = ["DEFAULT_TIERS", "TIER_NAMES", "Options", "SmokeReport", "Update", "run_smoke"]


@dataclass(frozen=True, slots=True)
class SmokeReport:
    """What a run showed.

    Attributes:
        evidence: the document.
        problems: everything that went wrong or was refused, in order, each once.
        log_tail: the last lines of children that crashed; "" without one.
    """

    evidence: Evidence
    problems: tuple[Problem, ...]
    log_tail: str

    @property
    def exit_code(self) -> int:
        """1 when a tier failed, else 4 when one was refused, else 0."""
        found = {tier.status for tier in self.evidence.tiers}
        if "fail" in found:
            return FaultError.exit_code
        return HostError.exit_code if "refused" in found else 0


def run_smoke(
    wheel: Path,
    tiers: Sequence[str],
    *,
    recipe: LoadedRecipe,
    options: Options | None = None,
    on_update: Callable[[Update], None] | None = None,
) -> SmokeReport:
    """Run tiers of the suite on a wheel.

    Args:
        wheel: the wheel file.
        tiers: names from :data:`TIER_NAMES`.
        recipe: the recipe of the wheel.
        options: how much is asked for.
        on_update: told what is being done.

    Raises:
        UsageError: an unknown tier, or none.
        InputError: the file is no sound wheel, or its binaries differ from its manifest.
    """
    _check_names(tiers)
    options = options or Options()
    started = datetime.now(timezone.utc)
    with unpacked(wheel, recipe.recipe.package.import_name) as bundle:
        runner = read_runner(bundle.runner, f"{wheel}: {bundle.manifest.runner.path}")
        code = bundle.device_code(runner)
        run = Run(bundle, runner, recipe.recipe, options, on_update or (lambda update: None))
        results = {spec.name: _run_tier(spec, run) for spec in TIERS if spec.name in tiers}
        evidence = Evidence(
            schema="situ-release/evidence/1",
            recipe=recipe.recipe.name,
            recipe_sha256=recipe.sha256,
            terms_sha256=terms_sha256(recipe.recipe),
            tolerance=recipe.recipe.smoke.tolerance,
            scope=Scope(short=options.short, seeds=options.seeds),
            wheel=WheelFacts(
                filename=wheel.name,
                sha256=bundle.sha256,
                runner_sha256=bundle.manifest.runner.sha256,
                binaries_sha256=binaries_sha256(bundle.manifest),
                device_code=code,
            ),
            host=run.host,
            versions=Versions(
                situ_release=__version__,
                python=platform.python_version(),
                glibc=host_glibc(),
                apache_tvm_ffi=tvm_ffi_version(),
                torch=torch_version(),
            ),
            tiers=[
                Tier(
                    name=spec.name,
                    status=results[spec.name].status,
                    problems=[ProblemEntry(**p.as_dict()) for p in results[spec.name].problems],
                    peak_memory_bytes=results[spec.name].peak_memory_bytes,
                )
                for spec in TIERS
                if spec.name in results
            ],
            cases=run.cases,
            mutants=run.mutants,
            advisories=list(_advisories(run, results)),
            not_run=[
                *run.not_run,
                *(
                    NotRun(tier=name, reason="not asked for")
                    for name in TIER_NAMES
                    if name not in tiers
                ),
            ],
            times=Times(started_at=started.isoformat(timespec="seconds"), seconds=run.seconds),
        )
    problems = (problem for result in results.values() for problem in result.problems)
    return SmokeReport(evidence, tuple(dict.fromkeys(problems)), "\n".join(run.logs))


def _check_names(tiers: Sequence[str]) -> None:
    unknown = [name for name in tiers if name not in TIER_NAMES]
    if unknown or not tiers:
        raise UsageError.of(
            "unknown tier" if unknown else "no tier was asked for",
            "--tier",
            expected=f"one of {', '.join(TIER_NAMES)}",
            found=", ".join(unknown) or "none",
            remedy="name a tier of the list",
        )


def _run_tier(spec: TierSpec, run: Run) -> TierResult:
    run.update(spec.name, "starting")
    started = time.monotonic()
    lacking = [problem for need in spec.needs for problem in need(run)]
    result = TierResult(tuple(lacking), refused=True) if lacking else spec.run(run)
    run.seconds[spec.name] = round(time.monotonic() - started, 3)
    run.update(spec.name, "", result.status)
    return result


def _advisories(run: Run, results: Mapping[SmokeTier, TierResult]) -> Iterator[AdvisoryOutcome]:
    """What the guards showed about the advisories of this very runner.

    A tier may also fail for other reasons, and then it shows nothing about them.
    """
    for advisory in run.recipe.advisories:
        tier = advisory.settled_by
        if tier is None or advisory.sha256 != run.bundle.manifest.runner.sha256:
            continue
        outcome: Literal["reproduced", "not reproduced", "open"] = "open"
        if any(case.tier == tier and case.figures.get("guards_changed") for case in run.cases):
            outcome = "reproduced"
        elif tier in results and results[tier].status == "pass":
            outcome = "not reproduced"
        yield AdvisoryOutcome(reference=advisory.reference, tier=tier, outcome=outcome)
