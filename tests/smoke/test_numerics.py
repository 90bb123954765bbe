"""What the numerics cases can see: correct outputs pass, every mutant fails."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

torch = pytest.importorskip("torch")

from situ_release.smoke.metrics import Tolerance, compare  # noqa: E402
from situ_release.smoke.mutants import MUTANTS  # noqa: E402
from situ_release.smoke.problem import Problem, make_experts, make_problem  # noqa: E402
from situ_release.smoke.reference import mxfp4, mxfp8  # noqa: E402
from situ_release.smoke.reference.moe import finalize, moe  # noqa: E402
from tests.smoke.small import small_contract  # noqa: E402

TOLERANCE = Tolerance(
    cosine=0.9999, relative_l2=1e-2, worst_token=2e-2, element=2**-5, outside=1e-4
)
PRECISIONS = ["w4a16", "w4a8"]
SEEDS = range(5)


def problem_of(precision: str, tokens: int, seed: int, parallel: int = 1, rank: int = 0) -> Problem:
    contract = small_contract(precision, expert_parallel=parallel)
    experts = make_experts(contract, seed, "cpu", rank=rank)
    return make_problem(contract, experts, tokens, seed)


def output(problem: Problem) -> torch.Tensor:
    return moe(problem.tokens, problem.routing, problem.experts)


def another_order(problem: Problem) -> torch.Tensor:
    """The same layer, its sums in another order: what a correct kernel differs by."""
    tokens, routing, experts = problem.tokens, problem.routing, problem.experts
    x = tokens.numbers().flip(1)
    top_k = routing.ids.shape[1]
    slots = torch.zeros(len(x), top_k, x.shape[1], dtype=torch.bfloat16)
    for t in range(len(x)):
        for k in range(top_k):
            e = int(routing.ids[t, k]) - experts.offset
            if not 0 <= e < experts.local:
                continue
            w13 = mxfp4.dequantize(experts.w13[e], experts.w13_scales[e]).flip(1)
            w2 = mxfp4.dequantize(experts.w2[e], experts.w2_scales[e])
            both = sum(
                part @ weights.T
                for part, weights in zip(x[t].split(64), w13.split(64, dim=1), strict=True)
            )
            gate, up = both.chunk(2)
            beta, linear_beta = experts.beta[e], experts.linear_beta[e]
            inner = torch.tanh(gate / beta) * beta / (1 + torch.exp(-gate))
            inner = inner * torch.tanh(up / linear_beta) * linear_beta
            inner = mxfp8.round_trip(inner) if tokens.scales is not None else inner.bfloat16()
            out = sum(
                part @ weights.T
                for part, weights in zip(inner.float().split(32), w2.split(32, dim=1), strict=True)
            )
            slots[t, k] = out.bfloat16()
    return finalize(slots, routing, experts)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("tokens", [1, 17])
def test_a_correct_output_passes_with_every_seed(precision: str, tokens: int) -> None:
    for seed in SEEDS:
        problem = problem_of(precision, tokens, seed)
        figures = compare(another_order(problem), output(problem), TOLERANCE)
        assert figures.broken(TOLERANCE) == [], figures


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("tokens", [1, 128])
@pytest.mark.parametrize("mutant", MUTANTS)
def test_every_mutant_fails_with_every_seed(precision: str, tokens: int, mutant: str) -> None:
    for seed in SEEDS:
        problem = problem_of(precision, tokens, seed)
        figures = compare(output(MUTANTS[mutant](problem)), output(problem), TOLERANCE)
        assert figures.broken(TOLERANCE), (seed, figures)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("mutant", MUTANTS)
@pytest.mark.parametrize("rank", [0, 1])
def test_every_mutant_fails_on_an_expert_shard(precision: str, mutant: str, rank: int) -> None:
    for tokens in (1, 33):
        problem = problem_of(precision, tokens, seed=tokens, parallel=2, rank=rank)
        assert problem.experts.offset == 4 * rank
        figures = compare(output(MUTANTS[mutant](problem)), output(problem), TOLERANCE)
        assert figures.broken(TOLERANCE), figures


def preactivations(problem: Problem) -> Iterator[tuple[torch.Tensor, torch.Tensor, int]]:
    x, experts = problem.tokens.numbers(), problem.experts
    for e in range(experts.local):
        w13 = mxfp4.dequantize(experts.w13[e], experts.w13_scales[e])
        gate, up = (x @ w13.T).chunk(2, dim=1)
        yield gate, up, e


@pytest.mark.parametrize("precision", PRECISIONS)
def test_inputs_reach_the_nonlinear_range(precision: str) -> None:
    problem = problem_of(precision, 64, seed=1)
    for gate, up, e in preactivations(problem):
        beyond_beta = (gate.abs() > problem.experts.beta[e]).float().mean()
        beyond_linear = (up.abs() > problem.experts.linear_beta[e]).float().mean()
        assert 0.1 < beyond_beta < 0.7
        assert 0.1 < beyond_linear < 0.7
    result = output(problem).float()
    assert result.isfinite().all()
    assert 0.1 < result.square().mean().sqrt() < 30


@pytest.mark.parametrize("precision", PRECISIONS)
def test_scales_and_loads_vary(precision: str) -> None:
    problem = problem_of(precision, 128, seed=1)
    experts = problem.experts
    for scales in (experts.w13_scales, experts.w2_scales):
        assert (scales[..., 1:] != scales[..., :-1]).float().mean() > 0.5
    assert len(experts.beta.unique()) == experts.local
    loads = torch.bincount(problem.routing.ids.flatten(), minlength=experts.local)
    assert loads.max() > 2 * loads.min()
    if problem.tokens.scales is not None:
        assert len(problem.tokens.scales.unique()) >= 3


def test_the_same_seed_gives_the_same_problem_and_another_one_another() -> None:
    one, same, other = (problem_of("w4a8", 8, seed) for seed in (1, 1, 2))
    assert torch.equal(one.experts.w13, same.experts.w13)
    assert torch.equal(one.routing.ids, same.routing.ids)
    assert not torch.equal(one.experts.w13, other.experts.w13)
    assert not torch.equal(one.routing.ids, other.routing.ids)


def test_routing_is_valid_and_reaches_the_shard() -> None:
    for rank in range(2):
        problem = problem_of("w4a16", 9, seed=rank, parallel=2, rank=rank)
        ids = problem.routing.ids
        assert ids.dtype == torch.int32
        assert all(len(row.unique()) == len(row) for row in ids)
        local = (ids >= 4 * rank) & (ids < 4 * rank + 4)
        assert local[::2].any(dim=1).all()


def test_both_precisions_share_their_weights() -> None:
    first, second = (make_experts(small_contract(name), 7, "cpu") for name in PRECISIONS)
    assert torch.equal(first.w13, second.w13)
    assert torch.equal(first.w2_scales, second.w2_scales)


# --- the metrics themselves ------------------------------------------------------------------


def test_nan_is_never_near() -> None:
    expected = torch.randn(4, 64)
    actual = expected.clone()
    actual[2, 3] = float("nan")
    figures = compare(actual, expected, TOLERANCE)
    assert figures.nonfinite == 1
    assert figures.broken(TOLERANCE) == ["nonfinite"]
    assert figures.broken(Tolerance(-1, 1e9, 1e9, 1e9, 1)) == ["nonfinite"]


def test_one_bad_token_among_many_is_seen() -> None:
    expected = torch.randn(4096, 64)
    actual = expected.clone()
    actual[4095] *= 1.05
    figures = compare(actual, expected, TOLERANCE)
    assert figures.relative_l2 < TOLERANCE.relative_l2
    assert figures.worst_token == pytest.approx(0.05, rel=1e-3)
    assert "worst_token" in figures.broken(TOLERANCE)


def test_one_bad_element_is_seen() -> None:
    expected = torch.ones(1, 4096)
    actual = expected.clone()
    actual[0, 7] = 1.2
    figures = compare(actual, expected, TOLERANCE)
    assert figures.worst_element == pytest.approx(0.2, rel=1e-3)
    assert figures.broken(TOLERANCE) == ["outside"]


def test_identical_outputs_are_perfect() -> None:
    expected = torch.randn(3, 64)
    figures = compare(expected, expected, TOLERANCE)
    assert figures.cosine == pytest.approx(1.0)
    assert (figures.relative_l2, figures.worst_element, figures.outside) == (0.0, 0.0, 0.0)


def test_a_token_that_must_be_zero_is_measured_too() -> None:
    expected = torch.randn(2, 64)
    expected[1] = 0
    actual = expected.clone()
    assert compare(actual, expected, TOLERANCE).broken(TOLERANCE) == []
    actual[1, 0] = 0.01
    assert "worst_token" in compare(actual, expected, TOLERANCE).broken(TOLERANCE)


def test_all_zero_expects_all_zero() -> None:
    zero = torch.zeros(2, 64)
    assert compare(zero, zero, TOLERANCE).broken(TOLERANCE) == []
    assert compare(zero + 1e-3, zero, TOLERANCE).broken(TOLERANCE)
