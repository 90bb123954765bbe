"""Which problems a rehearsal puts to the runner, and what it must do with each.

Everything follows from the runner's kernel table (:class:`CoverageModel`): the tactic lists, the
two kernels of an explicit tactic, and the kernels among which the default tactic picks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from situ_release.bundle.coverage import CoverageModel
from situ_release.bundle.recipe import Contract
from situ_release.bundle.tactics import (
    TacticRules,
    TileKernels,
    default_candidates,
    gemms,
    offered_tiles,
    tactics,
)
from situ_release.smoke.cases import DEFAULT_TACTIC, Tactic, covering_tactics


@dataclass(frozen=True, slots=True)
class PlannedProblem:
    """One problem size, and the tactics to call it with (none: only the list is compared)."""

    tokens: int
    tactics: tuple[Tactic, ...]


@dataclass(frozen=True)
class ContractPlan:
    """A contract on a claimed device.

    Args:
        model: the runner's selection.
        contract: a contract of its recipe.
        sm: SM number of the claimed device.
    """

    model: CoverageModel
    contract: Contract
    sm: int

    @cached_property
    def problems(self) -> tuple[PlannedProblem, ...]:
        """The problems by ascending token count.

        The default tactic is called at every count; explicit tactics call every selectable kernel
        of a tile at the first count at which the runner offers it.
        """
        seen: set[int] = set()
        problems = []
        for tokens in ladder_counts(self.contract, self.model.rules):
            offered = offered_tiles(self.model.rules, self.contract, tokens)
            fresh = [tile for tile in offered if tile not in seen]
            seen.update(fresh)
            explicit = (pair for tile in fresh for pair in covering_tactics(self._tiles[tile]))
            problems.append(PlannedProblem(tokens, (DEFAULT_TACTIC, *explicit)))
        return tuple(problems)

    @cached_property
    def selectable(self) -> frozenset[str]:
        """Kernels that some valid tactic launches."""
        pairs = (kernels.selectable() for kernels in self._tiles.values())
        return frozenset(str(kernel) for fc1, fc2 in pairs for kernel in (*fc1, *fc2))

    def tactics(self, tokens: int) -> list[Tactic]:
        """The list that the runner must answer."""
        return tactics(self._tiles, self.model.rules, self.contract, tokens)

    def kernels(self, tactic: Tactic, tokens: int) -> tuple[frozenset[str], frozenset[str]]:
        """Kernels of which a call must launch one for FC1 and one for FC2."""
        tile, config = tactic
        if tactic != DEFAULT_TACTIC:
            kernels = self._tiles[tile]
            first, second = divmod(config, len(kernels.fc2))
            return (
                frozenset({str(kernels.fc1[first])}),
                frozenset({str(kernels.fc2[second])}),
            )
        smallest = offered_tiles(self.model.rules, self.contract, tokens)[0]
        products = gemms(self.contract, self.model.gated_act(self.contract))
        fc1, fc2 = (
            frozenset(map(str, default_candidates(kernels, gemm)))
            for kernels, gemm in zip(self._tiles[smallest].selectable(), products, strict=True)
        )
        return fc1, fc2

    @cached_property
    def _tiles(self) -> dict[int, TileKernels]:
        return self.model.tiles(self.contract, self.sm)


def ladder_counts(contract: Contract, rules: TacticRules) -> list[int]:
    """One token, and around each step of the tile ladder the last count before and the first after.

    A tile is the centre as long as the mean number of tokens per expert does not exceed it.
    """
    experts = contract.num_experts if rules.experts == "total" else contract.local_num_experts
    steps = (tile * experts // contract.top_k for tile in rules.ladder[contract.precision][:-1])
    return sorted({1} | {count for last in steps for count in (last, last + 1) if count})
