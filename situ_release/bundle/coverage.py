"""Coverage: what a runner can select on a device, and whether all of it is bundled.

Computed from the runner's kernel table alone (:mod:`situ_release.bundle.tactics`), over all token
counts: the tile ladder bounds them. A kernel is *selectable* when some valid tactic launches it,
*missing* when it is selectable and not bundled with the runner's SHA-256, *unreachable* when it is
bundled and no contract of the recipe can select it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from situ_release.bundle.recipe import Contract, Recipe
from situ_release.bundle.tactics import (
    TacticRules,
    TileKernels,
    default_candidates,
    gemms,
    load_rules,
    tactics,
    tile_kernels,
)
from situ_release.errors import InputError, UsageError
from situ_release.sources.kernel_name import KernelName, parse_all
from situ_release.sources.kernel_table import KernelTable

MAX_TOKENS = (1 << 31) - 1
"""The runner counts tokens in 32 bits."""


@dataclass(frozen=True, slots=True)
class ContractCoverage:
    """One contract on one device.

    Attributes:
        name: the contract's.
        tactics: number of distinct valid ``(tile, config)`` pairs over all token counts.
        passing: kernels that the runner keeps, whatever the shape.
        selectable: kernels that some valid tactic launches, sorted.
        default: those among which the default tactic picks, over all token counts, sorted.
        missing: selectable kernels that are not bundled with the runner's SHA-256, sorted.
    """

    name: str
    tactics: int
    passing: tuple[str, ...]
    selectable: tuple[str, ...]
    default: tuple[str, ...]
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DeviceCoverage:
    """All contracts of the recipe on one device.

    Attributes:
        sm: SM number (103 = sm_103).
        target: the recipe is made for this device, so a missing kernel is a fault.
        contracts: one per contract, in the recipe's order.
        unreachable: bundled kernels that no contract can select here, sorted.
    """

    sm: int
    target: bool
    contracts: tuple[ContractCoverage, ...]
    unreachable: tuple[str, ...]

    @property
    def missing(self) -> tuple[str, ...]:
        """Kernels that any contract misses, sorted."""
        return tuple(sorted({name for item in self.contracts for name in item.missing}))

    @property
    def selectable(self) -> tuple[str, ...]:
        """Kernels that any contract can select, sorted."""
        return tuple(sorted({name for item in self.contracts for name in item.selectable}))


class CoverageModel:
    """The selection of one runner, parsed once and asked for many devices and problems.

    Args:
        recipe: contracts, families and the name of the tactic rules.
        table: the runner's kernel table.

    Raises:
        InputError: unknown rules, or a name of the table that the grammar does not know.
    """

    def __init__(self, recipe: Recipe, table: KernelTable) -> None:
        self.recipe = recipe
        self.rules: TacticRules = load_rules(recipe.runner.tactic_rules)
        self._digests = table.digests
        self._names: Sequence[KernelName] = tuple(parse_all(self._digests).values())

    def contract(self, name: str) -> Contract:
        """The recipe's contract of that name (KeyError for another)."""
        return {contract.name: contract for contract in self.recipe.contracts}[name]

    def tactics(self, contract: Contract, sm: int, tokens: int) -> list[tuple[int, int]]:
        """The runner's ``(tile_n, config)`` list for one problem, in its order.

        Raises:
            UsageError: more tokens than :data:`MAX_TOKENS`.
        """
        if tokens > MAX_TOKENS:
            raise UsageError.of(
                "too many tokens for one call of the runner",
                f"{tokens} tokens",
                expected=f"at most {MAX_TOKENS}",
                found=str(tokens),
                remedy="ask for a token count that a call can have",
            )
        return tactics(self.tiles(contract, sm), self.rules, contract, tokens)

    def tiles(self, contract: Contract, sm: int) -> dict[int, TileKernels]:
        """The kernels that pass on a device, for every tile of the contract's ladder."""
        return tile_kernels(self._names, contract, self.gated_act(contract), self.rules, sm)

    def gated_act(self, contract: Contract) -> str:
        """The activation token of the contract's FC1: its family says which one.

        Raises:
            InputError: no family of the contract's precision has a gated activation.
        """
        for family in self.recipe.families:
            if family.precision == contract.precision and family.gated_act:
                return family.gated_act
        raise InputError.of(
            "a contract has no kernels for its first GEMM",
            f"recipe {self.recipe.name}: contract {contract.name}",
            expected=f"a family of precision {contract.precision} with a gated_act",
            found="none",
            remedy="correct the families of the recipe",
        )

    def device(self, sm: int, bundled: Mapping[str, str]) -> DeviceCoverage:
        """Coverage on one device.

        Args:
            sm: SM number.
            bundled: SHA-256 of the bundled cubins by kernel name.
        """
        contracts = tuple(self._cover(contract, sm, bundled) for contract in self.recipe.contracts)
        reachable = {name for item in contracts for name in item.selectable}
        return DeviceCoverage(
            sm,
            sm in self.recipe.target.sms,
            contracts,
            tuple(sorted(set(bundled) - reachable)),
        )

    def _cover(self, contract: Contract, sm: int, bundled: Mapping[str, str]) -> ContractCoverage:
        tiles = self.tiles(contract, sm)
        first, second = gemms(contract, self.gated_act(contract))
        selectable: set[str] = set()
        default: set[str] = set()
        for kernels in tiles.values():
            fc1, fc2 = kernels.selectable()
            selectable.update(map(str, [*fc1, *fc2]))
            default.update(map(str, default_candidates(fc1, first)))
            default.update(map(str, default_candidates(fc2, second)))
        missing = (name for name in selectable if bundled.get(name) != self._digests[name])
        return ContractCoverage(
            contract.name,
            sum(len(kernels.tactics()) for kernels in tiles.values()),
            _sorted(name for kernels in tiles.values() for name in (*kernels.fc1, *kernels.fc2)),
            _sorted(selectable),
            _sorted(default),
            _sorted(missing),
        )


def _sorted(names: Iterable[object]) -> tuple[str, ...]:
    return tuple(sorted(map(str, names)))
