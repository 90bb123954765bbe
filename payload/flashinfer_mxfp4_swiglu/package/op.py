"""Entry points: the runner's own interface, and a checked call for routed experts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ._runtime.arguments import (
    DEFAULT_TACTIC,
    WEIGHT_LAYOUT_MAJOR_K,
    mxfp4_types,
    query_arguments,
    routed_moe_arguments,
)
from ._runtime.moe import TensorLike, check_shard, check_tactic, check_tensors, shape_of
from .loader import call

__all__ = [
    "DEFAULT_TACTIC",
    "SWIGLU",
    "get_valid_moe_configs",
    "mxfp4_swiglu_routed_moe",
    "trtllm_fp4_block_scale_moe_raw",
]

SWIGLU = 3
"""The activation between the two GEMMs, as the runner numbers it."""

_MOE = "trtllm_fp4_block_scale_moe"
_CONFIGS = "trtllm_get_valid_moe_configs"

_HIDDEN_ALIGNMENT = 128


def trtllm_fp4_block_scale_moe_raw(*args: Any) -> Any:
    """The runner's MoE entry point; the arguments are passed on as they are.

    In this order: routing_input_mode, routing_logits, topk_ids, topk_weights, routing_bias,
    hidden_states, hidden_states_scale, gemm1_weights, gemm1_weights_scale, gemm1_bias, gemm1_alpha,
    gemm1_beta, gemm1_clamp_limit, gemm2_weights, gemm2_weights_scale, gemm2_bias,
    output1_scale_scalar, output1_scale_gate_scalar, output2_scale_scalar, per_token_scale,
    num_experts, top_k, n_group, topk_group, intermediate_size, local_expert_offset,
    local_num_experts, routed_scaling_factor, routing_method_type, do_finalize, enable_pdl,
    act_type, output, [tile_n, config], norm_topk_prob, routing_replay_out.

    Raises:
        BundleError: the runner cannot be opened, or a cubin it asked for could not be given to it.
    """
    return call(_MOE, *args)


def get_valid_moe_configs(
    *,
    num_tokens: int,
    top_k: int,
    hidden_size: int,
    intermediate_size: int,
    local_num_experts: int,
    mxfp8_act: bool = False,
) -> Sequence[Sequence[int]]:
    """Tactics for :func:`mxfp4_swiglu_routed_moe`. The tiles follow from this rank's experts alone.

    Args:
        num_tokens: tokens of the call, positive.
        top_k: experts per token, positive.
        hidden_size: in elements, a positive multiple of 128.
        intermediate_size: physical, per rank; a positive multiple of 128.
        local_num_experts: experts of this rank, positive.
        mxfp8_act: MXFP8 activations (w4a8) instead of bfloat16 (w4a16).

    Returns:
        ``(tile_n, config)`` pairs.

    Raises:
        ValueError: a size that is not supported.
        TypeError: a size that is no number.
        BundleError: the runner cannot be opened.
    """
    if num_tokens <= 0:
        raise ValueError(f"num_tokens must be positive, got {num_tokens}")
    _check_sizes(top_k, hidden_size)
    check_shard(local_num_experts, intermediate_size, local_num_experts)
    return call(  # type: ignore[no-any-return]
        _CONFIGS,
        *query_arguments(
            *mxfp4_types(mxfp8_act),
            top_k,
            hidden_size,
            intermediate_size,
            (local_num_experts,),
            SWIGLU,
            use_shuffled_weight=True,
            weight_layout=WEIGHT_LAYOUT_MAJOR_K,
            use_per_token_scaling=False,
            num_tokens=num_tokens,
            has_gemm1_lora_delta=False,
        ),
    )


def mxfp4_swiglu_routed_moe(
    *,
    topk_ids: TensorLike,
    topk_weights: TensorLike,
    hidden_states: TensorLike,
    gemm1_weights: TensorLike,
    gemm1_weights_scale: TensorLike,
    gemm2_weights: TensorLike,
    gemm2_weights_scale: TensorLike,
    output: Any,
    num_experts: int,
    top_k: int,
    intermediate_size: int,
    local_expert_offset: int,
    local_num_experts: int,
    hidden_states_scale: TensorLike | None = None,
    enable_pdl: bool = False,
    tactic: tuple[int, int] = DEFAULT_TACTIC,
) -> Any:
    """Routed experts of one layer on this rank's contiguous shard of experts.

    The result is a partial sum: the caller all-reduces it over the tensor- and expert-parallel
    group. With L local experts, K = ``top_k``, physical intermediate size I and hidden size H:

    Args:
        topk_ids: int32 ``[tokens, K]``, global expert numbers; those of other ranks are skipped.
        topk_weights: bfloat16 ``[tokens, K]``, used as given.
        hidden_states: ``[tokens, H]``, bfloat16 (w4a16) or float8_e4m3fn (w4a8); H is a multiple of
            128.
        gemm1_weights: MXFP4 ``[L, 2I, H/2]`` as uint8, up and gate rows interleaved and shuffled.
        gemm1_weights_scale: ``[L, 2I, H/32]``, 128x4-interleaved, viewed as float8_e4m3fn.
        gemm2_weights: MXFP4 ``[L, H, I/2]`` as uint8, rows shuffled.
        gemm2_weights_scale: ``[L, H, I/32]``, 128x4-interleaved, viewed as float8_e4m3fn.
        output: bfloat16 ``[tokens, H]``, written.
        num_experts: experts over all ranks.
        top_k: experts per token.
        intermediate_size: physical, per rank; a positive multiple of 128.
        local_expert_offset: first expert of this rank, a multiple of ``local_num_experts``.
        local_num_experts: L; must divide ``num_experts``.
        hidden_states_scale: MXFP8 block scales ``[tokens, H/32]`` (w4a8), None for bfloat16.
        enable_pdl: programmatic dependent launch.
        tactic: ``(tile_n, config)`` of :func:`get_valid_moe_configs`, or the default.

    Returns:
        ``output``.

    Raises:
        ValueError: a size or shape that does not fit; raised before native code.
        TypeError: something without a readable shape, or a size that is no number.
        BundleError: the runner cannot be opened, or a cubin it asked for could not be given to it.
    """
    check_tactic(tactic)
    shape = shape_of("hidden_states", hidden_states)
    hidden_size = shape[-1] if shape else 0
    _check_sizes(top_k, hidden_size)
    if top_k > num_experts:
        raise ValueError(f"top_k must be at most the {num_experts} experts, got {top_k}")
    check_shard(num_experts, intermediate_size, local_num_experts, local_expert_offset)
    check_tensors(
        hidden_size=hidden_size,
        top_k=top_k,
        topk_ids=topk_ids,
        topk_weights=topk_weights,
        hidden_states=hidden_states,
        hidden_states_scale=hidden_states_scale,
        output=output,
        weights={
            "gemm1_weights": gemm1_weights,
            "gemm1_weights_scale": gemm1_weights_scale,
            "gemm2_weights": gemm2_weights,
            "gemm2_weights_scale": gemm2_weights_scale,
        },
        local_num_experts=local_num_experts,
    )
    trtllm_fp4_block_scale_moe_raw(
        *routed_moe_arguments(
            topk_ids=topk_ids,
            topk_weights=topk_weights,
            hidden_states=hidden_states,
            hidden_states_scale=hidden_states_scale,
            gemm1_weights=gemm1_weights,
            gemm1_weights_scale=gemm1_weights_scale,
            gemm2_weights=gemm2_weights,
            gemm2_weights_scale=gemm2_weights_scale,
            output=output,
            num_experts=num_experts,
            top_k=top_k,
            intermediate_size=intermediate_size,
            local_expert_offset=local_expert_offset,
            local_num_experts=local_num_experts,
            activation_type=SWIGLU,
            enable_pdl=enable_pdl,
            tactic=tactic,
        )
    )
    return output


def _check_sizes(top_k: int, hidden_size: int) -> None:
    if top_k <= 0:
        raise ValueError(f"top_k must be positive, got {top_k}")
    if hidden_size <= 0 or hidden_size % _HIDDEN_ALIGNMENT:
        raise ValueError(
            f"the hidden size must be a positive multiple of {_HIDDEN_ALIGNMENT}, got {hidden_size}"
        )
