"""Tier ``numerics``: every contract, tile and selectable kernel against the reference."""

from __future__ import annotations

from situ_release.bundle.evidence import Case
from situ_release.bundle.recipe import Contract
from situ_release.errors import Problem
from situ_release.smoke.cases import SHORT_TOKENS, Planner
from situ_release.smoke.run import Run, TierResult, conclude
from situ_release.smoke.supervise import Outcome

LIMIT_S = 240.0
LIMIT_PER_SEED_S = 60.0


def numerics(run: Run) -> TierResult:
    """Each contract in a process of its own, so that its kernels are fetched anew."""
    outcomes = []
    problems: list[Problem] = []
    for contract in run.recipe.contracts:
        planner = planner_of(run, contract)
        request = run.request(
            device=run.options.device,
            contract=contract.model_dump(),
            plans=[
                plan.as_json()
                for plan in (planner.short() if run.options.short else planner.full())
            ],
            tolerance=tolerance_of(run),
            seeds=run.options.seeds,
            mutant_tokens=list(SHORT_TOKENS),
            rank=rank_of(contract),
        )
        limit = LIMIT_S + LIMIT_PER_SEED_S * (run.options.seeds - 1)
        outcome = run.child("numerics", "numerics", request, limit)
        problems += run.record("numerics", outcome)
        if not outcome.problems:
            problems += _coverage(run, contract, planner, outcome)
        outcomes.append(outcome)
    return conclude(outcomes, problems)


def planner_of(run: Run, contract: Contract) -> Planner:
    """The planner of a contract on this run's device."""
    return Planner(
        contract,
        run.model.gated_act(contract),
        run.model.tiles(contract, run.sm),
        run.model.rules,
        run.recipe.smoke,
    )


def rank_of(contract: Contract) -> int:
    """The expert-parallel rank whose shard is tested: in the middle, so that its offset counts."""
    return contract.expert_parallel_size // 2


def tolerance_of(run: Run) -> dict[str, float]:
    """The recipe's tolerances as a child takes them."""
    return run.recipe.smoke.tolerance.model_dump(exclude={"reason"})


def _coverage(run: Run, contract: Contract, planner: Planner, outcome: Outcome) -> list[Problem]:
    """Whether every kernel that can be selected was fetched at least once."""
    fetched = {name for event in outcome.select("case") for name in event["fetched"]}
    selectable = planner.selectable()
    missing = sorted(selectable - fetched)
    run.cases.append(
        Case(
            tier="numerics",
            subject="selectable kernels fetched",
            contract=contract.name,
            status="fail" if missing else "pass",
            figures={"selectable": len(selectable), "fetched": len(selectable & fetched)},
        )
    )
    if not missing:
        return []
    return [
        Problem(
            "kernels that can be selected were never launched",
            contract.name,
            expected=f"{len(selectable)} kernels to be fetched",
            found=f"{len(missing)} that were not, the first {missing[0]}",
            remedy="name the tactic rules of this runner in the recipe, or correct the runner",
        )
    ]
