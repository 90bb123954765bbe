"""What a rehearsal asks, and what it demands of the answers."""

from __future__ import annotations

import pytest

from situ_release.bundle.coverage import CoverageModel
from situ_release.bundle.recipe import Contract, load_recipe
from situ_release.bundle.tactics import (
    Gemm,
    default_candidates,
    load_rules,
    offered_tiles,
    passes_constructor,
)
from situ_release.smoke.cases import DEFAULT_TACTIC
from situ_release.smoke.rehearsal.plan import ContractPlan, ladder_counts
from situ_release.sources.kernel_name import KernelName, parse
from situ_release.sources.kernel_table import KernelTable
from tests.synth.wheel import kernels

RULES = load_rules("flashinfer-0.6.13rc1-private")
CONTRACTS = load_recipe().recipe.contracts


def plan_of(contract: Contract) -> ContractPlan:
    pairs = tuple((kernel, "0" * 64) for family in kernels(6).values() for kernel in family)
    model = CoverageModel(load_recipe().recipe, KernelTable(pairs))
    return ContractPlan(model, contract, 103)


def kernel(k: int, unroll: str = "") -> KernelName:
    return parse(
        f"bmm_Bfloat16_MxE2m1MxE4m3_Fp32_Ab32_Bb32_t128x8x{k}{unroll}_s3_et128x8_m128x8x32_c1x1x1"
        "_rM_TN_transOut_schedS_biasFp32M_bN_rgTma_clmp_dynB_sm100f"
    )


@pytest.mark.parametrize("contract", CONTRACTS, ids=lambda contract: contract.name)
def test_the_counts_meet_every_range_of_tiles(contract: Contract) -> None:
    counts = ladder_counts(contract, RULES)
    assert counts[0] == 1
    asked = {offered_tiles(RULES, contract, tokens) for tokens in counts}
    assert asked == {offered_tiles(RULES, contract, tokens) for tokens in range(1, 8000)}
    for before, after in zip(counts[1::2], counts[2::2], strict=True):
        assert after == before + 1
        assert offered_tiles(RULES, contract, before) != offered_tiles(RULES, contract, after)


def test_counts_follow_the_local_experts_where_the_runner_does() -> None:
    local = RULES.model_copy(update={"experts": "local"})
    counts = ladder_counts(CONTRACTS[1], local)
    assert counts == [1, 56, 57, 112, 113, 224, 225]


@pytest.mark.parametrize("contract", CONTRACTS, ids=lambda contract: contract.name)
def test_calls_reach_every_selectable_kernel(contract: Contract) -> None:
    plan = plan_of(contract)
    launched: set[str] = set()
    for problem in plan.problems:
        assert problem.tactics[0] == DEFAULT_TACTIC
        valid = plan.tactics(problem.tokens)
        for tactic in problem.tactics[1:]:
            assert tactic in valid
            fc1, fc2 = plan.kernels(tactic, problem.tokens)
            assert len(fc1) == len(fc2) == 1
            launched |= fc1 | fc2
    assert launched == plan.selectable
    assert len(launched) == 2 * (4 if contract.precision == "w4a16" else 6)


def test_the_default_is_of_the_smallest_tile() -> None:
    fc1, fc2 = plan_of(CONTRACTS[0]).kernels(DEFAULT_TACTIC, 900)
    assert all("_t128x16x256_" in name for name in fc1 | fc2)


@pytest.mark.parametrize(
    ("k", "tiles", "best"),
    [
        (3584, (128, 256, 512), 512),
        # Of tiles that exceed K the smallest, and one of these before any that does not: seen on
        # the real runner with K = 384 and K tiles of 256 and 512.
        (384, (128, 256, 512), 512),
        (384, (128, 512, 1024), 512),
        (256, (256, 128), 256),
    ],
)
def test_the_default_prefers_k_tiles_as_the_runner_does(
    k: int, tiles: tuple[int, ...], best: int
) -> None:
    gemm = Gemm("fc2", ("Bfloat16", "MxE2m1", "MxE4m3"), False, None, m=3584, k=k)
    found = default_candidates(map(kernel, tiles), gemm)
    assert [one.tile.k for one in found] == [best]
    unrolled = default_candidates([kernel(best), kernel(best, "u2")], gemm)
    assert [one.unroll2 for one in unrolled] == [True]


def test_rules_may_refuse_what_the_device_cannot_run() -> None:
    rules = load_rules("situ-conformance")
    gemm = Gemm("fc2", ("Bfloat16", "MxE2m1", "MxE4m3"), False, None, m=3584, k=384)
    text = (
        "bmm_Bfloat16_MxE2m1MxE4m3_Fp32_Ab32_Bb32_t128x8x128_s1_et128x8_m16x8x16_c1x1x1"
        "_rM_TN_transOut_schedS_bN_dynB_"
    )
    kept = {
        (target, sm)
        for target in ("sm90a", "sm100f", "sm103a", "sm100")
        for sm in (90, 100, 103, 120)
        if passes_constructor(parse(text + target), gemm, rules, sm)
    }
    assert kept == {
        ("sm90a", 90),
        ("sm100f", 100),
        ("sm100f", 103),
        ("sm100", 100),
        ("sm100", 103),
        ("sm103a", 103),
    }
    private = load_rules("flashinfer-0.6.13rc1-private")
    assert passes_constructor(parse(text + "sm90a"), gemm, private, 103)
