"""Tiers ``memory`` and ``determinism``: a sample of the calls, run in particular ways."""

from __future__ import annotations

from typing import Any

from situ_release.bundle.evidence import Case
from situ_release.errors import Problem
from situ_release.smoke.run import Run, TierResult, conclude
from situ_release.smoke.supervise import Event, Outcome
from situ_release.smoke.tiers.numerics import planner_of, rank_of, tolerance_of

LIMIT_S = 300.0


def memory(run: Run) -> TierResult:
    """Guards around every allocation of the runner."""
    request = run.request(
        device=run.options.device, contracts=_sampled(run), tolerance=tolerance_of(run)
    )
    outcome = run.child("memory", "memory", request, LIMIT_S)
    return conclude([outcome], run.record("memory", outcome))


def determinism(run: Run) -> TierResult:
    """The same calls in two processes; one compares within itself, the two with each other."""
    request = run.request(device=run.options.device, contracts=_sampled(run))
    first = run.child("determinism", "determinism", request, LIMIT_S)
    problems = run.record("determinism", first)
    if first.problems:
        return conclude([first], problems)
    second = run.child("determinism", "determinism", request, LIMIT_S)
    problems += second.problems
    problems += _compare(run, first, second)
    return conclude([first, second], problems)


def _sampled(run: Run) -> list[dict[str, Any]]:
    return [
        {
            "contract": contract.model_dump(),
            "plans": [plan.as_json() for plan in planner_of(run, contract).sampled()],
            "rank": rank_of(contract),
        }
        for contract in run.recipe.contracts
    ]


def _compare(run: Run, first: Outcome, second: Outcome) -> list[Problem]:
    """A case for each call that both processes made: their outputs' digests."""
    digests = {_key(event): event["output_sha256"] for event in first.select("case")}
    problems = []
    for event in second.select("case"):
        before, after = digests[_key(event)], event["output_sha256"]
        subject = f"{event['subject']}, second process"
        run.cases.append(
            Case(
                tier="determinism",
                subject=subject,
                contract=event["contract"],
                tokens=event["tokens"],
                status="pass" if before == after else "fail",
                figures={},
                output_sha256=after,
            )
        )
        if before != after:
            problems.append(
                Problem(
                    "the same inputs give different outputs",
                    f"{event['contract']} at {event['tokens']} tokens, {subject}",
                    expected=f"the first process's output, SHA-256 {before}",
                    found=f"SHA-256 {after}",
                    remedy="look for a race, or for memory that is read before it is written",
                )
            )
    return problems


def _key(event: Event) -> tuple[str, int, str]:
    return event["contract"], event["tokens"], event["subject"]
