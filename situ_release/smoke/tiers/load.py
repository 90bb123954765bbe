"""Tier ``load``: the runner opens, and has the tactics that its kernel table and rules give."""

from __future__ import annotations

from situ_release.bundle.evidence import Case
from situ_release.errors import Problem
from situ_release.smoke.run import Run, TierResult, conclude

TOKENS = (1, 128, 4096)
"""Token counts that tactics are asked for: decode, the first tiles, and the last ones."""

LIMIT_S = 120.0

Tactic = tuple[int, int]
"""``(tile_n, config)``, as the runner numbers them."""


def load(run: Run) -> TierResult:
    """Open the runner and compare every contract's tactics with the prediction."""
    contracts = [contract.model_dump() for contract in run.recipe.contracts]
    request = run.request(contracts=contracts, tokens=list(TOKENS))
    outcome = run.child("load", "load", request, LIMIT_S)
    problems = list(outcome.problems)
    for answer in outcome.select("tactics"):
        pairs = [(tile, config) for tile, config in answer["tactics"]]
        contract, tokens = run.model.contract(answer["contract"]), answer["tokens"]
        predicted = run.model.tactics(contract, run.sm, tokens)
        if pairs != predicted:
            problems.append(unpredicted(contract.name, tokens, predicted, pairs))
        tiles = [tile for tile, _ in pairs]
        run.cases.append(
            Case(
                tier="load",
                subject="tactics",
                contract=contract.name,
                tokens=tokens,
                status="pass" if pairs == predicted else "fail",
                figures={
                    "tactics": len(pairs),
                    "smallest_tile": min(tiles),
                    "largest_tile": max(tiles),
                },
            )
        )
    return conclude([outcome], problems)


def unpredicted(
    contract: str, tokens: int, predicted: list[Tactic], found: list[Tactic]
) -> Problem:
    """The problem of a tactic list that is not the predicted one."""
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
