"""The tensors of one problem, in invented memory.

Shapes and element types are those of :func:`situ_release.smoke.ffi.moe_arguments`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from situ_release.bundle.tactics import SCALE_BLOCK
from situ_release.smoke.ffi import moe_arguments
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

OUTPUT = "output"
GEMM_WEIGHTS = ("w13", "w2")
"""Names of the tensors that only FC1 and only FC2 reads."""


class ProblemTensors:
    """What a call reads and writes.

    Args:
        memory: where the tensors lie.
        contract: a contract of the recipe, as JSON.
        tokens: T, at least 1.

    Attributes:
        inputs: the tensors that a call reads, by argument name.
    """

    def __init__(self, memory: DeviceMemory, contract: Mapping[str, Any], tokens: int) -> None:
        self._contract = contract
        self._memory = memory
        top_k, hidden = contract["top_k"], contract["hidden_size"]
        local, inner = contract["local_num_experts"], contract["physical_intermediate_size"]
        scaled = contract["hidden_states_scale"] != "none"
        kinds: dict[str, tuple[ElementType, tuple[int, ...]]] = {
            "ids": (INT32, (tokens, top_k)),
            "weights": (BFLOAT16, (tokens, top_k)),
            "hidden": (FLOAT8_E4M3FN if scaled else BFLOAT16, (tokens, hidden)),
            "w13": (UINT8, (local, 2 * inner, hidden // 2)),
            "w13_scales": (FLOAT8_E4M3FN, (local, 2 * inner, hidden // SCALE_BLOCK)),
            "w2": (UINT8, (local, hidden, inner // 2)),
            "w2_scales": (FLOAT8_E4M3FN, (local, hidden, inner // SCALE_BLOCK)),
            "beta": (FLOAT32, (local,)),
            "linear_beta": (FLOAT32, (local,)),
        }
        if scaled:
            kinds["hidden_scales"] = (FLOAT8_E4M3FN, (tokens, hidden // SCALE_BLOCK))
        self.inputs = {
            name: DeviceTensor(memory, name, element, shape)
            for name, (element, shape) in kinds.items()
        }
        self._output = DeviceTensor(memory, OUTPUT, BFLOAT16, (tokens, hidden))

    def arguments(self, tactic: tuple[int, int], *, finalize: bool) -> list[Any]:
        """The entry point's arguments, for the last rank: its expert offset is the largest."""
        ranks = self._contract["expert_parallel_size"]
        return moe_arguments(
            self._contract,
            **{"hidden_scales": None, **self.inputs},
            offset=(ranks - 1) * self._contract["local_num_experts"],
            output=self._output,
            tactic=tactic,
            finalize=finalize,
        )

    def free(self) -> None:
        """Take the memory back."""
        for tensor in (*self.inputs.values(), self._output):
            self._memory.free(tensor.allocation)
