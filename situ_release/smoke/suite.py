"""The smoke suite: tiers in order, each in a child process, and what they prove taken down.

A tier fails, is refused by the host, or passes; a tier that was not run is named with the reason,
so that nobody takes its absence for success.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from situ_release import __version__
from situ_release.bundle.coverage import CoverageModel
from situ_release.bundle.recipe import LoadedRecipe, Recipe
from situ_release.errors import HostError, Problem, UsageError
from situ_release.smoke.child import FaultError
from situ_release.smoke.evidence import (
    Case,
    Evidence,
    HostFacts,
    NotRun,
    ProblemEntry,
    Status,
    Tier,
    Times,
    Versions,
    WheelFacts,
)
from situ_release.smoke.supervise import Event, Outcome, run_child, tvm_ffi_version
from situ_release.smoke.unpack import UnpackedWheel, unpacked
from situ_release.sources.runner import Runner, read_runner

TIERS = ("load",)
"""Every tier, in the order they run."""

LOAD_TOKENS = (1, 128, 4096)
"""Token counts that ``load`` asks tactics for: decode, the first tiles, and the last ones."""

PROBE_LIMIT_S = 60.0
LOAD_LIMIT_S = 120.0

Tactic = tuple[int, int]
"""``(tile_n, config)``, as the runner numbers them."""

Progress = Callable[[str, str], None]
"""Called with a tier's name and the step it begins, from another thread."""


@dataclass(frozen=True, slots=True)
class SmokeReport:
    """What a run showed.

    Attributes:
        evidence: the document.
        problems: everything that went wrong or was refused, in order.
        log_tail: the last lines of a child that crashed; "" without one.
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
    on_progress: Progress | None = None,
) -> SmokeReport:
    """Run tiers of the suite on a wheel.

    Args:
        wheel: the wheel file.
        tiers: names from :data:`TIERS`.
        recipe: the recipe of the wheel.
        on_progress: told what is being done.

    Raises:
        UsageError: an unknown tier, or none.
        InputError: the file is no sound wheel, or its binaries differ from its manifest.
    """
    unknown = [name for name in tiers if name not in TIERS]
    if unknown or not tiers:
        raise UsageError.of(
            "unknown tier" if unknown else "no tier was asked for",
            "--tier",
            expected=f"one of {', '.join(TIERS)}",
            found=", ".join(unknown) or "none",
            remedy="name a tier of the list",
        )
    started = datetime.now(timezone.utc)
    with unpacked(wheel, recipe.recipe.package.import_name) as bundle:
        runner = read_runner(bundle.runner, f"{wheel}: {bundle.manifest.runner.path}")
        run = _Run(bundle, runner, recipe.recipe, on_progress or (lambda tier, step: None))
        run.all(tiers)
        evidence = Evidence(
            schema="situ-release/evidence/1",
            recipe=recipe.recipe.name,
            recipe_sha256=recipe.sha256,
            wheel=WheelFacts(
                filename=wheel.name,
                sha256=bundle.sha256,
                runner_sha256=bundle.manifest.runner.sha256,
                binaries_sha256=bundle.binaries_sha256,
            ),
            host=run.host,
            versions=Versions(
                situ_release=__version__,
                python=platform.python_version(),
                glibc=host_glibc(),
                apache_tvm_ffi=tvm_ffi_version(),
            ),
            tiers=run.tiers,
            cases=run.cases,
            not_run=[
                NotRun(tier=name, reason="not asked for") for name in TIERS if name not in tiers
            ],
            times=Times(started_at=started.isoformat(timespec="seconds"), seconds=run.seconds),
        )
    return SmokeReport(evidence, tuple(run.problems), "\n".join(run.logs))


def host_glibc() -> str:
    """The version of this host's glibc ("2.36"); "none" where the C library is another one."""
    try:
        name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
    except ValueError:
        return "none"
    return version if name == "glibc" else "none"


@dataclass(slots=True)
class _Run:
    """The state of one run: what has been found so far."""

    bundle: UnpackedWheel
    runner: Runner
    recipe: Recipe
    on_progress: Progress
    host: HostFacts | None = None
    tiers: list[Tier] = field(default_factory=list)
    cases: list[Case] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    logs: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    def all(self, tiers: Sequence[str]) -> None:
        lacking = list(_library_problems(self.runner, self.recipe))
        probe = self._child("probe", self._probe_request(), PROBE_LIMIT_S)
        for name in (name for name in TIERS if name in tiers):
            if lacking or probe.problems:
                self._close(name, "refused", [*lacking, *probe.problems])
        if lacking or probe.problems:
            return
        (facts,) = probe.select("host")
        self.host = HostFacts.model_validate({name: facts[name] for name in HostFacts.model_fields})
        self._load()

    def _load(self) -> None:
        outcome = self._child("load", self._load_request(), LOAD_LIMIT_S)
        problems = list(outcome.problems)
        model = CoverageModel(self.recipe, self.runner.kernel_table)
        for answer in outcome.select("tactics"):
            pairs = [(tile, config) for tile, config in answer["tactics"]]
            contract, tokens = model.contract(answer["contract"]), answer["tokens"]
            predicted = model.tactics(contract, self._device_sm(), tokens)
            if pairs != predicted:
                problems.append(_unpredicted(contract.name, tokens, predicted, pairs))
            tiles = [tile for tile, _ in pairs]
            case = Case(
                tier="load",
                contract=contract.name,
                tokens=tokens,
                status="pass" if pairs == predicted else "fail",
                figures={
                    "tactics": len(pairs),
                    "smallest_tile": min(tiles),
                    "largest_tile": max(tiles),
                },
            )
            self.cases.append(case)
        refused = outcome.exit_code == HostError.exit_code and problems == [*outcome.problems]
        status: Status = "refused" if refused else "fail"
        self._close("load", status if problems else "pass", problems)

    def _device_sm(self) -> int:
        assert self.host is not None
        return self.host.devices[0].sm

    def _probe_request(self) -> dict[str, Any]:
        return {
            "driver_soname": self.recipe.runtime.cuda_driver_soname,
            "runtime_soname": self.recipe.runtime.cuda_runtime_soname,
            "cuda_major": self.recipe.target.cuda_major,
        }

    def _load_request(self) -> dict[str, Any]:
        return {
            "root": str(self.bundle.root),
            "import_name": self.recipe.package.import_name,
            "ffi_symbols": self.recipe.runner.ffi_symbols,
            "runtime_soname": self.recipe.runtime.cuda_runtime_soname,
            "tvm_ffi": tvm_ffi_version(),
            "contracts": [contract.model_dump() for contract in self.recipe.contracts],
            "tokens": list(LOAD_TOKENS),
        }

    def _child(self, task: str, request: dict[str, Any], limit_s: float) -> Outcome:
        def tell(event: Event) -> None:
            if event["event"] == "step":
                self.on_progress(task, event["step"])

        outcome = run_child(task, request, limit_s=limit_s, on_event=tell)
        self.seconds[task] = round(outcome.seconds, 3)
        if outcome.log_tail:
            self.logs.append(outcome.log_tail)
        return outcome

    def _close(self, name: str, status: Status, problems: Sequence[Problem]) -> None:
        entries = [ProblemEntry(**problem.as_dict()) for problem in problems]
        self.tiers.append(Tier(name=name, status=status, problems=entries))
        self.problems += [problem for problem in problems if problem not in self.problems]


def _library_problems(runner: Runner, recipe: Recipe) -> Iterator[Problem]:
    """What is known to be lacking before anything is opened: glibc, apache-tvm-ffi."""
    wanted = runner.minimum_versions.get("GLIBC")
    glibc = host_glibc()
    if wanted and (glibc == "none" or _release(glibc) < _release(wanted)):
        yield Problem(
            "the host's glibc is too old for the runner",
            recipe.runner.file,
            expected=f"glibc {wanted} or newer",
            found=f"glibc {glibc}",
            remedy="run gpu-smoke on a newer distribution",
        )
    installed = tvm_ffi_version()
    for text in recipe.package.requires_dist:
        requirement = Requirement(text)
        if requirement.name == "apache-tvm-ffi" and not (
            installed != "not installed" and requirement.specifier.contains(installed, True)
        ):
            yield Problem(
                "the installed apache-tvm-ffi does not fit the wheel",
                text,
                expected=f"apache-tvm-ffi {requirement.specifier}",
                found=installed,
                remedy=f"pip install '{text}'",
            )


def _unpredicted(
    contract: str, tokens: int, predicted: list[Tactic], found: list[Tactic]
) -> Problem:
    only_predicted = [pair for pair in predicted if pair not in found]
    only_found = [pair for pair in found if pair not in predicted]
    return Problem(
        "the runner's tactics are not those that its kernel table and rules give",
        f"{contract} at {tokens} tokens",
        expected=f"{len(predicted)} tactics{_beginning(only_predicted)}",
        found=f"{len(found)} tactics{_beginning(only_found)}, or another order",
        remedy="name the tactic rules of this runner in the recipe, or build the runner again",
    )


def _beginning(pairs: list[Tactic]) -> str:
    return f", of these {len(pairs)} only here, first {pairs[0]}" if pairs else ""


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())
