"""Which kernels a runner can select: an emulation of its host code, from kernel names alone.

A tactic is a pair ``(tile_n, config)``; ``config = i1 * n2 + i2`` counts the FC1 and FC2 kernels
that pass for that tile, in the order of the runner's table. What differs between runner versions is
data: ``data/tactic_rules/<name>.toml``. Source: the batched-GEMM and fused-MoE runners of
FlashInfer 0.6.13; checked against the real runner's lists on sm_90, sm_100, sm_103 and sm_120.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from situ_release import resources, toml
from situ_release.bundle.model_faults import validation_problems
from situ_release.bundle.recipe import Contract
from situ_release.errors import InputError
from situ_release.sources.kernel_name import KernelName
from situ_release.sources.sm_target import runs_on

SCALE_BLOCK = 32
"""Elements of K that share one scale factor in MXFP4 and MXFP8."""


class _Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class Neighbours(_Closed):
    """How many tiles of the ladder are offered on each side of the centre."""

    below: Annotated[int, Field(ge=0)]
    above: Annotated[int, Field(ge=0)]


class KernelRules(_Closed):
    """What a kernel must have to be kept when the runner is constructed.

    ``compatible_only``: the device must be able to run the kernel's architecture.
    """

    epilogue_tile_m: int
    layout: str
    max_cluster_z: int
    refused_bias: list[str]
    compatible_only: bool


class TacticRules(_Closed):
    """One runner version's way to choose kernels. Read with :func:`load_rules`."""

    name: str
    experts: Literal["total", "local"]
    ladder: dict[str, list[int]]
    neighbours: Neighbours
    kernel: KernelRules
    patch: dict[int, list[str]]


@dataclass(frozen=True, slots=True)
class Gemm:
    """What one of the two products asks of a kernel.

    Attributes:
        name: ``fc1`` or ``fc2``.
        dtypes: element types of output, weights and activations.
        routed: the kernel gathers the routed tokens' rows itself.
        gated_act: fused gated activation, None for the plain product.
        m: rows of the weights, in elements (FC1 holds gate and up).
        k: reduced extent, in elements.
    """

    name: str
    dtypes: tuple[str, str, str]
    routed: bool
    gated_act: str | None
    m: int
    k: int


@dataclass(frozen=True, slots=True)
class TileKernels:
    """The kernels that pass for one tile, in table order, and which of them fit the shape."""

    tile: int
    fc1: tuple[KernelName, ...]
    fc2: tuple[KernelName, ...]
    fc1_valid: tuple[bool, ...]
    fc2_valid: tuple[bool, ...]

    def tactics(self) -> list[tuple[int, int]]:
        """The valid ``(tile, config)`` pairs; an invalid pair is left out but keeps its number."""
        return [
            (self.tile, first * len(self.fc2) + second)
            for first, first_ok in enumerate(self.fc1_valid)
            if first_ok
            for second, second_ok in enumerate(self.fc2_valid)
            if second_ok
        ]

    def selectable(self) -> tuple[list[KernelName], list[KernelName]]:
        """FC1 and FC2 kernels that take part in at least one valid tactic."""
        fc1 = [kernel for kernel, ok in zip(self.fc1, self.fc1_valid, strict=True) if ok]
        fc2 = [kernel for kernel, ok in zip(self.fc2, self.fc2_valid, strict=True) if ok]
        return (fc1, fc2) if fc1 and fc2 else ([], [])


def rule_names() -> list[str]:
    """Names of the shipped rules, sorted."""
    return sorted(path.stem for path in (resources.DATA / "tactic_rules").glob("*.toml"))


def load_rules(name: str) -> TacticRules:
    """The shipped rules of a runner version.

    Raises:
        InputError: there are none of that name, or the file is malformed.
    """
    if name not in rule_names():
        raise InputError.of(
            "unknown tactic rules",
            f"runner.tactic_rules = {name!r}",
            expected=f"one of {', '.join(rule_names())}",
            found=name,
            remedy="name the rules of the runner's version, or add a file for it",
        )
    path = resources.DATA / "tactic_rules" / f"{name}.toml"
    _, document = toml.load(path, "file of tactic rules")
    try:
        return TacticRules.model_validate(document)
    except ValidationError as error:
        raise InputError(*validation_problems(error, str(path), "tactic rules")) from error


def gemms(contract: Contract, gated_act: str) -> tuple[Gemm, Gemm]:
    """The two products of a contract's problem."""
    hidden, inner = contract.hidden_size, contract.physical_intermediate_size
    if contract.precision == "w4a16":
        first = second = ("Bfloat16", "MxE2m1", "Bfloat16")
    else:
        first = ("MxE4m3", "MxE2m1", "MxE4m3")
        second = ("Bfloat16", "MxE2m1", "MxE4m3")
    return (
        Gemm("fc1", first, routed=True, gated_act=gated_act, m=2 * inner, k=hidden),
        Gemm("fc2", second, routed=False, gated_act=None, m=hidden, k=inner),
    )


def passes_constructor(kernel: KernelName, gemm: Gemm, rules: TacticRules, sm: int) -> bool:
    """Whether the runner keeps the kernel for this product on this device, whatever the shape."""
    if kernel.patch:
        allowed = rules.patch.get(sm)
        if allowed is not None and kernel.sm not in allowed:
            return False
    if rules.kernel.compatible_only and not _runs_on(kernel, sm):
        return False
    return (
        (kernel.dtype_c, kernel.dtype_a, kernel.dtype_b) == gemm.dtypes
        and (kernel.routing is not None) == gemm.routed
        and kernel.gated_act == gemm.gated_act
        and kernel.eltwise_act is None
        and not kernel.deepseek_fp8
        and kernel.trans_out
        and kernel.dynamic_batch
        and kernel.shuffled
        and kernel.layout == rules.kernel.layout
        and kernel.epilogue_tile[0] == rules.kernel.epilogue_tile_m
        and kernel.bias_kind not in rules.kernel.refused_bias
        and kernel.cluster.z <= rules.kernel.max_cluster_z
    )


def fits_shape(kernel: KernelName, gemm: Gemm) -> bool:
    """The runner's shape check for a kernel of these families. The token count plays no part."""
    m, k = gemm.m, gemm.k
    tile_m, tile_k = kernel.tile.m, kernel.tile.k
    if m < tile_m or m % tile_m or m % SCALE_BLOCK:
        return False
    if gemm.gated_act and m % (2 * SCALE_BLOCK):
        return False
    if gemm.gated_act and kernel.dtype_c == "MxE4m3" and (m // 2) % 128:
        return False
    if math.ceil(k / SCALE_BLOCK) % 4:
        return False
    if kernel.sf_routing == "ldgsts" and k % tile_k:
        return False
    padded = _round_up(k, tile_k * kernel.split_k)
    per_split = padded // kernel.split_k
    if kernel.unroll2:
        last = _round_up(per_split - (padded - k), tile_k)
        if per_split % (2 * tile_k) or last % (2 * tile_k):
            return False
    return kernel.split_k == 1 or per_split * (kernel.split_k - 1) < k


def offered_tiles(rules: TacticRules, contract: Contract, tokens: int) -> tuple[int, ...]:
    """The tiles that the runner offers for a token count, ascending.

    The centre is the next power of two at or above the mean number of tokens per expert, taken in
    float32 as the runner does, clamped to the ladder.
    """
    ladder = rules.ladder[contract.precision]
    experts = contract.num_experts if rules.experts == "total" else contract.local_num_experts
    mean = math.ceil(_float32(_float32(tokens * contract.top_k) / _float32(experts)))
    centre = min(max(1 << max(mean - 1, 0).bit_length(), ladder[0]), ladder[-1])
    position = ladder.index(centre)
    first = max(position - rules.neighbours.below, 0)
    return tuple(ladder[first : position + rules.neighbours.above + 1])


def tile_kernels(
    names: Sequence[KernelName], contract: Contract, gated_act: str, rules: TacticRules, sm: int
) -> dict[int, TileKernels]:
    """The passing kernels of every tile of the ladder.

    Args:
        names: the runner's whole table, in its order.
        contract: the problem.
        gated_act: the activation token that the contract's FC1 has.
        rules: the runner version's rules.
        sm: SM number of the device (103 = sm_103).
    """
    fc1, fc2 = gemms(contract, gated_act)
    kept1 = [name for name in names if passes_constructor(name, fc1, rules, sm)]
    kept2 = [name for name in names if passes_constructor(name, fc2, rules, sm)]
    tiles = {}
    for tile in rules.ladder[contract.precision]:
        first = tuple(name for name in kept1 if name.tile.n == tile)
        second = tuple(name for name in kept2 if name.tile.n == tile)
        tiles[tile] = TileKernels(
            tile,
            first,
            second,
            tuple(fits_shape(name, fc1) for name in first),
            tuple(fits_shape(name, fc2) for name in second),
        )
    return tiles


def default_candidates(kernels: Iterable[KernelName], gemm: Gemm) -> list[KernelName]:
    """The kernels among which the runner's unstable sort picks for the default tactic.

    It prefers a larger K tile (of two that both exceed K: the smaller), then a loop unrolled twice,
    then larger M and N tiles; which scheduler comes first depends on the grid, and stages and
    clusters are not compared, so several kernels tie.
    """

    def rank(kernel: KernelName) -> tuple[bool, int, int, int, int]:
        tile = kernel.tile
        exceeds = tile.k > gemm.k
        fit = -tile.k if exceeds else tile.k
        return (exceeds, fit, int(kernel.unroll2), tile.m, tile.n)

    ranked = list(kernels)
    if not ranked:
        return []
    best = max(map(rank, ranked))
    return [kernel for kernel in ranked if rank(kernel) == best]


def tactics(
    tiles: dict[int, TileKernels], rules: TacticRules, contract: Contract, tokens: int
) -> list[tuple[int, int]]:
    """The runner's list of valid tactics for a token count, in its order."""
    return [
        pair for tile in offered_tiles(rules, contract, tokens) for pair in tiles[tile].tactics()
    ]


def _runs_on(kernel: KernelName, sm: int) -> bool:
    number = kernel.sm.removeprefix("sm").rstrip("af")
    return runs_on(int(number), kernel.sm.removeprefix(f"sm{number}"), sm)


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def _float32(value: float) -> float:
    single: Any = struct.unpack("f", struct.pack("f", value))[0]
    return float(single)
