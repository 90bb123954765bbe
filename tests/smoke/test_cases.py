"""The plan of numerics cases: every tile and every selectable kernel takes part."""

from __future__ import annotations

from pathlib import Path

import pytest

from situ_release.bundle.recipe import Contract, load_recipe
from situ_release.bundle.tactics import TileKernels, load_rules, offered_tiles, tile_kernels
from situ_release.smoke.cases import (
    DEFAULT_TACTIC,
    covering_tactics,
    plan_cases,
    token_counts,
)
from situ_release.sources.kernel_name import KernelName, parse_all
from situ_release.sources.runner import read_runner
from situ_release.wheel.archive import open_wheel
from tests.synth.wheel import RUNNER, kernels

RECIPE = load_recipe().recipe
RULES = load_rules(RECIPE.runner.tactic_rules)
CONTRACTS = pytest.mark.parametrize("contract", RECIPE.contracts, ids=lambda item: item.name)


def synthetic_tiles(contract: Contract) -> dict[int, TileKernels]:
    names = [name for family in kernels(6).values() for name in family]
    return tile_kernels(tuple(parse_all(names).values()), contract, "siTuGlu", RULES, 103)


@CONTRACTS
def test_token_counts_reach_every_tile_and_every_default(contract: Contract) -> None:
    counts = token_counts(contract, RULES)
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
    found = {contract.precision: token_counts(contract, RULES) for contract in RECIPE.contracts}
    assert found == {
        "w4a16": [1, 128, 449, 897, 1793, 4096],
        "w4a8": [1, 128, 449, 897, 1793, 3585, 4096],
    }


def launched(tiles: dict[int, TileKernels], tactic: tuple[int, int]) -> tuple[KernelName, ...]:
    kernel = tiles[tactic[0]]
    first, second = divmod(tactic[1], len(kernel.fc2))
    return kernel.fc1[first], kernel.fc2[second]


@CONTRACTS
def test_every_case_begins_with_the_default_and_offers_what_it_runs(contract: Contract) -> None:
    tiles = synthetic_tiles(contract)
    plans = plan_cases(contract, tiles, RULES)
    assert [plan.tokens for plan in plans] == token_counts(contract, RULES)
    for plan in plans:
        assert plan.tactics[0] == DEFAULT_TACTIC
        offered = offered_tiles(RULES, contract, plan.tokens)
        valid = {pair for tile in offered for pair in tiles[tile].tactics()}
        assert set(plan.tactics[1:]) <= valid
        assert len(set(plan.tactics)) == len(plan.tactics)
    assert {tactic[0] for plan in plans for tactic in plan.tactics[1:]} == set(tiles)


def test_covering_leaves_out_what_does_not_fit_and_keeps_the_numbers() -> None:
    contract = RECIPE.contracts[0]
    kernel = synthetic_tiles(contract)[8]
    fc1, fc2 = kernel.fc1 * 3, kernel.fc2 * 4
    tile = TileKernels(8, fc1, fc2, (True, False, True), (False, True, True, True))
    chosen = covering_tactics(tile)
    assert chosen == [(8, 1), (8, 2 * 4 + 2), (8, 3)]
    assert set(chosen) <= set(tile.tactics())
    assert covering_tactics(TileKernels(8, fc1, fc2, (False,) * 3, (True,) * 4)) == []


def selectable_names(kernel: TileKernels) -> list[str]:
    fc1, fc2 = kernel.selectable()
    return [str(name) for name in (*fc1, *fc2)]


@CONTRACTS
def test_every_kernel_of_the_real_runner_takes_part(
    contract: Contract, published_wheel: Path
) -> None:
    table = read_runner(open_wheel(published_wheel).read(RUNNER), RUNNER).kernel_table
    names = tuple(parse_all(table.digests).values())
    tiles = tile_kernels(names, contract, "siTuGlu", RULES, 103)
    selectable = {name for kernel in tiles.values() for name in selectable_names(kernel)}
    plans = plan_cases(contract, tiles, RULES)
    seen = {
        str(name)
        for plan in plans
        for tactic in plan.tactics[1:]
        for name in launched(tiles, tactic)
    }
    assert seen == selectable
    at_128 = next(plan for plan in plans if plan.tokens == 128)
    in_128 = {str(name) for tactic in at_128.tactics[1:] for name in launched(tiles, tactic)}
    offered = offered_tiles(RULES, contract, 128)
    expected = {name for tile in offered for name in selectable_names(tiles[tile])}
    assert in_128 == expected
