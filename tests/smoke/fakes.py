"""A runner that is Python: the layer computed by the reference, right or wrong in a chosen way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from situ_release.errors import Problem
from situ_release.smoke.cases import CallPlan, CasePlan, Tactic
from situ_release.smoke.inputs import Inputs
from situ_release.smoke.metrics import Tolerance
from situ_release.smoke.reference.moe import moe
from situ_release.smoke.session import Session

TOLERANCE = Tolerance(
    cosine=0.9999, relative_l2=1e-2, worst_token=2e-2, element=2**-5, outside=1e-4
)
DEFAULT = (-1, -1)

Spoil = Callable[[torch.Tensor, Tactic], None]
"""Makes an output wrong, in place."""


class FakeRunner:
    """Notes what was called; `spoil` changes outputs, `change` inputs before they are used."""

    def __init__(self, spoil: Spoil | None = None, change: Any = None) -> None:
        self.spoil = spoil
        self.change = change
        self.calls: list[Tactic] = []
        self.to_fetch: dict[Tactic, list[str]] = {}
        self.pending: list[str] = []

    def __call__(
        self,
        inputs: Inputs,
        output: torch.Tensor,
        tactic: Tactic,
        *,
        finalize: bool = True,
        foreign: bool = False,
    ) -> Any:
        self.calls.append(tactic)
        self.pending += self.to_fetch.pop(tactic, [])
        problem = self.change(inputs.problem) if self.change else inputs.problem
        output.copy_(moe(problem.tokens, problem.routing, problem.experts))
        if self.spoil:
            self.spoil(output, tactic)
        return [None]

    def fetched(self) -> list[str]:
        names, self.pending = self.pending, []
        return names


class Events:
    """What a child would have reported."""

    def __init__(self) -> None:
        self.all: list[dict[str, Any]] = []

    def __call__(self, event: str, fields: Any = None) -> None:
        self.all.append({**(fields or {}), "event": event})

    def named(self, event: str) -> list[dict[str, Any]]:
        return [item for item in self.all if item["event"] == event]

    @property
    def problems(self) -> list[Problem]:
        return [Problem(**problem) for item in self.all for problem in item.get("problems", [])]


def session_of(runner: FakeRunner) -> tuple[Session, Events]:
    events = Events()
    return Session(events, "cpu", runner, runner.fetched, "0"), events


def plan_of(tokens: int, *tactics: Tactic) -> CasePlan:
    """Each tactic launches kernels of its own; the default's are those of the first tile."""
    return CasePlan(
        tokens,
        tuple(CallPlan(tactic, (f"one{tactic}",), (f"two{tactic}",)) for tactic in tactics),
    )


def fetching(runner: FakeRunner, *plans: CasePlan) -> FakeRunner:
    """The runner fetches what the plans expect, each at its first use."""
    for plan in plans:
        for call in plan.calls:
            runner.to_fetch[call.tactic] = [*call.fc1, *call.fc2]
    return runner
