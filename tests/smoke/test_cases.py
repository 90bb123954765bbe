"""The plan of numerics cases: every tile and every selectable kernel takes part."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from situ_release.bundle.recipe import Contract, load_recipe
from situ_release.bundle.tactics import TileKernels, load_rules, offered_tiles, tile_kernels
from situ_release.smoke.cases import (
    DEFAULT_TACTIC,
    SHORT_TOKENS,
    CasePlan,
    Planner,
    covering_tactics,
    from_json,
)
from situ_release.sources.kernel_name import KernelName, parse_all
from situ_release.sources.runner import read_runner
from situ_release.wheel.archive import open_wheel
from tests.synth.wheel import RUNNER, kernels

RECIPE = load_recipe().recipe
RULES = load_rules(RECIPE.runner.tactic_rules)
CONTRACTS = pytest.mark.parametrize("contract", RECIPE.contracts, ids=lambda item: item.name)


def planner_of(contract: Contract, names: tuple[KernelName, ...] | None = None) -> Planner:
    if names is None:
        names = tuple(parse_all([n for family in kernels(6).values() for n in family]).values())
    tiles = tile_kernels(names, contract, "siTuGlu", RULES, 103)
    return Planner(contract, "siTuGlu", tiles, RULES, RECIPE.smoke)


@CONTRACTS
def test_token_counts_reach_every_tile_and_every_default(contract: Contract) -> None:
    counts = planner_of(contract).token_counts()
    assert {1, 128, 4096} <= set(counts)
    assert counts == sorted(set(counts))
    ladder = set(RULES.ladder[contract.precision])
    offered = [offered_tiles(RULES, contract, tokens) for tokens in counts]
    assert {tile for tiles in offered for tile in tiles} == ladder
    everywhere = {offered_tiles(RULES, contract, tokens) for tokens in range(1, 4097)}
    assert set(offered) == everywhere
    # Most of them are no multiple of any tile, so the last tile of an expert is never full.
    assert sum(tokens % 8 != 0 for tokens in counts) >= 3


def test_token_counts_of_k3() -> None:
    found = {item.precision: planner_of(item).token_counts() for item in RECIPE.contracts}
    assert found == {
        "w4a16": [1, 128, 449, 897, 1793, 4096],
        "w4a8": [1, 128, 449, 897, 1793, 3585, 4096],
    }


def test_a_recipe_may_ask_for_no_tokens_at_all() -> None:
    contract = RECIPE.contracts[0]
    planner = planner_of(contract)
    policy = RECIPE.smoke.model_copy(update={"tokens": [0, 1]})
    planner = Planner(contract, planner.gated_act, planner.tiles, RULES, policy)
    for plans in (planner.full(), planner.sampled()):
        assert [plan.tokens for plan in plans] == [0, 1]
        assert [call.tactic for call in plans[0].calls] == [DEFAULT_TACTIC]


@CONTRACTS
def test_every_case_begins_with_the_default_and_offers_what_it_runs(contract: Contract) -> None:
    planner = planner_of(contract)
    plans = planner.full()
    assert [plan.tokens for plan in plans] == planner.token_counts()
    for plan in plans:
        tactics = [call.tactic for call in plan.calls]
        assert tactics[0] == DEFAULT_TACTIC
        offered = offered_tiles(RULES, contract, plan.tokens)
        valid = {pair for tile in offered for pair in planner.tiles[tile].tactics()}
        assert set(tactics[1:]) <= valid
        assert len(set(tactics)) == len(tactics)
    ran = {call.tactic[0] for plan in plans for call in plan.calls[1:]}
    assert ran == set(planner.tiles)


@CONTRACTS
def test_the_default_may_be_any_of_the_best_kernels_of_the_smallest_tile(
    contract: Contract,
) -> None:
    for plan in planner_of(contract).full():
        smallest = offered_tiles(RULES, contract, plan.tokens)[0]
        default = plan.calls[0]
        assert default.subject == "default tactic"
        for names in (default.fc1, default.fc2):
            assert names
            assert all(f"t128x{smallest}x" in name for name in names)
        assert all("siTuGlu" in name for name in default.fc1)


@CONTRACTS
def test_the_short_set_runs_every_kernel_at_both_counts(contract: Contract) -> None:
    planner = planner_of(contract)
    plans = planner.short()
    assert tuple(plan.tokens for plan in plans) == SHORT_TOKENS
    for plan in plans:
        assert launched(plan) == planner.selectable()


@CONTRACTS
def test_the_sample_has_one_tactic_of_each_offered_tile(contract: Contract) -> None:
    for plan in planner_of(contract).sampled():
        assert plan.calls[0].tactic == DEFAULT_TACTIC
        tiles = [call.tactic[0] for call in plan.calls[1:]]
        assert tuple(tiles) == offered_tiles(RULES, contract, plan.tokens)


def test_a_plan_survives_json() -> None:
    for plan in planner_of(RECIPE.contracts[0]).full():
        assert from_json(json.loads(json.dumps(plan.as_json()))) == plan


def test_covering_leaves_out_what_does_not_fit_and_keeps_the_numbers() -> None:
    kernel = planner_of(RECIPE.contracts[0]).tiles[8]
    fc1, fc2 = kernel.fc1 * 3, kernel.fc2 * 4
    tile = TileKernels(8, fc1, fc2, (True, False, True), (False, True, True, True))
    chosen = covering_tactics(tile)
    assert chosen == [(8, 1), (8, 2 * 4 + 2), (8, 3)]
    assert set(chosen) <= set(tile.tactics())
    assert covering_tactics(TileKernels(8, fc1, fc2, (False,) * 3, (True,) * 4)) == []


def launched(plan: CasePlan) -> set[str]:
    """Kernels of the explicit tactics."""
    return {name for call in plan.calls[1:] for name in (*call.fc1, *call.fc2)}


@CONTRACTS
def test_every_kernel_of_the_real_runner_takes_part(
    contract: Contract, published_wheel: Path
) -> None:
    table = read_runner(open_wheel(published_wheel).read(RUNNER), RUNNER).kernel_table
    planner = planner_of(contract, tuple(parse_all(table.digests).values()))
    plans = planner.full()
    assert set[str]().union(*map(launched, plans)) == planner.selectable()
    at_128 = next(plan for plan in plans if plan.tokens == 128)
    expected = {
        str(name)
        for tile in offered_tiles(RULES, contract, 128)
        for product in planner.tiles[tile].selectable()
        for name in product
    }
    assert launched(at_128) == expected
