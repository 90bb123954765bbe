"""The grammar reads every token that exists, writes it back, and refuses all others by name."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from situ_release.errors import InputError
from situ_release.sources.kernel_name import (
    Cluster,
    Shape,
    cubin_filename,
    kernel_of_filename,
    parse,
    parse_all,
)
from tests.sources.attempt import attempt, is_complete
from tests.synth.pool import FAMILIES, KERNELS, NEAR_MISSES, UNKNOWN_NAMES

NAMES = tuple((Path(__file__).parent / "kernel_names.txt").read_text().split())
"""Real names in which every token of the private and public tables occurs in every place it has."""

W4A16 = FAMILIES["w4a16-fc1"][0]
W4A8 = FAMILIES["w4a8-fc1"][0]
SIX_STAGES = next(name for name in NAMES if "_s4x4x4x4x1x4_" in name and "siTuGlu" in name)


@pytest.mark.parametrize("name", [*NAMES, *KERNELS, *NEAR_MISSES])
def test_round_trip(name: str) -> None:
    assert str(parse(name)) == name


def test_fields_of_a_w4a16_kernel() -> None:
    name = parse(W4A16)
    assert (name.dtype_c, name.dtype_a, name.dtype_b) == ("Bfloat16", "MxE2m1", "Bfloat16")
    assert (name.cast, name.patch, name.dtype_acc) == ("Bfloat16", True, "Fp32")
    assert (name.sf_block_a, name.sf_block_b, name.sf_block_c) == (32, None, None)
    assert name.tile == Shape(128, 8, 256)
    assert name.mma == Shape(128, 8, 16)
    assert name.cluster == Cluster(1, 1, 1)
    assert (name.stages, name.epilogue_tile, name.unroll2) == ((3,), (128, 8), True)
    assert (name.persistent, name.scheduler_stages) == (False, ())
    assert (name.bias_dtype, name.bias_kind) == ("Fp32", "M")
    assert (name.routing, name.sf_routing, name.gated_act) == ("ldgsts", "ldgsts", "siTuGlu")
    assert name.raster_m
    assert name.trans_out
    assert name.shuffled
    assert name.batch_n
    assert name.rg_tma
    assert name.clamp
    assert name.dynamic_batch
    assert name.sm == "sm103a"
    assert name.dtype_family == "Bfloat16_MxE2m1Bfloat16_castBfloat16_patch_Fp32_Ab32"


def test_fields_of_a_kernel_with_every_rare_token() -> None:
    name = parse(SIX_STAGES)
    assert name.per_token_b == "Fp32"
    assert name.sf_block_b == 16
    assert name.stages == (4, 4, 4, 4, 1, 4)
    assert name.scheduler_stages == (3,)
    assert (name.epilogue_warps, name.fused_copy, name.tmem_overlap) == (8, True, True)
    assert (name.routing, name.sf_routing) == ("tma", "ldg")
    assert (name.load_b_warps, name.load_sf_b_warps) == (8, 4)
    assert name.dtype_family == "Bfloat16_E2m1E2m1_Fp32_Ab16_Bb16tokFp32"


def test_fields_that_only_other_families_have() -> None:
    tok = parse(next(name for name in NAMES if "BtokBfloat16" in name))
    assert (tok.per_token_b, tok.sf_block_b) == ("Bfloat16", None)
    deepseek = parse(next(name for name in NAMES if "noShfl_dsFp8" in name))
    assert (deepseek.shuffled, deepseek.deepseek_fp8) == (False, True)
    split = parse(next(name for name in NAMES if "splitK3" in name))
    assert (split.split_k, split.cluster.z) == (3, 3)
    bias = parse(next(name for name in NAMES if "biasBfloat16Mn" in name))
    assert (bias.bias_dtype, bias.bias_kind) == ("Bfloat16", "Mn")
    relu = parse(next(name for name in NAMES if "relu2" in name))
    assert (relu.eltwise_act, relu.gated_act) == ("relu2", None)


@pytest.mark.parametrize(
    ("name", "what", "token"),
    [
        ("", "unknown token", "''"),
        ("bmm", "token missing", "end of the name"),
        (W4A8.replace("bmm_", "Bmm_"), "unknown token", "'Bmm'"),
        (W4A8.replace("siTuGlu", "siTuGlu_extra"), "unknown token", "'extra'"),
        (W4A8.replace("siTuGlu", "siTuGluX"), "unknown token", "'siTuGluX'"),
        (W4A8.replace("siTuGlu", "situGlu"), "unknown token", "'situGlu'"),
        (W4A8.replace("bmm_MxE4m3", "bmm_E2m1xFp32"), "unknown token", "'E2m1xFp32'"),
        (W4A8.replace("_rM_", "_rM_rM_"), "token out of place", "'rM'"),
        (W4A8.replace("_clmp_siTuGlu", "_siTuGlu_clmp"), "token out of place", "'clmp'"),
        (W4A8.replace("_TN_", "_"), "token missing", "'transOut'"),
        (W4A8.replace("_TN_", "_NN_"), "unknown token", "'NN'"),
        (W4A8.replace("_sm100f", ""), "token missing", "end of the name"),
        (W4A8 + "_sm100f", "token out of place", "'sm100f'"),
        (W4A8.replace("t128x", "t0128x"), "unknown token", "'t0128x8x256'"),
        (W4A8.replace("_s4_", "_s4x4_"), "unknown token", "'s4x4'"),
        (W4A8.replace("_TN_", "_splitK1_TN_"), "unknown token", "'splitK1'"),
        (W4A8.replace("_Bb32_", "_B_"), "unknown token", "'B'"),
        (W4A8.replace("s4", "s٤"), "unknown token", "'s٤'"),
        (W4A8 + "\n", "unknown token", r"'sm100f\\n'"),
    ],
)
def test_what_does_not_fit_is_named_with_its_kernel(name: str, what: str, token: str) -> None:
    with pytest.raises(InputError) as caught:
        parse(name)
    (problem,) = caught.value.problems
    assert what in problem.what
    assert token in problem.found
    assert problem.expected
    assert problem.remedy
    assert problem.where
    assert name[:40].strip() in problem.where


def test_all_unreadable_names_are_listed_at_once() -> None:
    with pytest.raises(InputError) as caught:
        parse_all([*KERNELS, *UNKNOWN_NAMES])
    assert [problem.where for problem in caught.value.problems] == list(UNKNOWN_NAMES)
    assert list(parse_all(KERNELS)) == list(KERNELS)


@given(
    st.text()
    | st.lists(st.sampled_from(sorted({t for n in NAMES for t in n.split("_")}))).map("_".join)
)
def test_arbitrary_names_parse_or_are_refused(text: str) -> None:
    name, refusal = attempt(lambda: parse(text))
    if refusal is None:
        assert str(name) == text
    else:
        assert is_complete(refusal)
        assert len(str(refusal)) < 1000
        assert "\n" not in str(refusal)


@given(st.sampled_from(NAMES), st.data())
def test_any_change_of_one_token_changes_the_fields_or_is_refused(
    name: str, data: st.DataObject
) -> None:
    tokens = name.split("_")
    index = data.draw(st.integers(0, len(tokens) - 1))
    other = data.draw(st.sampled_from(sorted({t for n in NAMES for t in n.split("_")})))
    changed = "_".join([*tokens[:index], other, *tokens[index + 1 :]])
    fields, refusal = attempt(lambda: parse(changed))
    assert refusal is not None or (fields == parse(name)) == (changed == name)


def test_fields_are_frozen() -> None:
    with pytest.raises(AttributeError):
        parse(W4A8).sm = "sm90a"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("kernel", "filename"),
    [
        ("bmm_x_sm100f", "Bmm_x_sm100f.cubin"),
        ("bmm_bmm_Bmm_.cubin", "Bmm_bmm_Bmm_.cubin.cubin"),
        ("gemm_x_sm100f", "Gemm_x_sm100f.cubin"),
        ("fmhaSm100aKernel_x", "fmhaSm100aKernel_x.cubin"),
    ],
)
def test_file_and_kernel_names_map_both_ways(kernel: str, filename: str) -> None:
    assert cubin_filename(kernel) == filename
    assert kernel_of_filename(filename) == kernel


def test_a_parsed_name_has_the_same_file() -> None:
    assert cubin_filename(parse(W4A8)) == cubin_filename(W4A8)


@pytest.mark.parametrize("kernel", ["", "Bmm_x", "BMM_x", "xbmm_x", "bmmx"])
def test_the_kernel_prefix_is_exact(kernel: str) -> None:
    with pytest.raises(InputError, match="exactly in this case"):
        cubin_filename(kernel)


@pytest.mark.parametrize(
    "filename",
    ["", "bmm_x.cubin", "BMM_x.cubin", "Bmm_x", "Bmm_x.cubin.bak", "Bmm_x.CUBIN", "a/Bmm_x.cubin"],
)
def test_the_file_name_is_exact(filename: str) -> None:
    with pytest.raises(InputError, match="exactly in this case"):
        kernel_of_filename(filename)
