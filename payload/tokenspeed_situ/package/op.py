"""Entry points: the runner's own interface, and the Kimi K3 wrapper around it."""

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
from ._runtime.moe import TensorLike, check_tactic, check_tensors
from .enums import ActivationType, DtypeTrtllmGen, Fp8QuantizationType, RoutingInputMode
from .k3 import K3_HIDDEN_SIZE, K3_NUM_EXPERTS, K3_TOP_K, check_problem
from .loader import call, load_raw_module

__all__ = [
    "DEFAULT_TACTIC",
    "K3_HIDDEN_SIZE",
    "K3_NUM_EXPERTS",
    "K3_TOP_K",
    "ActivationType",
    "DtypeTrtllmGen",
    "Fp8QuantizationType",
    "RoutingInputMode",
    "get_valid_k3_situ_configs",
    "get_valid_moe_configs",
    "mxfp4_situ_routed_moe",
    "trtllm_fp4_block_scale_moe_raw",
]

_MOE = "trtllm_fp4_block_scale_moe_private"
_CONFIGS = "trtllm_get_valid_moe_configs_private"


def trtllm_fp4_block_scale_moe_raw(*args: Any) -> Any:
    """The runner's MoE entry point; the arguments are passed on as they are.

    In this order: routing_input_mode, routing_logits, topk_ids, topk_weights, routing_bias,
    hidden_states, hidden_states_scale, gemm1_weights, gemm1_weights_scale, gemm1_bias, gemm1_alpha,
    gemm1_beta, gemm1_clamp_limit, gemm2_weights, gemm2_weights_scale, gemm2_bias,
    output1_scale_scalar, output1_scale_gate_scalar, output2_scale_scalar, per_token_scale,
    num_experts, top_k, n_group, topk_group, intermediate_size, local_expert_offset,
    local_num_experts, routed_scaling_factor, routing_method_type, do_finalize, enable_pdl,
    act_type, output, [tile_n, config], norm_topk_prob, routing_replay_out.

    Returns:
        ``[None]`` with ``do_finalize``: the result is in ``output``. Without it
        ``[gemm2_output, None, expanded_idx]``: bfloat16 ``[rows, hidden]`` in the experts' order,
        and int32 ``[tokens * top_k]``, the row of each token's slot (-1: not on this rank).

    Raises:
        BundleError: the runner cannot be opened, or a cubin it asked for could not be given to it.
    """
    return call(_MOE, *args)


def get_valid_moe_configs(
    dtype_act: int,
    dtype_weights: int,
    fp8_quantization_type: int,
    top_k: int,
    hidden_size: int,
    intermediate_size: int,
    num_local_experts: int,
    num_total_experts: int,
    activation_type: int,
    use_shuffled_weight: bool,
    weight_layout: int,
    use_per_token_scaling: bool,
    num_tokens: int,
    has_gemm1_lora_delta: bool = False,
) -> Sequence[Sequence[int]]:
    """Tactics the runner has for a problem, whatever the problem: nothing is checked here.

    Args:
        dtype_act: a :class:`DtypeTrtllmGen`.
        dtype_weights: a :class:`DtypeTrtllmGen`.
        fp8_quantization_type: a :class:`Fp8QuantizationType`.
        top_k: experts per token.
        hidden_size: in elements.
        intermediate_size: physical, in elements.
        num_local_experts: experts of this rank.
        num_total_experts: experts over all ranks; decides the tiles.
        activation_type: an :class:`ActivationType`.
        use_shuffled_weight: rows are shuffled for the epilogue.
        weight_layout: 0 is MajorK.
        use_per_token_scaling: the activation has a scale per token.
        num_tokens: tokens of the call.
        has_gemm1_lora_delta: FC1 adds a LoRA delta.

    Returns:
        ``(tile_n, config)`` pairs.

    Raises:
        BundleError: the runner cannot be opened.
    """
    # Nothing is checked here, so whether the runner can be opened is the first thing to be said.
    load_raw_module()
    return call(  # type: ignore[no-any-return]
        _CONFIGS,
        *query_arguments(
            dtype_act,
            dtype_weights,
            fp8_quantization_type,
            top_k,
            hidden_size,
            intermediate_size,
            (num_local_experts, num_total_experts),
            activation_type,
            use_shuffled_weight,
            weight_layout,
            use_per_token_scaling,
            num_tokens,
            has_gemm1_lora_delta,
        ),
    )


def get_valid_k3_situ_configs(
    num_tokens: int,
    *,
    intermediate_size: int = 384,
    local_num_experts: int = K3_NUM_EXPERTS,
    num_experts: int = K3_NUM_EXPERTS,
    mxfp8_act: bool = False,
) -> Sequence[Sequence[int]]:
    """Tactics for :func:`mxfp4_situ_routed_moe`.

    Args:
        num_tokens: tokens of the call, positive.
        intermediate_size: physical, per rank; a positive multiple of 128.
        local_num_experts: experts of this rank; must divide ``num_experts``.
        num_experts: experts over all ranks; must be 896.
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
    check_problem(num_experts, K3_TOP_K, intermediate_size, local_num_experts)
    return get_valid_moe_configs(
        *mxfp4_types(mxfp8_act),
        K3_TOP_K,
        K3_HIDDEN_SIZE,
        intermediate_size,
        local_num_experts,
        num_experts,
        ActivationType.SITU,
        use_shuffled_weight=True,
        weight_layout=WEIGHT_LAYOUT_MAJOR_K,
        use_per_token_scaling=False,
        num_tokens=num_tokens,
    )


def mxfp4_situ_routed_moe(
    *,
    topk_ids: TensorLike,
    topk_weights: TensorLike,
    hidden_states: TensorLike,
    gemm1_weights: TensorLike,
    gemm1_weights_scale: TensorLike,
    gemm1_alpha: TensorLike,
    gemm1_beta: TensorLike,
    gemm2_weights: TensorLike,
    gemm2_weights_scale: TensorLike,
    output: Any,
    intermediate_size: int,
    local_expert_offset: int,
    local_num_experts: int,
    hidden_states_scale: TensorLike | None = None,
    num_experts: int = K3_NUM_EXPERTS,
    top_k: int = K3_TOP_K,
    enable_pdl: bool = False,
    tactic: tuple[int, int] = DEFAULT_TACTIC,
) -> Any:
    """Routed experts of one Kimi K3 layer on this rank's contiguous shard of experts.

    The result is a partial sum: the caller all-reduces it over the tensor- and expert-parallel
    group. With L local experts, physical intermediate size I and H = 3584:

    Args:
        topk_ids: int32 ``[tokens, 16]``, global expert numbers; those of other ranks are skipped.
        topk_weights: bfloat16 ``[tokens, 16]``, used as given.
        hidden_states: ``[tokens, H]``, bfloat16 (w4a16) or float8_e4m3fn (w4a8).
        gemm1_weights: MXFP4 ``[L, 2I, H/2]`` as uint8, up and gate rows interleaved and shuffled.
        gemm1_weights_scale: ``[L, 2I, H/32]``, 128x4-interleaved, viewed as float8_e4m3fn.
        gemm1_alpha: float32 ``[L]``, SiTU's beta (of the gate).
        gemm1_beta: float32 ``[L]``, SiTU's linear beta (of the up half).
        gemm2_weights: MXFP4 ``[L, H, I/2]`` as uint8, rows shuffled.
        gemm2_weights_scale: ``[L, H, I/32]``, 128x4-interleaved, viewed as float8_e4m3fn.
        output: bfloat16 ``[tokens, H]``, written.
        intermediate_size: physical, per rank; a positive multiple of 128.
        local_expert_offset: first expert of this rank, a multiple of ``local_num_experts``.
        local_num_experts: L; must divide ``num_experts``.
        hidden_states_scale: MXFP8 block scales ``[tokens, H/32]`` (w4a8), None for bfloat16.
        num_experts: experts over all ranks; must be 896.
        top_k: experts per token; must be 16.
        enable_pdl: programmatic dependent launch.
        tactic: ``(tile_n, config)`` of :func:`get_valid_k3_situ_configs`, or the default.

    Returns:
        ``output``.

    Raises:
        ValueError: a size or shape outside the supported contract; raised before native code.
        TypeError: something without a readable shape, or a size that is no number.
        BundleError: the runner cannot be opened, or a cubin it asked for could not be given to it.
    """
    check_tactic(tactic)
    check_problem(num_experts, top_k, intermediate_size, local_num_experts, local_expert_offset)
    check_tensors(
        hidden_size=K3_HIDDEN_SIZE,
        top_k=K3_TOP_K,
        topk_ids=topk_ids,
        topk_weights=topk_weights,
        hidden_states=hidden_states,
        hidden_states_scale=hidden_states_scale,
        output=output,
        weights={
            "gemm1_weights": gemm1_weights,
            "gemm1_weights_scale": gemm1_weights_scale,
            "gemm1_alpha": gemm1_alpha,
            "gemm1_beta": gemm1_beta,
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
            gemm1_alpha=gemm1_alpha,
            gemm1_beta=gemm1_beta,
            gemm2_weights=gemm2_weights,
            gemm2_weights_scale=gemm2_weights_scale,
            output=output,
            num_experts=num_experts,
            top_k=top_k,
            intermediate_size=intermediate_size,
            local_expert_offset=local_expert_offset,
            local_num_experts=local_num_experts,
            activation_type=ActivationType.SITU,
            enable_pdl=enable_pdl,
            tactic=tactic,
        )
    )
    return output
