"""The problem this bundle supports: the routed experts of Kimi K3."""

from __future__ import annotations

from ._runtime.moe import check_shard

K3_HIDDEN_SIZE = 3584
"""Width the routed experts run at, in elements."""

K3_NUM_EXPERTS = 896
"""Experts over all ranks."""

K3_TOP_K = 16
"""Experts per token."""


def check_problem(
    num_experts: int,
    top_k: int,
    intermediate_size: int,
    local_num_experts: int,
    local_expert_offset: int = 0,
) -> None:
    """Check sizes and the rank's expert shard.

    Args:
        num_experts: experts over all ranks; must be 896.
        top_k: experts per token; must be 16.
        intermediate_size: physical, per rank; a positive multiple of 128.
        local_num_experts: experts of this rank; must divide ``num_experts``.
        local_expert_offset: first expert of this rank; a multiple of ``local_num_experts``.

    Raises:
        ValueError: names the size, what is supported and what was given.
        TypeError: a size that cannot be compared with a number.
    """
    if num_experts != K3_NUM_EXPERTS:
        raise ValueError(f"num_experts must be {K3_NUM_EXPERTS}, got {num_experts}")
    if top_k != K3_TOP_K:
        raise ValueError(f"top_k must be {K3_TOP_K}, got {top_k}")
    check_shard(num_experts, intermediate_size, local_num_experts, local_expert_offset)
