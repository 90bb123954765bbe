"""Which numerics cases a contract needs: token counts for every tile, tactics for every kernel."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from situ_release.bundle.recipe import Contract
from situ_release.bundle.smoke_policy import SmokePolicy
from situ_release.bundle.tactics import (
    TacticRules,
    TileKernels,
    default_candidates,
    gemms,
    offered_tiles,
)

Tactic = tuple[int, int]
"""``(tile_n, config)``, as the runner numbers them."""

DEFAULT_TACTIC: Tactic = (-1, -1)
"""The runner chooses."""

SHORT_TOKENS = (1, 128)
"""Token counts of the short set."""


@dataclass(frozen=True, slots=True)
class CallPlan:
    """One tactic, and the kernels it may launch for each product: one, or several for the default.

    Attributes:
        tactic: ``(tile_n, config)``.
        fc1: names of kernels, one of which does the first product.
        fc2: likewise for the second.
    """

    tactic: Tactic
    fc1: tuple[str, ...]
    fc2: tuple[str, ...]

    @property
    def subject(self) -> str:
        """What a case calls it."""
        return "default tactic" if self.tactic == DEFAULT_TACTIC else f"tactic {self.tactic}"


@dataclass(frozen=True, slots=True)
class CasePlan:
    """One problem size and the calls to make on it, the default tactic first."""

    tokens: int
    calls: tuple[CallPlan, ...]

    def as_json(self) -> dict[str, Any]:
        """For a child's request; :func:`from_json` reads it."""
        return asdict(self)


def from_json(plan: Mapping[str, Any]) -> CasePlan:
    """The plan that :meth:`CasePlan.as_json` wrote."""
    calls = (
        CallPlan((call["tactic"][0], call["tactic"][1]), tuple(call["fc1"]), tuple(call["fc2"]))
        for call in plan["calls"]
    )
    return CasePlan(plan["tokens"], tuple(calls))


@dataclass(frozen=True, slots=True)
class Planner:
    """Plans the cases of one contract on one device.

    Attributes:
        contract: the problem.
        gated_act: its activation.
        tiles: the passing kernels by tile (:func:`situ_release.bundle.tactics.tile_kernels`).
        rules: the rules of the runner's version.
        policy: the recipe's token counts.
    """

    contract: Contract
    gated_act: str
    tiles: Mapping[int, TileKernels]
    rules: TacticRules
    policy: SmokePolicy

    def full(self) -> list[CasePlan]:
        """The whole set, by ascending token count.

        The default tactic runs at every count. Explicit tactics run each selectable kernel of the
        offered tiles at the policy's ``full_tokens``, and elsewhere those of tiles that no smaller
        count offers.
        """
        seen: set[int] = set()
        plans = []
        for tokens in self.token_counts():
            offered = offered_tiles(self.rules, self.contract, tokens) if tokens else ()
            everything = tokens in self.policy.full_tokens
            wanted = [tile for tile in offered if everything or tile not in seen]
            seen.update(offered)
            plans.append(self._plan(tokens, self._covering(wanted)))
        return plans

    def short(self) -> list[CasePlan]:
        """The short set: 1 and 128 tokens, at both every kernel of every tile of the ladder."""
        return [self._plan(tokens, self._covering(self.tiles)) for tokens in SHORT_TOKENS]

    def sampled(self) -> list[CasePlan]:
        """The policy's own token counts, with the default tactic and one of each offered tile."""
        plans = []
        for tokens in sorted(self.policy.tokens):
            offered = offered_tiles(self.rules, self.contract, tokens) if tokens else ()
            first = (covering_tactics(self.tiles[tile])[:1] for tile in offered)
            plans.append(self._plan(tokens, (tactic for found in first for tactic in found)))
        return plans

    def token_counts(self) -> list[int]:
        """The policy's counts, and the first count of each range in which other tiles are offered.

        The default tactic takes the smallest tile offered, so each range is a default of its own.
        """
        counts = set(self.policy.tokens)
        before: tuple[int, ...] = ()
        for tokens in range(1, max(counts) + 1):
            tiles = offered_tiles(self.rules, self.contract, tokens)
            if tiles != before:
                counts.add(tokens)
                before = tiles
        return sorted(counts)

    def selectable(self) -> set[str]:
        """Names of the kernels that some tactic launches."""
        return {
            str(name)
            for kernels in self.tiles.values()
            for product in kernels.selectable()
            for name in product
        }

    def kernels(self, tactic: Tactic, tokens: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Kernels of which a call must launch one for the first product and one for the second."""
        tile, config = tactic
        if tactic != DEFAULT_TACTIC:
            kernels = self.tiles[tile]
            first, second = divmod(config, len(kernels.fc2))
            return (str(kernels.fc1[first]),), (str(kernels.fc2[second]),)
        smallest = offered_tiles(self.rules, self.contract, tokens)[0]
        products = gemms(self.contract, self.gated_act)
        fc1, fc2 = (
            tuple(map(str, default_candidates(kernels, gemm)))
            for kernels, gemm in zip(self.tiles[smallest].selectable(), products, strict=True)
        )
        return fc1, fc2

    def _plan(self, tokens: int, tactics: Iterable[Tactic]) -> CasePlan:
        calls = (
            CallPlan(tactic, *self.kernels(tactic, tokens)) for tactic in (DEFAULT_TACTIC, *tactics)
        )
        return CasePlan(tokens, tuple(calls))

    def _covering(self, tiles: Iterable[int]) -> list[Tactic]:
        return [tactic for tile in tiles for tactic in covering_tactics(self.tiles[tile])]


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
