"""The compiled runner and the kernels' own code on an emulated device, against a plain reference.

The runner, its kernel table and its launches are the real ones; the kernels are compiled for the
host, where only the tensor-core instruction is replaced. What this cannot show: that the GPU's
instructions do what the manual says.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from situ_release.bundle.conformance import ConformanceBuild

pytest.importorskip("torch")
from tests.conformance.plain_moe import config_arguments

pytestmark = [pytest.mark.nvcc, pytest.mark.slow]

LADDER = {"w4a16": (8, 16, 32, 64), "w4a8": (8, 16, 32, 64, 128, 256)}
SMALL = {"tokens": 5, "hidden": 256, "inner": 128, "experts": 6, "top_k": 2}


@pytest.fixture(scope="module")
def run(built: ConformanceBuild, emulator: dict[str, str], tmp_path_factory: Any) -> Any:
    """Runs cases in a child process; figures of each."""

    def run_cases(*cases: dict[str, Any], sm: int = 90) -> list[dict[str, Any]]:
        request = tmp_path_factory.mktemp("request") / "cases.json"
        request.write_text(json.dumps(cases))
        command = [sys.executable, "-m", "tests.conformance.emulated_runner"]
        result = subprocess.run(
            [*command, str(built.module.parent), str(request)],
            env={**emulator, "EMULATED_SM": str(sm)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == 0, result.stderr[-2000:]
        figures = [json.loads(line) for line in result.stdout.splitlines()]
        assert len(figures) == len(cases)
        for figure in figures:
            assert figure["guards"] == 0, "a write outside an allocation"
            assert figure["live"] == 0, "an allocation that was not given back"
        return figures

    return run_cases


def assert_right(figures: dict[str, Any]) -> None:
    assert figures.get("error") is None
    assert figures["finite"]
    assert figures["cosine"] > 0.99999
    assert figures["l2"] < 1e-3


def gemms(figures: dict[str, Any]) -> list[str]:
    return [name for name in figures["launched"] if name.startswith("bmm_")]


@pytest.mark.parametrize("precision", ["w4a16", "w4a8"])
def test_every_kernel_is_right(run: Any, precision: str) -> None:
    """Two configs of each tile launch all four kernels; the depth of FC2, 384, is not a multiple of
    the larger K tile."""
    shape = {**SMALL, "inner": 384}
    cases = [
        {"precision": precision, **shape, "tactic": [tile, config]}
        for tile in LADDER[precision]
        for config in (1, 2)
    ]
    launched = set()
    for figures in run(*cases):
        assert_right(figures)
        launched |= set(gemms(figures))
        assert len(figures["requests"]) == len(gemms(figures)) == 2
    assert len(launched) == 4 * len(LADDER[precision])


@pytest.mark.parametrize("precision", ["w4a16", "w4a8"])
def test_routing_of_many_shapes(run: Any, precision: str) -> None:
    """More slots and experts than a routing CTA has threads, experts of other ranks, one token."""
    many = {"hidden": 128, "inner": 128, "experts": 300, "top_k": 16}
    cases = [
        {"tokens": 1, **many},
        {"tokens": 33, **many, "offset": 260, "local": 40},
        {**SMALL, "tokens": 90},
        {**SMALL, "packed": True, "offset": 2, "local": 3},
        {**SMALL, "experts": 1, "top_k": 1},
        {**SMALL, "tokens": 0},
    ]
    for figures in run(*({"precision": precision, **case} for case in cases)):
        assert_right(figures)
        assert figures["answer"] == [True]


@pytest.mark.parametrize("precision", ["w4a16", "w4a8"])
def test_deferred_finalize_gives_the_experts_rows(run: Any, precision: str) -> None:
    problem = {"precision": precision, **SMALL, "finalize": False, "offset": 1, "local": 4}
    (figures,) = run(problem)
    assert_right(figures)
    shape, middle_is_none, index = figures["answer"]
    assert middle_is_none
    assert figures["untouched"]
    assert figures["local_agrees"]
    # Smallest tile 8: at most 6 experts with one unfilled tile each; never below 128 KiB.
    assert shape == [max(8 * (6 + (10 - 6) // 8), 131072 // 512), 256]
    assert len({row for row in index if row >= 0}) == sum(row >= 0 for row in index)
    assert "situ_finalize" not in figures["launched"]


@pytest.mark.parametrize("mutant", ["swapped betas", "swapped halves", "skipped expert"])
@pytest.mark.parametrize("precision", ["w4a16", "w4a8"])
def test_the_comparison_sees_mutants(run: Any, precision: str, mutant: str) -> None:
    (figures,) = run({"precision": precision, **SMALL, "mutant": mutant})
    assert figures["cosine"] < 0.9995 or figures["l2"] > 0.03


def test_unsupported_calls_are_refused(run: Any) -> None:
    cases = {
        "invalid MoE tactic 4 for tile_N=8": {**SMALL, "tactic": [8, 4]},
        "invalid MoE tactic 0 for tile_N=128": {**SMALL, "tactic": [128, 0]},
        "intermediate size 64": {**SMALL, "spoil": ["intermediate_size", 64]},
        "topk_ids must": {**SMALL, "spoil": ["topk_ids", "dtype"]},
        "gemm1_weights must": {**SMALL, "spoil": ["gemm1_weights", "shape"]},
        "gemm2_weights_scale must have": {**SMALL, "spoil": ["gemm2_weights_scale", "shape"]},
        "another activation": {**SMALL, "spoil": ["act_type", 3]},
        "routing from logits": {**SMALL, "spoil": ["routing_input_mode", 0]},
    }
    answers = run(*({"precision": "w4a16", **case} for case in cases.values()))
    for message, figures in zip(cases, answers, strict=True):
        assert message in figures["error"]
        assert "/" not in figures["error"].replace("topk_ids", "")


@pytest.mark.parametrize(
    ("sm", "architectures"),
    [(90, {"sm90a"}), (100, {"sm100f"}), (103, {"sm100f", "sm103a"}), (120, set())],
)
def test_only_kernels_of_the_device_are_offered(run: Any, sm: int, architectures: set[str]) -> None:
    """For a tile and architecture two kernels of each role; tiles by an expert's mean tokens."""
    count = (2 * len(architectures)) ** 2
    expected = {
        ("w4a16", 1): (8, 16, 32),
        ("w4a16", 700): (8, 16, 32, 64),
        ("w4a16", 4096): (32, 64),
        ("w4a8", 448): (8, 16, 32),
        ("w4a8", 449): (8, 16, 32, 64),
        ("w4a8", 4096): (64, 128, 256),
        ("w4a8", 100000): (128, 256),
    }
    cases = [
        {"configs": config_arguments(precision, tokens, 3584, 384, 896, 16, 896)}
        for precision, tokens in expected
    ]
    for tiles, figures in zip(expected.values(), run(*cases, sm=sm), strict=True):
        wanted = [[tile, config] for tile in tiles for config in range(count)]
        assert figures["configs"] == (wanted if count else [])


def test_a_device_without_kernels_is_told_so(run: Any) -> None:
    (figures,) = run({"precision": "w4a16", **SMALL}, sm=80)
    assert "sm_80" in figures["error"]


def test_kernels_of_another_architecture_are_launched_there(run: Any) -> None:
    cases = [{"precision": "w4a8", **SMALL, "tactic": [8, config]} for config in range(16)]
    pairs = set()
    for figures in run(*cases, sm=103):
        assert_right(figures)
        pairs.add(tuple(gemms(figures)))
    assert len(pairs) == 16
    assert {name.rpartition("_")[2] for pair in pairs for name in pair} == {"sm100f", "sm103a"}
