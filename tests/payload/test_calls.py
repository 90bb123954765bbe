"""The K3 wrapper's checks, and what reaches the runner."""

from __future__ import annotations

import inspect
from types import ModuleType

import pytest

from tests.payload import bad_calls
from tests.payload.assemble import CONFIGS, MOE, assemble
from tests.payload.fakes import FakeRunner, Tensor, install, k3_arguments

PUBLIC_NAMES = {
    "bundle_info",
    "verify_bundle",
    "load_raw_module",
    "raise_last_callback_error",
    "BundleError",
    "get_valid_k3_situ_configs",
    "get_valid_moe_configs",
    "mxfp4_situ_routed_moe",
    "trtllm_fp4_block_scale_moe_raw",
    "ActivationType",
    "DtypeTrtllmGen",
    "Fp8QuantizationType",
    "RoutingInputMode",
    "DEFAULT_TACTIC",
    "K3_HIDDEN_SIZE",
    "K3_NUM_EXPERTS",
    "K3_TOP_K",
}


@pytest.fixture(scope="module")
def runner() -> FakeRunner:
    return FakeRunner()


@pytest.fixture(scope="module")
def situ(tmp_path_factory: pytest.TempPathFactory, runner: FakeRunner):
    with pytest.MonkeyPatch.context() as monkeypatch:
        yield install(assemble(tmp_path_factory.mktemp("calls")), runner, monkeypatch)


@pytest.mark.parametrize("name", bad_calls.calls(None))
def test_a_bad_call_raises_before_anything_is_opened(
    situ: ModuleType, runner: FakeRunner, name: str
) -> None:
    call, expected = bad_calls.calls(situ)[name]
    runner.calls.clear()
    with pytest.raises(expected) as caught:
        call()
    assert caught.type is expected
    assert runner.calls == []


@pytest.mark.parametrize("name", ["hidden_states", "topk_ids", "output", *bad_calls.WEIGHTS])
def test_the_message_names_the_tensor(situ: ModuleType, name: str) -> None:
    for wrong in (None, Tensor(7, 7)):
        with pytest.raises((TypeError, ValueError), match=name):
            situ.mxfp4_situ_routed_moe(**k3_arguments(**{name: wrong}))


@pytest.mark.parametrize(
    ("local", "offset", "intermediate"),
    [(896, 0, 384), (112, 0, 3072), (112, 784, 3072), (448, 448, 128), (1, 895, 1280)],
)
@pytest.mark.parametrize("tokens", [0, 1, 16384])
@pytest.mark.parametrize("scaled", [False, True])
def test_a_supported_call_reaches_the_runner_as_it_is(
    situ: ModuleType,
    runner: FakeRunner,
    local: int,
    offset: int,
    intermediate: int,
    tokens: int,
    scaled: bool,
) -> None:
    arguments = k3_arguments(
        tokens,
        local_num_experts=local,
        local_expert_offset=offset,
        intermediate_size=intermediate,
        hidden_states_scale=Tensor(tokens, 112) if scaled else None,
    )
    runner.calls.clear()
    assert situ.mxfp4_situ_routed_moe(**arguments) is arguments["output"]
    (call,) = runner.calls
    expected = [
        *(2, None, arguments["topk_ids"], arguments["topk_weights"], None),
        *(arguments["hidden_states"], arguments["hidden_states_scale"]),
        *(arguments["gemm1_weights"], arguments["gemm1_weights_scale"], None),
        *(arguments["gemm1_alpha"], arguments["gemm1_beta"], None),
        *(arguments["gemm2_weights"], arguments["gemm2_weights_scale"], None),
        *(None, None, None, None, 896, 16, None, None, intermediate, offset, local, None),
        *(0, True, False, 9, arguments["output"], [-1, -1], True, None),
    ]
    assert call == (MOE, tuple(expected))
    assert len(expected) == 36


def test_tactic_and_pdl_are_passed_on(situ: ModuleType, runner: FakeRunner) -> None:
    runner.calls.clear()
    situ.mxfp4_situ_routed_moe(**k3_arguments(tactic=[16, 3], enable_pdl=1))
    ((_, arguments),) = runner.calls
    assert arguments[30] is True
    assert arguments[33] == [16, 3]


def test_weights_are_checked_by_their_number_of_experts_only(situ: ModuleType) -> None:
    """How a caller folds the other dimensions is the runner's business."""
    folded = {name: Tensor(896) for name in bad_calls.WEIGHTS}
    situ.mxfp4_situ_routed_moe(**k3_arguments(**folded))


@pytest.mark.parametrize(
    ("keywords", "expected"),
    [
        ({}, (0x101000, 0x110040C, 0, 16, 3584, 384, 896, 896, 9, True, 0, False, 128, False)),
        (
            {"intermediate_size": 3072, "local_num_experts": 112, "mxfp8_act": True},
            (0x110080D, 0x110040C, 2, 16, 3584, 3072, 112, 896, 9, True, 0, False, 128, False),
        ),
    ],
)
def test_the_config_query(
    situ: ModuleType, runner: FakeRunner, keywords: dict[str, object], expected: tuple[object, ...]
) -> None:
    runner.calls.clear()
    assert situ.get_valid_k3_situ_configs(128, **keywords) == "result"
    assert runner.calls == [(CONFIGS, expected)]


@pytest.mark.parametrize(("value", "error"), [("a", ValueError), (None, TypeError)])
def test_the_open_query_takes_numbers(situ: ModuleType, value: object, error: type) -> None:
    with pytest.raises(error):
        situ.get_valid_moe_configs(value, *range(12))


def test_raw_arguments_are_passed_on_untouched(situ: ModuleType, runner: FakeRunner) -> None:
    runner.calls.clear()
    thing = object()
    assert situ.trtllm_fp4_block_scale_moe_raw(1, None, thing) == "result"
    assert runner.calls == [(MOE, (1, None, thing))]


def test_the_public_interface(situ: ModuleType) -> None:
    assert set(situ.__all__) == PUBLIC_NAMES
    assert situ.__version__ == "1.2.3.post4"
    assert issubclass(situ.BundleError, RuntimeError)
    assert situ.loader.bundle_info is situ.bundle_info
    assert situ.op.RoutingInputMode.UNPACKED_PRECOMPUTED == 2
    assert situ.op.ActivationType.SITU == 9
    assert (situ.K3_HIDDEN_SIZE, situ.K3_NUM_EXPERTS, situ.K3_TOP_K) == (3584, 896, 16)
    assert situ.DEFAULT_TACTIC == (-1, -1)
    keywords = inspect.signature(situ.mxfp4_situ_routed_moe).parameters
    assert {p.kind for p in keywords.values()} == {inspect.Parameter.KEYWORD_ONLY}
    # TokenSpeed asks for these before it registers the kernel.
    assert keywords.keys() >= {
        "num_experts",
        "top_k",
        "intermediate_size",
        "local_expert_offset",
        "local_num_experts",
        "tactic",
    }
