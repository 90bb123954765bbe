"""Precompiled MXFP4 + SiTU mixture-of-experts kernels for Kimi K3 on NVIDIA B300.

Importing this package loads no native code: the runner is verified and opened on first use.
"""

from __future__ import annotations

from .enums import ActivationType, DtypeTrtllmGen, Fp8QuantizationType, RoutingInputMode
from .k3 import K3_HIDDEN_SIZE, K3_NUM_EXPERTS, K3_TOP_K
from .loader import (
    BundleError,
    bundle_info,
    load_raw_module,
    raise_last_callback_error,
    verify_bundle,
)
from .op import (
    DEFAULT_TACTIC,
    get_valid_k3_situ_configs,
    get_valid_moe_configs,
    mxfp4_situ_routed_moe,
    trtllm_fp4_block_scale_moe_raw,
)

__version__ = "@version@"

__all__ = [
    "DEFAULT_TACTIC",
    "K3_HIDDEN_SIZE",
    "K3_NUM_EXPERTS",
    "K3_TOP_K",
    "ActivationType",
    "BundleError",
    "DtypeTrtllmGen",
    "Fp8QuantizationType",
    "RoutingInputMode",
    "bundle_info",
    "get_valid_k3_situ_configs",
    "get_valid_moe_configs",
    "load_raw_module",
    "mxfp4_situ_routed_moe",
    "raise_last_callback_error",
    "trtllm_fp4_block_scale_moe_raw",
    "verify_bundle",
]
