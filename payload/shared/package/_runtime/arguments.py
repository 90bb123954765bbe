"""Arguments of the mixture-of-experts entry points, in the order and the types the runner wants.

All TensorRT-LLM-Gen runners take the same ones, but for the number of all experts in the query.
Nothing is checked here: see ``moe``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .trtllm_gen import DtypeTrtllmGen, Fp8QuantizationType, RoutingInputMode

DEFAULT_TACTIC = (-1, -1)
"""Lets the runner choose ``(tile_n, config)`` for the shape it is given."""

WEIGHT_LAYOUT_MAJOR_K = 0
"""Weights with K as the contiguous dimension."""

_ROUTING_METHOD_DEFAULT = 0


def mxfp4_types(mxfp8_act: bool) -> tuple[DtypeTrtllmGen, DtypeTrtllmGen, Fp8QuantizationType]:
    """Types of the activations and of MXFP4 weights, and how the activations are scaled.

    Args:
        mxfp8_act: MXFP8 activations (w4a8) instead of bfloat16 (w4a16).
    """
    if mxfp8_act:
        return DtypeTrtllmGen.MXE4M3, DtypeTrtllmGen.MXE2M1, Fp8QuantizationType.MXFP8
    return DtypeTrtllmGen.BFLOAT16, DtypeTrtllmGen.MXE2M1, Fp8QuantizationType.NONE


def query_arguments(
    dtype_act: int,
    dtype_weights: int,
    fp8_quantization_type: int,
    top_k: int,
    hidden_size: int,
    intermediate_size: int,
    num_experts: Iterable[int],
    activation_type: int,
    use_shuffled_weight: bool,
    weight_layout: int,
    use_per_token_scaling: bool,
    num_tokens: int,
    has_gemm1_lora_delta: bool,
) -> tuple[int, ...]:
    """Arguments of the query for valid tactics.

    Args:
        dtype_act: a :class:`DtypeTrtllmGen`.
        dtype_weights: a :class:`DtypeTrtllmGen`.
        fp8_quantization_type: a :class:`Fp8QuantizationType`.
        top_k: experts per token.
        hidden_size: in elements.
        intermediate_size: physical, in elements.
        num_experts: experts of this rank and, where the runner takes it, over all ranks.
        activation_type: as the runner numbers it.
        use_shuffled_weight: rows are shuffled for the epilogue.
        weight_layout: 0 is MajorK.
        use_per_token_scaling: the activation has a scale per token.
        num_tokens: tokens of the call.
        has_gemm1_lora_delta: FC1 adds a LoRA delta.

    Raises:
        ValueError, TypeError: one that is no number.
    """
    return (
        int(dtype_act),
        int(dtype_weights),
        int(fp8_quantization_type),
        int(top_k),
        int(hidden_size),
        int(intermediate_size),
        *map(int, num_experts),
        int(activation_type),
        bool(use_shuffled_weight),
        int(weight_layout),
        bool(use_per_token_scaling),
        int(num_tokens),
        bool(has_gemm1_lora_delta),
    )


def routed_moe_arguments(
    *,
    topk_ids: Any,
    topk_weights: Any,
    hidden_states: Any,
    hidden_states_scale: Any,
    gemm1_weights: Any,
    gemm1_weights_scale: Any,
    gemm2_weights: Any,
    gemm2_weights_scale: Any,
    output: Any,
    num_experts: int,
    top_k: int,
    intermediate_size: int,
    local_expert_offset: int,
    local_num_experts: int,
    activation_type: int,
    enable_pdl: bool,
    tactic: tuple[int, int],
    gemm1_alpha: Any = None,
    gemm1_beta: Any = None,
) -> tuple[Any, ...]:
    """Arguments of a call whose routing the caller computed, with the result in ``output``.

    Args:
        topk_ids: the experts of each token, apart from their weights.
        topk_weights: used as given.
        hidden_states: the activations.
        hidden_states_scale: their block scales, or None.
        gemm1_weights: of up and gate.
        gemm1_weights_scale: their block scales.
        gemm2_weights: of down.
        gemm2_weights_scale: their block scales.
        output: written.
        num_experts: experts over all ranks.
        top_k: experts per token.
        intermediate_size: physical, per rank, in elements.
        local_expert_offset: first expert of this rank.
        local_num_experts: experts of this rank.
        activation_type: as the runner numbers it.
        enable_pdl: programmatic dependent launch.
        tactic: ``(tile_n, config)``.
        gemm1_alpha: first parameter of the activation per local expert, None without one.
        gemm1_beta: second parameter of the activation per local expert, None without one.

    Raises:
        ValueError, TypeError: a size or a part of the tactic that is no number.
    """
    return (
        int(RoutingInputMode.UNPACKED_PRECOMPUTED),
        None,  # routing_logits
        topk_ids,
        topk_weights,
        None,  # routing_bias
        hidden_states,
        hidden_states_scale,
        gemm1_weights,
        gemm1_weights_scale,
        None,  # gemm1_bias
        gemm1_alpha,
        gemm1_beta,
        None,  # gemm1_clamp_limit
        gemm2_weights,
        gemm2_weights_scale,
        None,  # gemm2_bias
        None,  # output1_scale_scalar
        None,  # output1_scale_gate_scalar
        None,  # output2_scale_scalar
        None,  # per_token_scale
        int(num_experts),
        int(top_k),
        None,  # n_group
        None,  # topk_group
        int(intermediate_size),
        int(local_expert_offset),
        int(local_num_experts),
        None,  # routed_scaling_factor
        _ROUTING_METHOD_DEFAULT,
        True,  # do_finalize
        bool(enable_pdl),
        int(activation_type),
        output,
        [int(tactic[0]), int(tactic[1])],
        True,  # norm_topk_prob
        None,  # routing_replay_out
    )
