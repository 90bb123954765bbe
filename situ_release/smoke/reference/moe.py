"""The mixture of experts, with the rounding points of the two activation precisions.

w4a16: x in bf16 -> first product in float32 -> SiTU in float32 -> bf16 -> second product in float32
-> bf16. w4a8: x in MXFP8, and the activation's result is quantized to MXFP8 (blocks of 32 along I)
instead of bf16. Then y[t] = bf16(sum over k of weight[t, k] * output[t, k]), in float32 and in the
order of k, slots of experts that are not local left out. Routing weights are used as given.

Source: the TensorRT-LLM-Gen kernels' output types (FC2 of w4a8 reads MXFP8) and the finalize kernel
of FlashInfer 0.6.13. Products of bf16 or MXFP8 activations with MXFP4 weights are exact in float32;
only the order in which they are summed is not the kernel's.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch  # noqa: TID253 - the reference is torch

from situ_release.smoke.reference import mxfp4, mxfp8
from situ_release.smoke.reference.situ import situ


@dataclass(frozen=True, slots=True)
class ExpertWeights:
    """A contiguous shard of experts in checkpoint layout (packed MXFP4, nothing shuffled).

    Attributes:
        w13: uint8 ``[L, 2I, H/2]``, rows ``[gate | up]``.
        w13_scales: uint8 ``[L, 2I, H/32]``.
        w2: uint8 ``[L, H, I/2]``.
        w2_scales: uint8 ``[L, H, I/32]``.
        beta: float32 ``[L]``, SiTU's beta for the gate.
        linear_beta: float32 ``[L]``, SiTU's beta for up.
        offset: global id of the first expert.
    """

    w13: torch.Tensor
    w13_scales: torch.Tensor
    w2: torch.Tensor
    w2_scales: torch.Tensor
    beta: torch.Tensor
    linear_beta: torch.Tensor
    offset: int = 0

    @property
    def local(self) -> int:
        """L."""
        return int(self.w13.shape[0])

    @property
    def intermediate(self) -> int:
        """I."""
        return int(self.w13.shape[1]) // 2


@dataclass(frozen=True, slots=True)
class Tokens:
    """The layer's input.

    Attributes:
        values: bf16 ``[T, H]``, or float8_e4m3fn for MXFP8.
        scales: None, or uint8 ``[T, H/32]`` in linear order for MXFP8.
    """

    values: torch.Tensor
    scales: torch.Tensor | None = None

    def numbers(self) -> torch.Tensor:
        """The input as float32 ``[T, H]``, exactly."""
        if self.scales is None:
            return self.values.to(torch.float32)
        return mxfp8.dequantize(self.values, self.scales)


@dataclass(frozen=True, slots=True)
class Routing:
    """Which experts a token goes to.

    Attributes:
        ids: int32 ``[T, K]``, global expert ids.
        weights: bf16 ``[T, K]``.
    """

    ids: torch.Tensor
    weights: torch.Tensor


def moe(tokens: Tokens, routing: Routing, experts: ExpertWeights) -> torch.Tensor:
    """The layer's (partial) output: bf16 ``[T, H]``. The precision is that of ``tokens``."""
    return finalize(expert_outputs(tokens, routing, experts), routing, experts)


def expert_outputs(tokens: Tokens, routing: Routing, experts: ExpertWeights) -> torch.Tensor:
    """The second product of every slot: bf16 ``[T, K, H]``, 0 where the expert is not local.

    One expert's weights are dequantized at a time, and only of experts that have tokens.
    """
    inputs = tokens.numbers()
    top_k = routing.ids.shape[1]
    outputs = inputs.new_zeros((routing.ids.numel(), inputs.shape[1]), dtype=torch.bfloat16)
    with _exact_products():
        for expert, slots in _slots_by_expert(routing, experts):
            w13 = mxfp4.dequantize(experts.w13[expert], experts.w13_scales[expert])
            gate, up = (inputs[slots // top_k] @ w13.T).chunk(2, dim=1)
            inner = situ(gate, up, experts.beta[expert], experts.linear_beta[expert])
            if tokens.scales is None:
                inner = inner.to(torch.bfloat16).to(torch.float32)
            else:
                inner = mxfp8.round_trip(inner)
            w2 = mxfp4.dequantize(experts.w2[expert], experts.w2_scales[expert])
            outputs[slots] = (inner @ w2.T).to(torch.bfloat16)
    return outputs.unflatten(0, (-1, top_k))


def finalize(outputs: torch.Tensor, routing: Routing, experts: ExpertWeights) -> torch.Tensor:
    """Weight and sum the slots of each token.

    Args:
        outputs: bf16 ``[T, K, H]``.
        routing: ids and weights of the slots.
        experts: tells which ids are local.

    Returns:
        bf16 ``[T, H]``.
    """
    local = (routing.ids >= experts.offset) & (routing.ids < experts.offset + experts.local)
    weights = torch.where(local, routing.weights.to(torch.float32), 0.0)
    total = outputs.new_zeros((outputs.shape[0], outputs.shape[2]), dtype=torch.float32)
    for slot in range(outputs.shape[1]):
        total += weights[:, slot, None] * outputs[:, slot].to(torch.float32)
    return total.to(torch.bfloat16)


def expert_shard(experts: ExpertWeights, rank: int, size: int) -> ExpertWeights:
    """One of ``size`` contiguous shards of the experts (EP); views, nothing is copied."""
    length = experts.local // size
    part = slice(rank * length, (rank + 1) * length)
    return ExpertWeights(
        experts.w13[part],
        experts.w13_scales[part],
        experts.w2[part],
        experts.w2_scales[part],
        experts.beta[part],
        experts.linear_beta[part],
        experts.offset + part.start,
    )


def tensor_shard(experts: ExpertWeights, rank: int, size: int) -> ExpertWeights:
    """One of ``size`` contiguous shards of the intermediate size (TP).

    Each shard must hold whole bytes and whole blocks: I / size is a multiple of 32.
    """
    length = experts.intermediate // size

    def rows(tensor: torch.Tensor) -> torch.Tensor:
        halves = tensor.unflatten(1, (2, experts.intermediate))
        return halves[:, :, rank * length : (rank + 1) * length].flatten(1, 2)

    def columns(tensor: torch.Tensor) -> torch.Tensor:
        width = tensor.shape[2] // size
        return tensor[:, :, rank * width : (rank + 1) * width].contiguous()

    return replace(
        experts,
        w13=rows(experts.w13),
        w13_scales=rows(experts.w13_scales),
        w2=columns(experts.w2),
        w2_scales=columns(experts.w2_scales),
    )


def _slots_by_expert(
    routing: Routing, experts: ExpertWeights
) -> Iterator[tuple[int, torch.Tensor]]:
    """Local experts that have tokens, each with its flat slot numbers ``t * K + k``, ascending."""
    local = routing.ids.flatten().to(torch.int64) - experts.offset
    here = (local >= 0) & (local < experts.local)
    # Slots of other experts sort behind all local ones.
    keys = torch.where(here, local, experts.local)
    order = torch.argsort(keys, stable=True)
    counts = torch.bincount(keys, minlength=experts.local + 1)[: experts.local].tolist()
    begin = 0
    for expert, count in enumerate(counts):
        if count:
            yield expert, order[begin : begin + count]
            begin += count


@contextmanager
def _exact_products() -> Iterator[None]:
    """Float32 products in float32: no TF32 or bf16 shortcut, whatever the process has set."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
