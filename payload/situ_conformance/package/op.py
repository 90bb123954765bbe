"""Entry points: the runner's own interface, which checks its arguments itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ._runtime.arguments import DEFAULT_TACTIC, query_arguments
from .loader import call

__all__ = ["DEFAULT_TACTIC", "SITU", "get_valid_moe_configs", "trtllm_fp4_block_scale_moe_raw"]

SITU = 9
"""The activation between the two GEMMs, as the runner numbers it; it has no other."""

_MOE = "trtllm_fp4_block_scale_moe_private"
_CONFIGS = "trtllm_get_valid_moe_configs_private"


def trtllm_fp4_block_scale_moe_raw(*args: Any) -> Any:
    """The runner's MoE entry point; the arguments are passed on as they are.

    In this order: routing_input_mode (1 packed, 2 unpacked), routing_logits, topk_ids,
    topk_weights, routing_bias, hidden_states, hidden_states_scale, gemm1_weights,
    gemm1_weights_scale, gemm1_bias, gemm1_alpha, gemm1_beta, gemm1_clamp_limit, gemm2_weights,
    gemm2_weights_scale, gemm2_bias, output1_scale_scalar, output1_scale_gate_scalar,
    output2_scale_scalar, per_token_scale, num_experts, top_k, n_group, topk_group,
    intermediate_size, local_expert_offset, local_num_experts, routed_scaling_factor,
    routing_method_type, do_finalize, enable_pdl, act_type, output, [tile_n, config],
    norm_topk_prob, routing_replay_out. With L local experts, hidden size H and intermediate size I:

    - topk_ids int32 and topk_weights bfloat16 ``[tokens, top_k]``;
    - hidden_states ``[tokens, H]``: bfloat16, or float8_e4m3fn with hidden_states_scale
      ``[tokens, H/32]``;
    - gemm1_weights uint8 ``[L, 2I, H/2]``, gemm2_weights uint8 ``[L, H, I/2]``, their scales a
      32nd of the elements; all scales viewed as float8_e4m3fn;
    - gemm1_alpha and gemm1_beta float32 ``[L]``: SiTU's beta and linear beta;
    - output bfloat16 ``[tokens, H]``.

    Biases, clamping, scales of whole outputs and routing from logits are refused.

    Returns:
        ``[None]`` with ``do_finalize``: the result is in ``output``. Without it
        ``[gemm2_output, None, expanded_idx]``: bfloat16 ``[rows, H]`` in the experts' order, and
        int32 ``[tokens * top_k]``, the row of each token's slot (-1: not on this rank).

    Raises:
        ValueError, TypeError: an argument that the runner does not support.
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
    """Tactics that the runner has on the current device; none for a problem it does not support.

    Args:
        dtype_act: a :class:`DtypeTrtllmGen`.
        dtype_weights: a :class:`DtypeTrtllmGen`.
        fp8_quantization_type: a :class:`Fp8QuantizationType`.
        top_k: experts per token.
        hidden_size: in elements.
        intermediate_size: physical, in elements.
        num_local_experts: experts of this rank.
        num_total_experts: experts over all ranks; decides the tiles.
        activation_type: :data:`SITU`.
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
