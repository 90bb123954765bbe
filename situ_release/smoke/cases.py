"""Which numerics cases a contract needs: token counts for every tile, tactics for every kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from situ_release.bundle.recipe import Contract
from situ_release.bundle.tactics import TacticRules, TileKernels, offered_tiles

Tactic = tuple[int, int]
"""``(tile_n, config)``, as the runner numbers them."""

DEFAULT_TACTIC: Tactic = (-1, -1)
"""The runner chooses."""

DECODE_TOKENS = 1
SMALL_TOKENS = 128
MOST_TOKENS = 4096


@dataclass(frozen=True, slots=True)
class CasePlan:
    """One problem size and the tactics to run on it, the default one first."""

    tokens: int
    tactics: tuple[Tactic, ...]


def plan_cases(
    contract: Contract, tiles: Mapping[int, TileKernels], rules: TacticRules
) -> list[CasePlan]:
    """The cases of a contract, by ascending token count.

    The default tactic runs at every count. Explicit tactics run each selectable kernel at least
    once with 1 and once with 128 tokens where its tile is offered there, and at the first count
    that offers its tile otherwise.

    Args:
        contract: the problem.
        tiles: the passing kernels by tile (:func:`situ_release.bundle.tactics.tile_kernels`).
        rules: the rules of the runner's version.
    """
    seen: set[int] = set()
    plans = []
    for tokens in token_counts(contract, rules):
        offered = offered_tiles(rules, contract, tokens)
        everything = tokens in (DECODE_TOKENS, SMALL_TOKENS)
        wanted = [tile for tile in offered if everything or tile not in seen]
        seen.update(offered)
        explicit = (pair for tile in wanted for pair in covering_tactics(tiles[tile]))
        plans.append(CasePlan(tokens, (DEFAULT_TACTIC, *explicit)))
    return plans


def token_counts(contract: Contract, rules: TacticRules) -> list[int]:
    """1, 128, 4,096, and the first count of each range in which other tiles are offered.

    The default tactic takes the smallest tile offered, so each range is a default of its own.
    """
    counts = {DECODE_TOKENS, SMALL_TOKENS, MOST_TOKENS}
    before: tuple[int, ...] = ()
    for tokens in range(1, MOST_TOKENS + 1):
        tiles = offered_tiles(rules, contract, tokens)
        if tiles != before:
            counts.add(tokens)
            before = tiles
    return sorted(counts)


def covering_tactics(kernels: TileKernels) -> list[Tactic]:
    """As few tactics as let every selectable kernel of a tile take part once."""
    first = [index for index, valid in enumerate(kernels.fc1_valid) if valid]
    second = [index for index, valid in enumerate(kernels.fc2_valid) if valid]
    if not first or not second:
        return []
    return [
        (
            kernels.tile,
            first[step % len(first)] * len(kernels.fc2) + second[step % len(second)],
        )
        for step in range(max(len(first), len(second)))
    ]
