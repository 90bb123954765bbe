"""The package of the public SwiGLU bundle: the shared runtime, and a small API of its own."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from situ_release.bundle.recipe import load_recipe
from tests.payload.assemble import assemble
from tests.payload.fakes import FakeRunner, Tensor, install

RECIPE = "flashinfer-mxfp4-swiglu"
MOE = "trtllm_fp4_block_scale_moe"
CONFIGS = "trtllm_get_valid_moe_configs"
HIDDEN, INTERMEDIATE, EXPERTS, LOCAL, TOP_K = 7168, 2048, 256, 32, 8


@pytest.fixture(scope="module")
def runner() -> FakeRunner:
    return FakeRunner((MOE, CONFIGS))


@pytest.fixture(scope="module")
def moe(tmp_path_factory: pytest.TempPathFactory, runner: FakeRunner) -> Iterator[ModuleType]:
    package = assemble(tmp_path_factory.mktemp("swiglu"), recipe_name=RECIPE)
    with pytest.MonkeyPatch.context() as monkeypatch:
        yield install(package, runner, monkeypatch)


def call_arguments(tokens: int = 4, **changes: Any) -> dict[str, Any]:
    """Keyword arguments of a supported call, some replaced."""
    arguments: dict[str, Any] = {
        "topk_ids": Tensor(tokens, TOP_K),
        "topk_weights": Tensor(tokens, TOP_K),
        "hidden_states": Tensor(tokens, HIDDEN),
        "gemm1_weights": Tensor(LOCAL, 2 * INTERMEDIATE, HIDDEN // 2),
        "gemm1_weights_scale": Tensor(LOCAL, 2 * INTERMEDIATE, HIDDEN // 32),
        "gemm2_weights": Tensor(LOCAL, HIDDEN, INTERMEDIATE // 2),
        "gemm2_weights_scale": Tensor(LOCAL, HIDDEN, INTERMEDIATE // 32),
        "output": Tensor(tokens, HIDDEN),
        "num_experts": EXPERTS,
        "top_k": TOP_K,
        "intermediate_size": INTERMEDIATE,
        "local_expert_offset": 64,
        "local_num_experts": LOCAL,
    }
    return arguments | changes


def config_arguments(**changes: Any) -> dict[str, Any]:
    arguments = {
        "num_tokens": 128,
        "top_k": TOP_K,
        "hidden_size": HIDDEN,
        "intermediate_size": INTERMEDIATE,
        "local_num_experts": LOCAL,
    }
    return arguments | changes


def test_everything_named_is_there(moe: ModuleType) -> None:
    assert all(hasattr(moe, name) for name in moe.__all__)
    assert moe.__version__ == "1.2.3.post4"
    assert moe.verify_bundle()["fc1_swiglu_count"] == 0  # assemble() has other roles


def test_the_activation_is_that_of_the_contracts(moe: ModuleType) -> None:
    contracts = load_recipe(RECIPE).recipe.contracts
    assert {contract.activation_type for contract in contracts} == {moe.SWIGLU}


@pytest.mark.parametrize("scaled", [False, True])
def test_a_supported_call_reaches_the_runner(
    moe: ModuleType, runner: FakeRunner, scaled: bool
) -> None:
    scale = Tensor(4, HIDDEN // 32) if scaled else None
    arguments = call_arguments(hidden_states_scale=scale, enable_pdl=True, tactic=(16, 3))
    runner.calls.clear()
    assert moe.mxfp4_swiglu_routed_moe(**arguments) is arguments["output"]
    ((name, values),) = runner.calls
    assert name == MOE
    assert len(values) == 36
    given = dict(enumerate(values))
    assert given[0] == 2  # ids and weights apart
    names = ("topk_ids", "topk_weights", "hidden_states", "gemm1_weights", "gemm2_weights")
    assert [given[i] for i in (2, 3, 5, 7, 13)] == [arguments[each] for each in names]
    assert given[6] is scale
    assert [given[i] for i in (20, 21, 24, 25, 26)] == [EXPERTS, TOP_K, INTERMEDIATE, 64, LOCAL]
    assert [given[i] for i in (29, 30, 31, 33)] == [True, True, moe.SWIGLU, [16, 3]]
    assert given[32] is arguments["output"]


@pytest.mark.parametrize(
    ("mxfp8", "types"), [(False, (0x101000, 0x110040C, 0)), (True, (0x110080D, 0x110040C, 2))]
)
def test_the_config_query_has_no_total_expert_count(
    moe: ModuleType, runner: FakeRunner, mxfp8: bool, types: tuple[int, ...]
) -> None:
    runner.calls.clear()
    assert moe.get_valid_moe_configs(**config_arguments(mxfp8_act=mxfp8)) == "result"
    shape = (TOP_K, HIDDEN, INTERMEDIATE, LOCAL)
    assert runner.calls == [(CONFIGS, (*types, *shape, moe.SWIGLU, True, 0, False, 128, False))]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"hidden_states": Tensor(4, 7168 + 64)}, "hidden size"),
        ({"hidden_states": Tensor()}, "hidden size"),
        ({"hidden_states": Tensor(4, 2, 7168)}, "hidden_states"),
        ({"topk_ids": Tensor(5, 8)}, "topk_ids"),
        ({"topk_weights": Tensor(4, 7)}, "topk_weights"),
        ({"output": Tensor(4, 7167)}, "output"),
        ({"hidden_states_scale": Tensor(4, 7168)}, "hidden_states_scale"),
        ({"gemm1_weights": Tensor(31, 4096, 3584)}, "gemm1_weights"),
        ({"gemm2_weights_scale": Tensor()}, "gemm2_weights_scale"),
        ({"top_k": 0}, "top_k"),
        ({"top_k": 257}, "top_k"),
        ({"intermediate_size": 100}, "intermediate_size"),
        ({"local_num_experts": 33}, "local_num_experts"),
        ({"local_expert_offset": 1}, "local_expert_offset"),
        ({"tactic": (1, 2, 3)}, "tactic"),
    ],
)
def test_a_bad_call_raises_before_anything_is_opened(
    moe: ModuleType, runner: FakeRunner, changes: dict[str, Any], words: str
) -> None:
    runner.calls.clear()
    with pytest.raises(ValueError, match=words):
        moe.mxfp4_swiglu_routed_moe(**call_arguments(**changes))
    assert runner.calls == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"num_tokens": 0}, "num_tokens"),
        ({"top_k": -1}, "top_k"),
        ({"hidden_size": 100}, "hidden size"),
        ({"intermediate_size": 0}, "intermediate_size"),
        ({"local_num_experts": 0}, "local_num_experts"),
    ],
)
def test_a_bad_query_raises_before_anything_is_opened(
    moe: ModuleType, runner: FakeRunner, changes: dict[str, Any], words: str
) -> None:
    runner.calls.clear()
    with pytest.raises(ValueError, match=words):
        moe.get_valid_moe_configs(**config_arguments(**changes))
    assert runner.calls == []


def test_what_has_no_shape_is_named(moe: ModuleType) -> None:
    with pytest.raises(TypeError, match="gemm1_weights_scale"):
        moe.mxfp4_swiglu_routed_moe(**call_arguments(gemm1_weights_scale=None))
