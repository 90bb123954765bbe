"""SiTU, the gated activation of Kimi K3: both halves are bounded by a scaled tanh.

gate' = beta * tanh(gate / beta) * sigmoid(gate), up' = linear_beta * tanh(up / linear_beta), and
the result is gate' * up', all in float32. Kimi K3 has beta 4 and linear_beta 25. Source: the
activation ``siTuGlu`` of the TensorRT-LLM-Gen kernels, as TokenSpeed's portable reference has it.
"""

from __future__ import annotations

import torch  # noqa: TID253 - the reference is torch


def situ(
    gate: torch.Tensor, up: torch.Tensor, beta: torch.Tensor, linear_beta: torch.Tensor
) -> torch.Tensor:
    """The activation of one expert.

    Args:
        gate: float32 ``[n, I]``.
        up: float32 ``[n, I]``.
        beta: float32 scalar tensor, above 0; the runner's ``gemm1_alpha``.
        linear_beta: float32 scalar tensor, above 0; the runner's ``gemm1_beta``.

    Returns:
        float32 ``[n, I]``.
    """
    bounded_gate = beta * torch.tanh(gate / beta) * torch.sigmoid(gate)
    bounded_up = linear_beta * torch.tanh(up / linear_beta)
    return bounded_gate * bounded_up
