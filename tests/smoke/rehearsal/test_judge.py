"""Judging a rehearsal's events: what a compiled runner of the tests cannot be made to do."""

from __future__ import annotations

from typing import Any

import pytest

from situ_release.bundle.manifest import CubinEntry
from situ_release.bundle.recipe import load_recipe
from situ_release.errors import Problem
from situ_release.smoke.cases import DEFAULT_TACTIC
from situ_release.smoke.rehearsal.judge import MOST_OF_A_KIND, Judge
from situ_release.smoke.rehearsal.plan import ContractPlan
from situ_release.smoke.supervise import Event, Outcome
from situ_release.sources.kernel_name import cubin_filename
from tests.smoke.rehearsal.test_plan import plan_of

SHA256 = "ab" * 32


@pytest.fixture(scope="module")
def plan() -> ContractPlan:
    return plan_of(load_recipe().recipe.contracts[0])


def launched(plan: ContractPlan, tactic: tuple[int, int], tokens: int) -> list[dict[str, Any]]:
    return [
        {"kernel": min(choice), "sha256": SHA256, "weights": [weights]}
        for choice, weights in zip(plan.kernels(tactic, tokens), ("w13", "w2"), strict=True)
    ]


def events_of(plan: ContractPlan, **changes: Any) -> list[Event]:
    """What a good child reports; ``changes`` are made to every call."""
    name = plan.contract.name
    found: list[Event] = [{"event": "callback", "logs": True}]
    for problem in plan.problems:
        named = {"contract": name, "tokens": problem.tokens}
        pairs = [list(pair) for pair in plan.tactics(problem.tokens)]
        found.append({"event": "tactics", **named, "tactics": pairs})
        for tactic in problem.tactics:
            kernels = launched(plan, tactic, problem.tokens)
            call = {
                **named,
                "tactic": list(tactic),
                "finalize": True,
                "allocations": 2,
                "launches": 3,
                "pointers": 9,
                "kernels": kernels,
                "requests": [cubin_filename(item["kernel"]) for item in kernels],
                "unused": [],
                "writes_output": True,
                "outside": [],
                "error": None,
            }
            found.append({"event": "call", **call, **changes})
    return found


def judged(plan: ContractPlan, events: list[Event], **cubins: str) -> tuple[Judge, list[Problem]]:
    entries = {
        kernel: CubinEntry(
            filename=cubin_filename(kernel),
            path=f"cubins/sm103a/{cubin_filename(kernel)}",
            role="fc2",
            sha256=cubins.get(kernel, SHA256),
            size=1,
        )
        for kernel in plan.selectable
    }
    judge = Judge({plan.contract.name: plan}, entries, whole=True)
    judge.hear(Outcome(tuple(events), (), 0, 1.0, ""))
    return judge, judge.problems


def test_a_good_run(plan: ContractPlan) -> None:
    judge, problems = judged(plan, events_of(plan))
    assert problems == []
    assert {case.status for case in judge.cases} == {"pass"}
    assert judge.cases[-1].figures == {"selectable": 8, "requested": 8}


def test_bytes_that_are_not_the_bundles(plan: ContractPlan) -> None:
    kernel = min(plan.selectable)
    judge, problems = judged(plan, events_of(plan), **{kernel: "cd" * 32})
    assert [problem.what for problem in problems] == ["a launched kernel is not the bundle's"]
    assert problems[0].found == f"{kernel}, SHA-256 {SHA256}"
    assert "fail" in {case.status for case in judge.cases}


def test_a_kernel_that_did_not_come_through_the_callback(plan: ContractPlan) -> None:
    _, problems = judged(plan, events_of(plan, requests=[]))
    assert {problem.what for problem in problems} == {
        "a kernel did not come through the package's callback"
    }
    silent = [{"event": "callback", "logs": False}, *events_of(plan, requests=[])[1:]]
    assert judged(plan, silent)[1] == []


def test_a_kernel_that_is_never_launched(plan: ContractPlan) -> None:
    events = [
        event
        for event in events_of(plan)
        if event["event"] != "call" or event["tactic"] == list(DEFAULT_TACTIC)
    ]
    judge, problems = judged(plan, events)
    assert {problem.what for problem in problems} == {
        "a kernel that the runner can select was never launched"
    }
    assert judge.cases[-1].status == "fail"
    assert judge.cases[-1].figures["requested"] == 8 - len(problems)


def test_three_gemms_in_one_call(plan: ContractPlan) -> None:
    events = events_of(plan, kernels=[{"kernel": "k", "sha256": SHA256, "weights": []}] * 3)
    _, problems = judged(plan, events)
    assert "the launched kernels are not those of the tactic" in {item.what for item in problems}


def test_one_kind_of_problem_is_cut_short(plan: ContractPlan) -> None:
    many = [f"wrong {number}" for number in range(MOST_OF_A_KIND + 5)]
    _, problems = judged(plan, events_of(plan, outside=many))
    assert [problem.found for problem in problems[:MOST_OF_A_KIND]] == many[:MOST_OF_A_KIND]
    assert problems[MOST_OF_A_KIND].found == "5 more of this kind"
    assert len(problems) == MOST_OF_A_KIND + 1
    calls = sum(len(problem.tactics) for problem in plan.problems)
    assert problems[0].where.endswith(f", and {calls - 1} more")
