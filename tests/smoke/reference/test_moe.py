"""The mixture of experts against an explicit loop over scalars, in Python floats."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")
np = pytest.importorskip("numpy")
ml_dtypes = pytest.importorskip("ml_dtypes")

from situ_release.smoke.reference import moe as reference  # noqa: E402
from situ_release.smoke.reference import mxfp8  # noqa: E402
from situ_release.smoke.reference.moe import (  # noqa: E402
    ExpertWeights,
    Routing,
    Tokens,
    expert_shard,
    tensor_shard,
)
from situ_release.smoke.reference.situ import situ  # noqa: E402

EXPERTS, TOP_K, HIDDEN, INNER = 4, 3, 64, 32
CODES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0)


def make_experts(seed: int = 3, inner: int = INNER) -> ExpertWeights:
    generator = torch.Generator().manual_seed(seed)

    def some(low: int, high: int, *shape: int) -> torch.Tensor:
        return torch.randint(low, high, shape, dtype=torch.uint8, generator=generator)

    return ExpertWeights(
        w13=some(0, 256, EXPERTS, 2 * inner, HIDDEN // 2),
        w13_scales=some(122, 126, EXPERTS, 2 * inner, HIDDEN // 32),
        w2=some(0, 256, EXPERTS, HIDDEN, inner // 2),
        w2_scales=some(118, 124, EXPERTS, HIDDEN, inner // 32),
        beta=torch.tensor([4.0, 3.0, 2.5, 4.0]),
        linear_beta=torch.tensor([25.0, 20.0, 7.0, 25.0]),
    )


def make_tokens(tokens: int, scaled: bool, seed: int = 4) -> Tokens:
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(tokens, HIDDEN, generator=generator)
    return Tokens(*mxfp8.quantize(values)) if scaled else Tokens(values.to(torch.bfloat16))


def make_routing(tokens: int, experts: int = EXPERTS, seed: int = 5) -> Routing:
    generator = torch.Generator().manual_seed(seed)
    ids = torch.rand(tokens, experts, generator=generator).topk(TOP_K, dim=1).indices
    weights = torch.rand(tokens, TOP_K, generator=generator)
    return Routing(ids.to(torch.int32), weights.to(torch.bfloat16))


def bf16(value: float) -> float:
    return float(np.float32(value).astype(ml_dtypes.bfloat16))


def mx_block(values: list[float]) -> list[float]:
    """One block of 32 through MXFP8, element by element."""
    amax = max(map(abs, values))
    scale = 2.0 ** math.ceil(math.log2(amax / 448)) if amax else 1.0
    return [float(np.float32(v / scale).astype(ml_dtypes.float8_e4m3fn)) * scale for v in values]


def weight(packed: torch.Tensor, scales: torch.Tensor, row: int, column: int) -> float:
    byte = int(packed[row, column // 2])
    code = byte & 15 if column % 2 == 0 else byte >> 4
    return CODES[code] * 2.0 ** (int(scales[row, column // 32]) - 127)


def slow(tokens: Tokens, routing: Routing, experts: ExpertWeights) -> list[list[float]]:
    """The definition, one number at a time."""
    inner, result = experts.w13.shape[1] // 2, []
    inputs = tokens.numbers().tolist()
    for t, x in enumerate(inputs):
        total = [np.float32(0)] * HIDDEN
        for k in range(TOP_K):
            e = int(routing.ids[t, k]) - experts.offset
            if not 0 <= e < len(experts.w13):
                continue
            w13 = (experts.w13[e], experts.w13_scales[e])
            w2 = (experts.w2[e], experts.w2_scales[e])
            beta, linear_beta = float(experts.beta[e]), float(experts.linear_beta[e])
            acted = []
            for j in range(inner):
                gate = math.fsum(x[h] * weight(*w13, j, h) for h in range(HIDDEN))
                up = math.fsum(x[h] * weight(*w13, inner + j, h) for h in range(HIDDEN))
                gate = beta * math.tanh(gate / beta) / (1 + math.exp(-gate))
                acted.append(gate * linear_beta * math.tanh(up / linear_beta))
            if tokens.scales is None:
                acted = [bf16(value) for value in acted]
            else:
                acted = [v for b in range(0, inner, 32) for v in mx_block(acted[b : b + 32])]
            for h in range(HIDDEN):
                out = math.fsum(acted[j] * weight(*w2, h, j) for j in range(inner))
                total[h] += np.float32(float(routing.weights[t, k]) * bf16(out))
        result.append([bf16(value) for value in total])
    return result


@pytest.mark.parametrize("scaled", [False, True], ids=["w4a16", "w4a8"])
@pytest.mark.parametrize("tokens", [1, 5])
def test_against_the_explicit_loop(scaled: bool, tokens: int) -> None:
    experts, routing = make_experts(), make_routing(tokens)
    x = make_tokens(tokens, scaled)
    actual = reference.moe(x, routing, experts)
    assert actual.dtype == torch.bfloat16
    expected = torch.tensor(slow(x, routing, experts))
    # Sums in another order may round to the neighbour, nothing else.
    assert (actual.float() - expected).norm() / expected.norm() < 1e-3
    assert (actual.float() == expected).float().mean() > 0.95


@pytest.mark.parametrize("scaled", [False, True], ids=["w4a16", "w4a8"])
def test_experts_that_are_not_local_are_left_out(scaled: bool) -> None:
    whole = make_experts()
    part = expert_shard(whole, 1, 2)
    assert (part.offset, part.local) == (2, 2)
    routing, x = make_routing(6), make_tokens(6, scaled)
    expected = torch.tensor(slow(x, routing, part))
    actual = reference.moe(x, routing, part).float()
    assert (actual - expected).norm() / expected.norm() < 1e-3
    elsewhere = Routing(torch.zeros_like(routing.ids), routing.weights)
    assert not reference.moe(x, elsewhere, part).any()


@pytest.mark.parametrize("scaled", [False, True], ids=["w4a16", "w4a8"])
def test_expert_shards_sum_to_the_whole(scaled: bool) -> None:
    whole, routing, x = make_experts(), make_routing(16), make_tokens(16, scaled)
    parts = [reference.moe(x, routing, expert_shard(whole, rank, 4)).float() for rank in range(4)]
    expected = reference.moe(x, routing, whole).float()
    assert (sum(parts) - expected).norm() / expected.norm() < 5e-3


@pytest.mark.parametrize("scaled", [False, True], ids=["w4a16", "w4a8"])
def test_tensor_shards_sum_to_the_whole(scaled: bool) -> None:
    whole, routing, x = make_experts(inner=128), make_routing(16), make_tokens(16, scaled)
    parts = [reference.moe(x, routing, tensor_shard(whole, rank, 4)).float() for rank in range(4)]
    expected = reference.moe(x, routing, whole).float()
    assert (sum(parts) - expected).norm() / expected.norm() < 8e-3


def test_a_tensor_shard_holds_the_same_rows_of_gate_and_up() -> None:
    whole = make_experts(inner=64)
    part = tensor_shard(whole, 1, 2)
    assert torch.equal(part.w13[:, :32], whole.w13[:, 32:64])
    assert torch.equal(part.w13[:, 32:], whole.w13[:, 96:])
    assert torch.equal(part.w2, whole.w2[:, :, 16:])
    assert torch.equal(part.w2_scales, whole.w2_scales[:, :, 1:])


def test_the_order_of_slots_is_the_order_of_the_sum() -> None:
    outputs = torch.tensor([[[3e38], [-3e38], [1.0]]]).to(torch.bfloat16)
    routing = Routing(torch.tensor([[0, 1, 2]], dtype=torch.int32), torch.ones(1, 3).bfloat16())
    assert reference.finalize(outputs, routing, make_experts()).item() == 1.0
    rolled = outputs.roll(1, dims=1)  # 1 is lost in 3e38 before that is taken away
    assert reference.finalize(rolled, routing, make_experts()).item() == 0.0


def test_the_precision_changes_the_result_as_it_must() -> None:
    experts, routing = make_experts(), make_routing(8)
    x = make_tokens(8, scaled=True)
    same_inputs = Tokens(x.numbers().to(torch.bfloat16))  # MXFP8 inputs are exact in bf16
    assert torch.equal(same_inputs.numbers(), x.numbers())
    w4a8, w4a16 = (reference.moe(tokens, routing, experts).float() for tokens in (x, same_inputs))
    # The activation's result is rounded to E4M3 in one and to bf16 in the other.
    assert 5e-3 < (w4a8 - w4a16).norm() / w4a16.norm() < 8e-2


def test_a_process_that_allows_shortcuts_gets_exact_products() -> None:
    experts, routing, x = make_experts(), make_routing(8), make_tokens(8, scaled=False)
    expected = reference.moe(x, routing, experts)
    torch.set_float32_matmul_precision("medium")
    try:
        assert torch.equal(reference.moe(x, routing, experts), expected)
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision("highest")


def test_situ_is_bounded_and_asymmetric() -> None:
    beta, linear_beta = torch.tensor(4.0), torch.tensor(25.0)
    far = torch.tensor([[1e4]])
    assert situ(far, far, beta, linear_beta).item() == pytest.approx(100.0)
    assert situ(-far, far, beta, linear_beta).item() == pytest.approx(0.0)
    small = torch.tensor([[1e-3]])
    assert situ(small, small, beta, linear_beta).item() == pytest.approx(5.0025e-7, rel=1e-4)


def test_repeated_experts_count_once_per_slot() -> None:
    experts, x = make_experts(), make_tokens(2, scaled=False)
    ids = torch.tensor([[1, 1, 0], [2, 2, 2]], dtype=torch.int32)
    routing = replace(make_routing(2), ids=ids)
    expected = torch.tensor(slow(x, routing, experts))
    actual = reference.moe(x, routing, experts).float()
    assert (actual - expected).norm() / expected.norm() < 1e-3
