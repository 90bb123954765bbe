"""A plain routed MoE with MXFP4 weights and SiTU in torch, for checking the conformance bundle.

Written for these tests alone: it shares nothing with the kernels, nor with the reference of
`gpu-smoke`. Weights are made in checkpoint layout (`[gate | up]`, rows and scales in natural order)
and then stored as the runner wants them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
MEAN_SQUARE = sum(value * value for value in E2M1) / len(E2M1)


@dataclass
class Problem:
    """One call's inputs; weights are codes and scales, `*_stored` as the runner wants them."""

    precision: str
    experts: int  # of the model
    offset: int
    beta: torch.Tensor
    linear_beta: torch.Tensor
    ids: torch.Tensor
    weights: torch.Tensor
    tokens: torch.Tensor  # bf16, or e4m3 with token_scales
    token_scales: torch.Tensor | None
    gate_up: tuple[torch.Tensor, torch.Tensor]
    down: tuple[torch.Tensor, torch.Tensor]
    gate_up_stored: tuple[torch.Tensor, torch.Tensor]
    down_stored: tuple[torch.Tensor, torch.Tensor]

    @property
    def local(self) -> int:
        return self.gate_up[0].shape[0]

    @property
    def inner(self) -> int:
        return self.down[0].shape[2] * 2


def make_weights(experts, hidden, inner, device, seed):
    """Random MXFP4 weights; products reach beta (4) for the gate and linear beta (25) for up."""
    random = torch.Generator(device=device).manual_seed(seed)

    def integers(low, high, shape):
        return torch.randint(low, high, shape, generator=random, device=device, dtype=torch.uint8)

    gate, up = (127 + round(math.log2(x / math.sqrt(hidden * MEAN_SQUARE))) for x in (4, 25))
    down = 127 + round(math.log2(1 / math.sqrt(inner * MEAN_SQUARE))) - 3
    blocks = hidden // 32
    scales = torch.cat(
        [integers(mid - 1, mid + 2, (experts, inner, blocks)) for mid in (gate, up)], dim=1
    )
    return (
        (integers(0, 256, (experts, 2 * inner, hidden // 2)), scales),
        (
            integers(0, 256, (experts, hidden, inner // 2)),
            integers(down - 1, down + 2, (experts, hidden, inner // 32)),
        ),
    )


def make_tokens(count, hidden, device, seed):
    random = torch.Generator(device=device).manual_seed(seed)
    return torch.randn((count, hidden), generator=random, device=device).to(torch.bfloat16)


def make_routing(count, experts, top_k, device, seed):
    """Distinct experts of each token, and weights that sum to about one."""
    random = torch.Generator(device=device).manual_seed(seed)
    scores = torch.rand((count, experts), generator=random, device=device)
    ids = scores.topk(top_k, dim=1).indices.to(torch.int32)
    weights = torch.rand((count, top_k), generator=random, device=device) + 0.1
    return ids, (weights / weights.sum(1, keepdim=True)).to(torch.bfloat16)


def make_problem(
    precision,
    tokens,
    hidden,
    inner,
    experts,
    top_k,
    *,
    device="cpu",
    seed=0,
    offset=0,
    local=None,
    weights=None,
):
    local = experts if local is None else local
    gate_up, down = weights or make_weights(local, hidden, inner, device, seed)
    activations = make_tokens(tokens, hidden, device, seed + 1)
    scales = None
    if precision == "w4a8":
        activations, scales = quantize_mxfp8(activations.float())
    ids, routing_weights = make_routing(tokens, experts, top_k, device, seed + 2)
    varied = torch.arange(local, device=device) % 3
    return Problem(
        precision,
        experts,
        offset,
        4.0 + 0.5 * varied,
        25.0 - 2.0 * varied,
        ids,
        routing_weights,
        activations,
        scales,
        gate_up,
        down,
        store_gate_up(*gate_up),
        store_down(*down),
    )


def dequantize_mxfp4(codes, scales):
    """float32 values of `[rows, k / 2]` bytes and `[rows, k / 32]` scale bytes."""
    table = torch.tensor([*E2M1, *(-value for value in E2M1)], device=codes.device)
    nibbles = torch.stack((codes & 15, codes >> 4), dim=-1).flatten(-2)
    return table[nibbles.long()] * powers(scales).repeat_interleave(32, dim=-1)


def powers(scales):
    exponents = scales.to(torch.int32) - 127
    return torch.ldexp(torch.ones_like(exponents, dtype=torch.float32), exponents)


def quantize_mxfp8(values):
    """E4M3 elements and scale bytes of float32 rows."""
    blocks = values.unflatten(-1, (-1, 32))
    amax = blocks.abs().amax(-1).double()
    exponents = torch.ceil(torch.log2(amax / 448)).clamp(-127, 127)
    scales = (exponents + 127).to(torch.uint8)
    scaled = blocks / powers(scales).unsqueeze(-1)
    return scaled.to(torch.float8_e4m3fn).flatten(-2), scales


def dequantize_mxfp8(elements, scales):
    return elements.float() * powers(scales).repeat_interleave(32, dim=-1)


def situ(gate, up, beta, linear_beta):
    return (beta * torch.tanh(gate / beta) * torch.sigmoid(gate)) * (
        linear_beta * torch.tanh(up / linear_beta)
    )


def expert_outputs(problem):
    """bf16 `[tokens, top_k, hidden]`: each slot's FC2 output, and which slots are local."""
    count, hidden = problem.tokens.shape
    top_k, inner = problem.ids.shape[1], problem.inner
    device = problem.tokens.device
    x = problem.tokens.float()
    if problem.precision == "w4a8":
        x = dequantize_mxfp8(problem.tokens, problem.token_scales)
    outputs = torch.zeros((count, top_k, hidden), dtype=torch.bfloat16, device=device)
    is_local = (problem.ids >= problem.offset) & (problem.ids < problem.offset + problem.local)
    # One transfer to the host, then each expert's slots are a range.
    slots = torch.argsort(problem.ids.flatten().long(), stable=True)
    counts = torch.bincount(problem.ids.flatten().long(), minlength=problem.experts).tolist()
    start = 0
    for expert, number in enumerate(counts):
        mine = slots[start : start + number]
        start += number
        e = expert - problem.offset
        if number == 0 or not 0 <= e < problem.local:
            continue
        w13 = dequantize_mxfp4(problem.gate_up[0][e], problem.gate_up[1][e])
        w2 = dequantize_mxfp4(problem.down[0][e], problem.down[1][e])
        products = x[mine // top_k] @ w13.T
        active = situ(
            products[:, :inner], products[:, inner:], problem.beta[e], problem.linear_beta[e]
        )
        if problem.precision == "w4a8":
            active = dequantize_mxfp8(*quantize_mxfp8(active))
        else:
            active = active.to(torch.bfloat16).float()
        outputs.view(-1, hidden)[mine] = (active @ w2.T).to(torch.bfloat16)
    return outputs, is_local


def finalize(outputs, is_local, weights):
    total = torch.zeros((outputs.shape[0], outputs.shape[2]), device=outputs.device)
    for k in range(outputs.shape[1]):
        total += (
            torch.where(is_local[:, k : k + 1], weights[:, k : k + 1].float(), 0)
            * outputs[:, k].float()
        )
    return total.to(torch.bfloat16)


def shuffle_rows(matrix):
    """`[experts, rows, ...]` as stored: in groups of 32, row p is row 4 (p mod 8) + p div 8."""
    within = torch.arange(32, device=matrix.device)
    source = 4 * (within % 8) + within // 8
    return matrix.unflatten(1, (-1, 32))[:, :, source].flatten(1, 2)


def interleave_scales(scales):
    """`[experts, rows, blocks]` in tiles of 128 rows and 4 blocks, as e4m3 in the same shape."""
    experts, rows, blocks = scales.shape
    tiles = scales.reshape(experts, rows // 128, 4, 32, blocks // 4, 4)
    return (
        tiles.permute(0, 1, 4, 3, 2, 5)
        .reshape(experts, rows, blocks)
        .contiguous()
        .view(torch.float8_e4m3fn)
    )


def store_gate_up(codes, scales):
    def interleaved(matrix):
        gate, up = matrix.chunk(2, dim=1)
        return torch.stack((up, gate), dim=2).flatten(1, 2)

    return (
        shuffle_rows(interleaved(codes)).contiguous(),
        interleave_scales(shuffle_rows(interleaved(scales))),
    )


def store_down(codes, scales):
    return shuffle_rows(codes).contiguous(), interleave_scales(shuffle_rows(scales))


def arguments(problem, output, tactic=(-1, -1), *, finalize=True, packed=False):
    """The runner's 36 arguments."""
    ids, weights = problem.ids, problem.weights
    if packed:
        bits = weights.view(torch.int16).to(torch.int32) & 0xFFFF
        ids = ids << 16 | bits
    scales = problem.token_scales
    return [
        1 if packed else 2,
        None,
        ids,
        weights,
        None,
        problem.tokens,
        None if scales is None else scales.view(torch.float8_e4m3fn),
        *problem.gate_up_stored,
        None,
        problem.beta,
        problem.linear_beta,
        None,
        *problem.down_stored,
        None,
        None,
        None,
        None,
        None,
        problem.experts,
        ids.shape[1],
        None,
        None,
        problem.inner,
        problem.offset,
        problem.local,
        None,
        0,
        finalize,
        False,
        9,
        output,
        list(tactic),
        True,
        None,
    ]


def config_arguments(precision, tokens, hidden, inner, experts, top_k, local):
    mx = precision == "w4a8"
    return [
        0x110080D if mx else 0x101000,
        0x110040C,
        2 if mx else 0,
        top_k,
        hidden,
        inner,
        local,
        experts,
        9,
        True,
        0,
        False,
        tokens,
        False,
    ]


def compare(found, expected):
    """cosine, relative L2 and largest absolute difference, in float64."""
    f, e = found.double().flatten(), expected.double().flatten()
    if not f.numel():
        return 1.0, 0.0, 0.0
    norms = f.norm() * e.norm()
    cosine = (f @ e / norms).item() if norms else float(f.norm() == e.norm())
    difference = (f - e).norm() / e.norm().clamp_min(1e-30)
    return cosine, difference.item(), (f - e).abs().max().item()
