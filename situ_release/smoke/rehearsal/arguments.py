"""The arguments of one call of the runner's MoE entry point, in invented memory.

Shapes and types are those of the K3 contracts: ids and weights of the routed experts are given,
weights are MXFP4 with a scale per 32 elements, activations bfloat16 or MXFP8.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from situ_release.smoke.rehearsal.dlpack import (
    BFLOAT16,
    FLOAT8_E4M3FN,
    FLOAT32,
    INT32,
    UINT8,
    DeviceTensor,
    ElementType,
)
from situ_release.smoke.rehearsal.memory import DeviceMemory

SCALE_BLOCK = 32
_UNPACKED_PRECOMPUTED = 2  # routing input mode: ids and weights apart
_DEFAULT_ROUTING = 0


class MoeArguments:
    """Tensors of a contract's problem.

    Args:
        memory: where they lie.
        contract: a contract of the recipe, as JSON.
        tokens: T, at least 1.

    Attributes:
        inputs: the tensors that a call reads, by argument name.
        output: bfloat16 ``[T, H]``.
    """

    def __init__(self, memory: DeviceMemory, contract: Mapping[str, Any], tokens: int) -> None:
        self._contract = contract
        self._memory = memory
        top_k, hidden = contract["top_k"], contract["hidden_size"]
        local, inner = contract["local_num_experts"], contract["physical_intermediate_size"]
        scaled = contract["hidden_states_scale"] != "none"
        shapes: dict[str, tuple[ElementType, tuple[int, ...]]] = {
            "topk_ids": (INT32, (tokens, top_k)),
            "topk_weights": (BFLOAT16, (tokens, top_k)),
            "hidden_states": (FLOAT8_E4M3FN if scaled else BFLOAT16, (tokens, hidden)),
            "gemm1_weights": (UINT8, (local, 2 * inner, hidden // 2)),
            "gemm1_weights_scale": (FLOAT8_E4M3FN, (local, 2 * inner, hidden // SCALE_BLOCK)),
            "gemm1_alpha": (FLOAT32, (local,)),
            "gemm1_beta": (FLOAT32, (local,)),
            "gemm2_weights": (UINT8, (local, hidden, inner // 2)),
            "gemm2_weights_scale": (FLOAT8_E4M3FN, (local, hidden, inner // SCALE_BLOCK)),
        }
        if scaled:
            shapes["hidden_states_scale"] = (FLOAT8_E4M3FN, (tokens, hidden // SCALE_BLOCK))
        self.inputs = {
            name: DeviceTensor(memory, name, element, shape)
            for name, (element, shape) in shapes.items()
        }
        self.output = DeviceTensor(memory, "output", BFLOAT16, (tokens, hidden))

    def in_order(self, tactic: tuple[int, int], *, finalize: bool) -> list[Any]:
        """The entry point's 36 arguments.

        Args:
            tactic: ``(tile_n, config)``, or (-1, -1) for the runner's own choice.
            finalize: add up the experts' outputs into ``output``.
        """
        contract, tensor = self._contract, self.inputs
        local = contract["local_num_experts"]
        ranks = contract["expert_parallel_size"]
        return [
            _UNPACKED_PRECOMPUTED,
            None,  # routing_logits
            tensor["topk_ids"],
            tensor["topk_weights"],
            None,  # routing_bias
            tensor["hidden_states"],
            tensor.get("hidden_states_scale"),
            tensor["gemm1_weights"],
            tensor["gemm1_weights_scale"],
            None,  # gemm1_bias
            tensor["gemm1_alpha"],
            tensor["gemm1_beta"],
            None,  # gemm1_clamp_limit
            tensor["gemm2_weights"],
            tensor["gemm2_weights_scale"],
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
            (ranks - 1) * local if ranks > 1 else 0,  # the last rank: its offset is the largest
            local,
            None,  # routed_scaling_factor
            _DEFAULT_ROUTING,
            finalize,
            False,  # enable_pdl
            contract["activation_type"],
            self.output,
            list(tactic),
            True,  # norm_topk_prob
            None,  # routing_replay_out
        ]

    def free(self) -> None:
        """Take the memory back."""
        for tensor in (*self.inputs.values(), self.output):
            self._memory.free(tensor.allocation)
