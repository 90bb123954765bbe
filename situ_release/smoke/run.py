"""The state of one smoke run, as its tiers see it: what is tested, and what was found so far."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from situ_release.bundle.coverage import CoverageModel
from situ_release.bundle.evidence import Case, HostFacts, MutantEntry, NotRun, Status
from situ_release.bundle.recipe import Recipe
from situ_release.bundle.smoke_policy import SmokeTier
from situ_release.errors import HostError, Problem
from situ_release.smoke.supervise import Event, Outcome, run_child, tvm_ffi_version
from situ_release.smoke.unpack import UnpackedWheel
from situ_release.sources.runner import Runner

PROBE_LIMIT_S = 60.0


@dataclass(frozen=True, slots=True)
class Options:
    """How much is asked for.

    Attributes:
        seeds: sets of random inputs in the numerics.
        short: numerics with 1 and 128 tokens only, every kernel at both.
        device: the torch device that the numeric tiers run on, "cuda:0" or "cpu".
        claim_sm: SM number that the rehearsal's device claims to have; None for the recipe's first.
        sysroot: an unpacked newer system whose C library the rehearsal runs on.
    """

    seeds: int = 1
    short: bool = False
    device: str = "cuda:0"
    claim_sm: int | None = None
    sysroot: Path | None = None

    def device_of(self, rank: int) -> str:
        """The device of one of several processes."""
        kind, numbered, _ = self.device.partition(":")
        return f"{kind}:{rank}" if numbered else kind


@dataclass(frozen=True, slots=True)
class Update:
    """What a run is doing.

    Attributes:
        tier: the tier, or "probe" before the first.
        status: the tier's outcome, None while it runs.
        cases: its cases so far.
        failed: those of them that failed.
        step: what it does now.
    """

    tier: str
    status: Status | None
    cases: int
    failed: int
    step: str


@dataclass(frozen=True, slots=True)
class TierResult:
    """How a tier ended.

    Attributes:
        problems: what was wrong, or why it was refused.
        refused: this host or device cannot run it.
        peak_memory_bytes: most GPU memory that one of its processes took; None where none did.
    """

    problems: tuple[Problem, ...] = ()
    refused: bool = False
    peak_memory_bytes: int | None = None

    @property
    def status(self) -> Status:
        """Refused, fail or pass."""
        if self.refused:
            return "refused"
        return "fail" if self.problems else "pass"


@dataclass
class Run:
    """One run of the suite on one wheel.

    Attributes:
        bundle: the unpacked wheel.
        runner: what its runner says about itself.
        recipe: its recipe.
        options: how much is asked for.
        on_update: told what is being done, from several threads.
    """

    bundle: UnpackedWheel
    runner: Runner
    recipe: Recipe
    options: Options
    on_update: Callable[[Update], None]
    cases: list[Case] = field(default_factory=list)
    mutants: list[MutantEntry] = field(default_factory=list)
    not_run: list[NotRun] = field(default_factory=list)
    logs: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    @cached_property
    def model(self) -> CoverageModel:
        """The runner's selection of kernels."""
        return CoverageModel(self.recipe, self.runner.kernel_table)

    @cached_property
    def probe(self) -> Outcome:
        """What the driver says about this host's devices; asked once."""
        request = {
            "driver_soname": self.recipe.runtime.cuda_driver_soname,
            "runtime_soname": self.recipe.runtime.cuda_runtime_soname,
            "cuda_major": self.recipe.target.cuda_major,
        }
        return self.child("probe", "probe", request, PROBE_LIMIT_S)

    @property
    def host(self) -> HostFacts | None:
        """The host's devices; None where it has none, or where no tier needed to know."""
        if "probe" not in self.__dict__ or self.probe.problems:
            return None
        (facts,) = self.probe.select("host")
        return HostFacts.model_validate({name: facts[name] for name in HostFacts.model_fields})

    @property
    def sm(self) -> int:
        """SM number of the device that is tested on."""
        assert self.host is not None
        return self.host.devices[0].sm

    def request(self, **fields: Any) -> dict[str, Any]:
        """A request for a child that opens the package, with further fields."""
        return {
            "root": str(self.bundle.root),
            "import_name": self.recipe.package.import_name,
            "ffi_symbols": self.recipe.runner.ffi_symbols,
            "runtime_soname": self.recipe.runtime.cuda_runtime_soname,
            "tvm_ffi": tvm_ffi_version(),
            "experts": self.model.rules.experts,
            **fields,
        }

    def child(
        self,
        tier: str,
        task: str,
        request: Mapping[str, Any],
        limit_s: float,
        python: Sequence[str] = (sys.executable,),
    ) -> Outcome:
        """Run a task of a tier in a child process and wait for it."""
        heard: list[Status] = []

        def tell(event: Event) -> None:
            if event["event"] == "case":
                heard.append(event["status"])
            elif event["event"] == "step":
                self.update(tier, event["step"], heard=heard)

        outcome = run_child(task, request, limit_s=limit_s, on_event=tell, python=python)
        if outcome.log_tail:
            self.logs.append(outcome.log_tail)
        return outcome

    def update(
        self,
        tier: str,
        step: str,
        status: Status | None = None,
        heard: Sequence[Status] = (),
    ) -> None:
        """Tell what is being done; ``heard`` are a running child's cases, not taken down yet."""
        found = [*(case.status for case in self.cases if case.tier == tier), *heard]
        self.on_update(Update(tier, status, len(found), found.count("fail"), step))

    def record(self, tier: SmokeTier, outcome: Outcome) -> list[Problem]:
        """Take down the ``case``, ``mutant`` and ``not_run`` events of a child.

        Returns:
            The problems of its failed cases, then why it did not finish.
        """
        problems = []
        for event in outcome.events:
            fields = {name: value for name, value in event.items() if name != "event"}
            if event["event"] in ("case", "mutant"):
                problems += [Problem(**problem) for problem in fields.pop("problems")]
            if event["event"] == "case":
                self.cases.append(Case(tier=tier, **_known(Case, fields)))
            elif event["event"] == "mutant":
                self.mutants.append(MutantEntry(**fields))
            elif event["event"] == "not_run":
                self.not_run.append(NotRun(tier=tier, **fields))
        return [*problems, *outcome.problems]


def conclude(outcomes: Sequence[Outcome], problems: Iterable[Problem]) -> TierResult:
    """The result of a tier from its children and everything that was wrong.

    It is refused only if some child was, and nothing else is wrong.
    """
    found = tuple(problems)
    refusals = [item for item in outcomes if item.exit_code == HostError.exit_code]
    refused = {problem for outcome in refusals for problem in outcome.problems}
    peaks = [event["bytes"] for item in outcomes for event in item.select("peak_memory")]
    return TierResult(
        problems=tuple(dict.fromkeys(found)),
        refused=bool(refused) and set(found) <= refused,
        peak_memory_bytes=max(peaks, default=None),
    )


def _known(model: type[Case], fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name in model.model_fields}
