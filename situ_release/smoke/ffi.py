"""The argument lists of the runner's two entry points.

Source: the fused-MoE launcher of FlashInfer 0.6.13, whose private variant takes the same lists but
for the total number of experts in the query.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DTYPES = {"bfloat16": 0x101000, "mxe2m1": 0x110040C, "mxe4m3": 0x110080D}
"""Element types, as TensorRT-LLM-Gen encodes them."""

_FP8_NONE = 0
_FP8_MXFP8 = 2
_MAJOR_K = 0
_UNPACKED_ROUTING = 2
_ROUTING_METHOD = 0


def config_arguments(contract: Mapping[str, Any], tokens: int, experts: str) -> list[Any]:
    """Arguments of the query for valid tactics.

    Weights are shuffled and K-major, without per-token scaling and LoRA.

    Args:
        contract: as in the recipe.
        tokens: number of tokens.
        experts: the tactic rules' ``experts``: a runner that chooses tiles by the ``total`` number
            is told it, one that goes by the ``local`` number is not.
    """
    scaled = contract["hidden_states_scale"] == "required_mxfp8_block_scale"
    return [
        DTYPES[contract["dtype_activation"]],
        DTYPES[contract["dtype_weight"]],
        _FP8_MXFP8 if scaled else _FP8_NONE,
        contract["top_k"],
        contract["hidden_size"],
        contract["physical_intermediate_size"],
        contract["local_num_experts"],
        *([contract["num_experts"]] if experts == "total" else []),
        contract["activation_type"],
        True,  # use_shuffled_weight
        _MAJOR_K,
        False,  # use_per_token_scaling
        tokens,
        False,  # has_gemm1_lora_delta
    ]


def moe_arguments(
    contract: Mapping[str, Any],
    *,
    ids: Any,
    weights: Any,
    hidden: Any,
    hidden_scales: Any,
    w13: Any,
    w13_scales: Any,
    w2: Any,
    w2_scales: Any,
    beta: Any,
    linear_beta: Any,
    offset: int,
    output: Any,
    tactic: tuple[int, int],
    finalize: bool,
) -> list[Any]:
    """Arguments of the mixture of experts, with the routing given by the caller.

    Args:
        contract: as in the recipe.
        ids: int32 ``[T, K]``, global expert ids.
        weights: bfloat16 ``[T, K]``.
        hidden: bfloat16 or float8_e4m3fn ``[T, H]``.
        hidden_scales: float8_e4m3fn ``[T, H/32]`` (a carrier of E8M0 bytes), or None for bfloat16.
        w13: uint8 ``[L, 2I, H/2]``, as the runner stores it.
        w13_scales: float8_e4m3fn ``[L, 2I, H/32]``, likewise.
        w2: uint8 ``[L, H, I/2]``, likewise.
        w2_scales: float8_e4m3fn ``[L, H, I/32]``, likewise.
        beta: float32 ``[L]``.
        linear_beta: float32 ``[L]``.
        offset: global id of the first local expert.
        output: bfloat16 ``[T, H]``.
        tactic: ``(tile_n, config)``.
        finalize: weight and sum the slots of each token.
    """
    return [
        _UNPACKED_ROUTING,
        None,  # routing_logits
        ids,
        weights,
        None,  # routing_bias
        hidden,
        hidden_scales,
        w13,
        w13_scales,
        None,  # gemm1_bias
        beta,  # gemm1_alpha
        linear_beta,  # gemm1_beta
        None,  # gemm1_clamp_limit
        w2,
        w2_scales,
        None,  # gemm2_bias
        None,  # output1_scale_scalar
        None,  # output1_scale_gate_scalar
        None,  # output2_scale_scalar
        None,  # per_token_scale
        contract["num_experts"],
        contract["top_k"],
        None,  # n_group
        None,  # topk_group
        contract["physical_intermediate_size"],
        offset,
        contract["local_num_experts"],
        None,  # routed_scaling_factor
        _ROUTING_METHOD,
        finalize,
        False,  # enable_pdl
        contract["activation_type"],
        output,
        list(tactic),
        True,  # norm_topk_prob
        None,  # routing_replay_out
    ]
