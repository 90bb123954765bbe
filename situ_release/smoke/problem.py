"""Inputs for one numerics case: random, seeded, and strong enough to see what may go wrong.

Weights small enough to be harmless would leave SiTU nearly linear, and then a runner that drops
beta or swaps gate and up passes. So scales are chosen such that gate has a standard deviation near
beta and up one near linear_beta. Scales vary from block to block, betas from expert to expert, and
the experts' loads from many tokens to few, so that an index that is off by one changes the result.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch  # noqa: TID253 - makes tensors

from situ_release.bundle.recipe import Contract
from situ_release.smoke.reference import e8m0, mxfp8
from situ_release.smoke.reference.moe import ExpertWeights, Routing, Tokens

BETA = 4.0
LINEAR_BETA = 25.0
"""SiTU's parameters in Kimi K3; experts get these times 0.75 to 1.25."""

_BETA_SPREAD = 0.25
_CODE_RMS = math.sqrt(68.5 / 8)  # of the eight MXFP4 magnitudes, each as likely
_JITTER_RMS = math.sqrt((0.25 + 1 + 4) / 3)  # of a factor 1/2, 1 or 2, each as likely
_INNER_RMS = 16.0  # about what SiTU makes of such gate and up
_LEAST_WEIGHT = 0.25


@dataclass(frozen=True, slots=True)
class Problem:
    """Everything that one call of the layer reads, in checkpoint layout."""

    tokens: Tokens
    routing: Routing
    experts: ExpertWeights


def make_experts(contract: Contract, seed: int, device: str, *, rank: int = 0) -> ExpertWeights:
    """The weights of one shard of a contract.

    Both precisions use the same weights: they depend on sizes, seed, rank and the kind of device.

    Args:
        contract: sizes: L, H and I.
        seed: any integer.
        device: a torch device, such as "cuda" or "cpu".
        rank: expert-parallel rank; its experts begin at ``rank * L``.
    """
    local, hidden = contract.local_num_experts, contract.hidden_size
    inner = contract.physical_intermediate_size
    generator = _generator(device, seed, rank)

    def codes(*shape: int) -> torch.Tensor:
        return torch.randint(0, 256, shape, dtype=torch.uint8, device=device, generator=generator)

    def scales(rows: int, columns: int, rms: float) -> torch.Tensor:
        base = _scale_code(rms / (math.sqrt(columns) * _CODE_RMS * _JITTER_RMS))
        shape = (local, rows, columns // e8m0.BLOCK)
        return torch.randint(
            base - 1, base + 2, shape, dtype=torch.uint8, device=device, generator=generator
        )

    def betas(middle: float) -> torch.Tensor:
        share = torch.rand(local, device=device, generator=generator)
        return middle * (1 + _BETA_SPREAD * (2 * share - 1))

    gate = scales(inner, hidden, BETA / _JITTER_RMS)
    up = scales(inner, hidden, LINEAR_BETA / _JITTER_RMS)
    return ExpertWeights(
        w13=codes(local, 2 * inner, hidden // 2),
        w13_scales=torch.cat((gate, up), dim=1),
        w2=codes(local, hidden, inner // 2),
        w2_scales=scales(hidden, inner, 1 / _INNER_RMS),
        beta=betas(BETA),
        linear_beta=betas(LINEAR_BETA),
        offset=rank * local if contract.expert_parallel_size > 1 else 0,
    )


def make_problem(contract: Contract, experts: ExpertWeights, tokens: int, seed: int) -> Problem:
    """Tokens and routing for a shard of experts, on the experts' device.

    Args:
        contract: precision and sizes.
        experts: the shard, from :func:`make_experts`.
        tokens: T; may be 0.
        seed: any integer; the same gives the same inputs on the same kind of device.
    """
    device = str(experts.w13.device)
    generator = _generator(device, seed, tokens)
    return Problem(
        _tokens(contract, tokens, device, generator),
        _routing(contract, experts, tokens, device, generator),
        experts,
    )


def _tokens(contract: Contract, tokens: int, device: str, generator: torch.Generator) -> Tokens:
    hidden = contract.hidden_size
    values = torch.randn(tokens, hidden, device=device, generator=generator)
    exponents = torch.randint(
        -1, 2, (tokens, hidden // e8m0.BLOCK, 1), device=device, generator=generator
    )
    values = values.unflatten(1, (-1, e8m0.BLOCK)).ldexp(exponents).flatten(1)
    if contract.dtype_activation == "mxe4m3":
        return Tokens(*mxfp8.quantize(values))
    return Tokens(values.to(torch.bfloat16))


def _routing(
    contract: Contract,
    experts: ExpertWeights,
    tokens: int,
    device: str,
    generator: torch.Generator,
) -> Routing:
    """Distinct experts per token, some of them popular; every other token has a local one."""
    count = contract.num_experts
    popularity = torch.randn(count, device=device, generator=generator)
    scores = popularity + torch.randn(tokens, count, device=device, generator=generator)
    chosen = torch.randint(experts.local, (tokens,), device=device, generator=generator)
    even = torch.arange(0, tokens, 2, device=device)
    scores[even, chosen[even] + experts.offset] = math.inf
    ids = scores.topk(contract.top_k, dim=1).indices
    # The order of slots is the order of the sum: it must not follow from the score.
    order = torch.rand(ids.shape, device=device, generator=generator).argsort(dim=1)
    share = torch.rand(ids.shape, device=device, generator=generator)
    weights = _LEAST_WEIGHT + (1 - _LEAST_WEIGHT) * share
    return Routing(ids.gather(1, order).to(torch.int32), weights.to(torch.bfloat16))


def _scale_code(scale: float) -> int:
    return round(math.log2(scale)) + e8m0.BIAS


def _generator(device: str, *numbers: int) -> torch.Generator:
    seed = 0
    for number in numbers:
        seed = (seed * 1_000_003 + number + 1) % (1 << 62)
    return torch.Generator(device).manual_seed(seed)
