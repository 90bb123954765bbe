"""What a call of the runner is given: a problem, and its weights in the runner's layout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch  # noqa: TID253 - holds tensors

from situ_release.bundle.recipe import Contract
from situ_release.smoke.cases import Tactic
from situ_release.smoke.ffi import moe_arguments
from situ_release.smoke.problem import Problem
from situ_release.smoke.reference import layout
from situ_release.smoke.reference.moe import ExpertWeights


@dataclass(frozen=True, slots=True)
class StoredWeights:
    """A shard of experts as the runner reads it.

    Attributes:
        w13: uint8 ``[L, 2I, H/2]``.
        w13_scales: float8_e4m3fn ``[L, 2I, H/32]``.
        w2: uint8 ``[L, H, I/2]``.
        w2_scales: float8_e4m3fn ``[L, H, I/32]``.
    """

    w13: torch.Tensor
    w13_scales: torch.Tensor
    w2: torch.Tensor
    w2_scales: torch.Tensor


def store(experts: ExpertWeights) -> StoredWeights:
    """Shuffle and interleave a shard's weights."""
    w13, w13_scales = layout.prepare_w13(experts.w13, experts.w13_scales)
    w2, w2_scales = layout.prepare_w2(experts.w2, experts.w2_scales)
    return StoredWeights(w13, w13_scales, w2, w2_scales)


@dataclass(frozen=True, slots=True)
class Inputs:
    """Everything that a call reads.

    Attributes:
        contract: the sizes.
        problem: tokens, routing and the shard in checkpoint layout.
        stored: the same shard as the runner reads it.
    """

    contract: Contract
    problem: Problem
    stored: StoredWeights

    def new_output(self) -> torch.Tensor:
        """A bfloat16 ``[T, H]`` of NaNs: what the runner leaves unwritten stays visible."""
        values = self.problem.tokens.values
        return torch.full(values.shape, float("nan"), dtype=torch.bfloat16, device=values.device)

    def arguments(self, output: torch.Tensor, tactic: Tactic, *, finalize: bool) -> list[Any]:
        """The entry point's arguments."""
        tokens, routing, experts = self.problem.tokens, self.problem.routing, self.problem.experts
        scales = tokens.scales
        return moe_arguments(
            self.contract.model_dump(),
            ids=routing.ids,
            weights=routing.weights,
            hidden=tokens.values,
            hidden_scales=None if scales is None else scales.view(torch.float8_e4m3fn),
            w13=self.stored.w13,
            w13_scales=self.stored.w13_scales,
            w2=self.stored.w2,
            w2_scales=self.stored.w2_scales,
            beta=experts.beta,
            linear_beta=experts.linear_beta,
            offset=experts.offset,
            output=output,
            tactic=tactic,
            finalize=finalize,
        )
