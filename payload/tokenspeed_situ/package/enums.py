"""Numbers of the runner's interface."""

from __future__ import annotations

from enum import IntEnum

from ._runtime.trtllm_gen import DtypeTrtllmGen, Fp8QuantizationType, RoutingInputMode

__all__ = ["ActivationType", "DtypeTrtllmGen", "Fp8QuantizationType", "RoutingInputMode"]


class ActivationType(IntEnum):
    """Activation between the two GEMMs, as this runner numbers it (others number SiTU 10)."""

    GELU = 0
    RELU = 1
    SILU = 2
    SWIGLU = 3
    GEGLU = 4
    SWIGLU_BIAS = 5
    RELU2 = 6
    SWIGLU_STEP = 7
    IDENTITY = 8
    SITU = 9
