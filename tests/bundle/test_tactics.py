"""Every rule by which a runner keeps, orders and prefers kernels, one at a time."""

from __future__ import annotations

from typing import Any

import pytest

from situ_release.bundle.recipe import Contract, load_recipe
from situ_release.bundle.tactics import (
    Gemm,
    TacticRules,
    TileKernels,
    default_candidates,
    fits_shape,
    gemms,
    load_rules,
    offered_tiles,
    passes_constructor,
    rule_names,
    tactics,
    tile_kernels,
)
from situ_release.errors import InputError
from situ_release.sources.kernel_name import Cluster, KernelName, Shape, parse
from tests.synth.pool import FAMILIES

PRIVATE = load_rules("flashinfer-0.6.13rc1-private")
PUBLIC = load_rules("flashinfer-0.6.13")
TP8_W4A16, EP8_W4A16, TP8_W4A8, EP8_W4A8 = load_recipe().recipe.contracts

W4A16_FC1, W4A16_FC2, W4A8_FC1, W4A8_FC2 = (parse(names[0]) for names in FAMILIES.values())
FC1_16, FC2_16 = gemms(TP8_W4A16, "siTuGlu")
FC1_8, FC2_8 = gemms(TP8_W4A8, "siTuGlu")
PRODUCTS = [(W4A16_FC1, FC1_16), (W4A16_FC2, FC2_16), (W4A8_FC1, FC1_8), (W4A8_FC2, FC2_8)]


def contract_of(base: Contract, **changes: object) -> Contract:
    return base.model_copy(update=changes)


def kernel_rules(**changes: object) -> TacticRules:
    kernel = PRIVATE.kernel.model_copy(update=changes)
    return PRIVATE.model_copy(update={"kernel": kernel})


# --- tiles ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tokens", "w4a8", "w4a16"),
    [
        (1, (8, 16, 32), (8, 16, 32)),
        (448, (8, 16, 32), (8, 16, 32)),
        (449, (8, 16, 32, 64), (8, 16, 32, 64)),
        (896, (8, 16, 32, 64), (8, 16, 32, 64)),
        (897, (16, 32, 64, 128), (16, 32, 64)),
        (1792, (16, 32, 64, 128), (16, 32, 64)),
        (1793, (32, 64, 128, 256), (32, 64)),
        (3584, (32, 64, 128, 256), (32, 64)),
        (3585, (64, 128, 256), (32, 64)),
        (7168, (64, 128, 256), (32, 64)),
        (7169, (128, 256), (32, 64)),
        (1 << 20, (128, 256), (32, 64)),
    ],
)
def test_the_ladder_of_k3(tokens: int, w4a8: tuple[int, ...], w4a16: tuple[int, ...]) -> None:
    for contract in (TP8_W4A8, EP8_W4A8):
        assert offered_tiles(PRIVATE, contract, tokens) == w4a8
    for contract in (TP8_W4A16, EP8_W4A16):
        assert offered_tiles(PRIVATE, contract, tokens) == w4a16


def test_the_public_runner_divides_by_the_local_experts() -> None:
    assert (PRIVATE.experts, PUBLIC.experts) == ("total", "local")
    for tokens in (448, 449, 1793):
        whole = offered_tiles(PUBLIC, TP8_W4A8, tokens)  # a rank that has all experts
        assert whole == offered_tiles(PRIVATE, TP8_W4A8, tokens)
    assert offered_tiles(PUBLIC, EP8_W4A8, 56) == (8, 16, 32)
    assert offered_tiles(PUBLIC, EP8_W4A8, 57) == (8, 16, 32, 64)
    assert offered_tiles(PUBLIC, EP8_W4A8, 4096) == (128, 256)


def test_the_mean_is_a_float32() -> None:
    # 2**24 + 1 is no float32: the mean of 8 and a bit becomes 8, and the centre stays there.
    contract = contract_of(TP8_W4A8, num_experts=1 << 21, top_k=1)
    assert offered_tiles(PRIVATE, contract, (1 << 24) + 1) == (8, 16, 32)
    assert offered_tiles(PRIVATE, contract, (1 << 24) + 2) == (8, 16, 32, 64)


# --- what the runner keeps --------------------------------------------------------------------


@pytest.mark.parametrize(("kernel", "gemm"), PRODUCTS)
def test_each_family_passes_for_its_own_product_only(kernel: KernelName, gemm: Gemm) -> None:
    passing = [other for _, other in PRODUCTS if passes_constructor(kernel, other, PRIVATE, 103)]
    assert passing == [gemm]


@pytest.mark.parametrize(
    ("sm", "kept"),
    [
        (90, {"sm100a", "sm100f", "sm103a"}),
        (100, {"sm100a", "sm100f"}),
        (103, {"sm103a"}),
        (120, {"sm100a", "sm100f", "sm103a"}),
    ],
)
def test_patch_kernels_by_device(sm: int, kept: set[str]) -> None:
    archs = ("sm100a", "sm100f", "sm103a")
    for rules in (PRIVATE, PUBLIC):
        for patch in (True, False):
            kernels = [W4A16_FC2._replace(sm=arch, patch=patch) for arch in archs]
            found = {each.sm for each in kernels if passes_constructor(each, FC2_16, rules, sm)}
            assert found == (kept if patch else set(archs))


def test_split_k_inside_a_cluster_is_skipped() -> None:
    kernel = W4A8_FC2._replace(cluster=Cluster(1, 1, 2), split_k=2)
    assert not passes_constructor(kernel, FC2_8, PRIVATE, 103)
    assert passes_constructor(kernel, FC2_8, kernel_rules(max_cluster_z=2), 103)
    assert passes_constructor(kernel._replace(cluster=Cluster(2, 1, 1)), FC2_8, PRIVATE, 103)


@pytest.mark.parametrize(
    "changes",
    [
        {"dtype_c": "E4m3"},
        {"dtype_a": "MxE4m3"},
        {"dtype_b": "Bfloat16"},
        {"routing": None},
        {"gated_act": "swiGlu"},
        {"gated_act": None},
        {"eltwise_act": "relu2"},
        {"deepseek_fp8": True},
        {"trans_out": False},
        {"dynamic_batch": False},
        {"shuffled": False},
        {"layout": "BN"},
        {"epilogue_tile": (64, 8)},
        {"bias_kind": "Mn"},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_what_the_runner_does_not_keep(changes: dict[str, Any]) -> None:
    assert passes_constructor(W4A8_FC1, FC1_8, PRIVATE, 103)
    assert not passes_constructor(W4A8_FC1._replace(**changes), FC1_8, PRIVATE, 103)


@pytest.mark.parametrize(
    "changes",
    [
        {"bias_kind": None, "bias_dtype": None},
        {"bias_kind": "M", "bias_dtype": "Fp32"},
        {"routing": "ldgsts"},
        {"stages": (9,)},
        {"persistent": True, "scheduler_stages": (2, 1, 2, 3)},
        {"cluster": Cluster(4, 2, 1)},
        {"sm": "sm103a"},
        {"sm": "sm90a"},
        {"clamp": False},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_what_the_runner_does_not_look_at(changes: dict[str, Any]) -> None:
    assert passes_constructor(W4A8_FC1._replace(**changes), FC1_8, PRIVATE, 103)


def test_a_runner_may_keep_only_what_runs_on_the_device() -> None:
    rules = kernel_rules(compatible_only=True)
    kept = {
        (arch, sm)
        for arch in ("sm90a", "sm100f", "sm103a", "sm103f")
        for sm in (90, 100, 103, 120)
        if passes_constructor(W4A8_FC2._replace(sm=arch), FC2_8, rules, sm)
    }
    assert kept == {
        ("sm90a", 90),
        ("sm100f", 100),
        ("sm100f", 103),
        ("sm103a", 103),
        ("sm103f", 103),
    }


# --- what fits a shape ------------------------------------------------------------------------


def fits(kernel: KernelName, m: int, k: int, **changes: Any) -> bool:
    gemm = Gemm("x", (kernel.dtype_c, "", ""), kernel.routing is not None, kernel.gated_act, m, k)
    return fits_shape(kernel._replace(**changes), gemm)


def test_rows_are_whole_tiles() -> None:
    plain = {"tile": Shape(128, 8, 256)}
    assert fits(W4A8_FC2, 3584, 384, **plain)
    assert not fits(W4A8_FC2, 64, 384, **plain)
    assert not fits(W4A8_FC2, 3584 + 64, 384, **plain)
    assert not fits(W4A8_FC2, 3584 + 128, 384, tile=Shape(256, 8, 256))


def test_rows_are_whole_scale_blocks() -> None:
    small = {"tile": Shape(16, 8, 256)}
    assert fits(W4A8_FC2, 96, 384, **small)
    assert not fits(W4A8_FC2, 80, 384, **small)
    assert not fits(W4A16_FC1, 96, 512, **small, unroll2=False)  # gate and up: twice 32
    assert fits(W4A16_FC1, 128, 512, **small, unroll2=False)


def test_mxfp8_output_needs_whole_blocks_of_128() -> None:
    assert not fits(W4A8_FC1, 2 * 192, 3584)
    assert fits(W4A16_FC1, 2 * 192, 3584)
    assert fits(W4A8_FC1, 2 * 384, 3584)


def test_k_is_whole_groups_of_four_scales() -> None:
    # 3,488 elements have 109 scales, of which the last group holds one.
    assert fits(W4A8_FC2, 3584, 3456)
    assert not fits(W4A8_FC2, 3584, 3488)


def test_gathered_scales_need_whole_k_tiles() -> None:
    assert W4A8_FC1.sf_routing == "ldgsts"
    assert fits(W4A8_FC1, 768, 3584, tile=Shape(128, 8, 512))
    assert not fits(W4A8_FC1, 768, 3584, tile=Shape(128, 8, 1024))
    assert fits(W4A8_FC1, 768, 3584, tile=Shape(128, 8, 1024), sf_routing="tma")


@pytest.mark.parametrize(
    ("k", "tile_k", "split_k", "fitting"),
    [
        (3584, 256, 1, True),
        (3584, 512, 1, False),  # seven K tiles: the two FC1 kernels of K3 that never fit
        (3072, 512, 1, True),
        (384, 256, 1, True),  # padded to two K tiles
        (256, 256, 1, False),
        (3328, 256, 2, False),  # each half has seven K tiles
        (3840, 256, 2, False),  # eight, but one of the last half's is padding
        (4096, 256, 2, True),
    ],
)
def test_a_loop_unrolled_twice_needs_an_even_number_of_k_tiles(
    k: int, tile_k: int, split_k: int, fitting: bool
) -> None:
    tile = Shape(128, 8, tile_k)
    assert fits(W4A8_FC2, 3584, k, tile=tile, split_k=split_k)
    assert fits(W4A8_FC2, 3584, k, tile=tile, split_k=split_k, unroll2=True) is fitting


@pytest.mark.parametrize(
    ("k", "split_k", "fitting"),
    [(256, 1, True), (256, 2, False), (384, 2, True), (512, 3, False), (640, 3, True)],
)
def test_no_slice_of_k_is_empty(k: int, split_k: int, fitting: bool) -> None:
    assert fits(W4A8_FC2, 3584, k, tile=Shape(128, 8, 256), split_k=split_k) is fitting


# --- numbers and order ------------------------------------------------------------------------


def test_an_invalid_pair_keeps_its_number() -> None:
    fc1, fc2 = (W4A8_FC1,) * 3, (W4A8_FC2,) * 2
    kernels = TileKernels(8, fc1, fc2, (True, False, True), (False, True))
    assert kernels.tactics() == [(8, 1), (8, 5)]
    assert kernels.selectable() == ([W4A8_FC1] * 2, [W4A8_FC2])


def test_without_a_partner_nothing_is_selectable() -> None:
    kernels = TileKernels(8, (W4A8_FC1,), (W4A8_FC2,), (True,), (False,))
    assert kernels.tactics() == []
    assert kernels.selectable() == ([], [])


def test_kernels_keep_the_order_of_the_table() -> None:
    def at(kernel: KernelName, tile_n: int, stages: int) -> KernelName:
        return kernel._replace(tile=kernel.tile._replace(n=tile_n), stages=(stages,))

    fc1 = [at(W4A8_FC1, n, s) for n, s in ((16, 4), (8, 9), (8, 3))]
    fc2 = [at(W4A8_FC2, n, s) for n, s in ((8, 5), (16, 2), (16, 7))]
    table = [fc1[0], fc2[0], fc1[1], W4A16_FC1, fc2[1], fc1[2], fc2[2]]
    tiles = tile_kernels(table, TP8_W4A8, "siTuGlu", PRIVATE, 103)
    assert list(tiles) == [8, 16, 32, 64, 128, 256]
    assert (tiles[8].fc1, tiles[8].fc2) == ((fc1[1], fc1[2]), (fc2[0],))
    assert (tiles[16].fc1, tiles[16].fc2) == ((fc1[0],), (fc2[1], fc2[2]))
    assert tactics(tiles, PRIVATE, TP8_W4A8, 1) == [(8, 0), (8, 1), (16, 0), (16, 1)]
    assert tactics(tiles, PRIVATE, TP8_W4A8, 900) == [(16, 0), (16, 1)]


# --- the default tactic -----------------------------------------------------------------------


def with_k(k: int, **changes: Any) -> KernelName:
    return W4A8_FC2._replace(tile=W4A8_FC2.tile._replace(k=k), **changes)


def test_the_default_ties_where_only_stages_cluster_and_scheduler_differ() -> None:
    tied = [
        with_k(256, stages=(3,)),
        with_k(256, stages=(5,), cluster=Cluster(2, 1, 1)),
        with_k(256, persistent=True, scheduler_stages=(2, 1, 2, 3)),
    ]
    worse = [
        with_k(128, unroll2=True),
        with_k(256)._replace(tile=Shape(64, 8, 256)),
    ]
    assert default_candidates([*worse, *tied], FC2_8) == tied


def test_the_default_prefers_a_loop_unrolled_twice() -> None:
    assert default_candidates([with_k(256), best := with_k(256, unroll2=True)], FC2_8) == [best]


def test_the_default_of_nothing_is_nothing() -> None:
    assert default_candidates([], FC2_8) == []


# --- the files --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", rule_names())
def test_shipped_rules_are_named_like_their_file(name: str) -> None:
    rules = load_rules(name)
    assert rules.name == name
    assert set(rules.ladder) == {"w4a16", "w4a8"}
    for ladder in rules.ladder.values():
        assert ladder == [ladder[0] << step for step in range(len(ladder))]


def test_unknown_rules_are_an_error_that_names_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"unknown tactic rules.*rc1-private"):
        load_rules("flashinfer-9")
