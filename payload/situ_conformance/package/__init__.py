"""MXFP4 + SiTU mixture-of-experts kernels for checking situ-release itself; not for production.

Importing this package loads no native code: the runner is verified and opened on first use.
"""

from __future__ import annotations

from ._runtime.trtllm_gen import DtypeTrtllmGen, Fp8QuantizationType, RoutingInputMode
from .loader import (
    BundleError,
    bundle_info,
    load_raw_module,
    raise_last_callback_error,
    verify_bundle,
)
from .op import DEFAULT_TACTIC, SITU, get_valid_moe_configs, trtllm_fp4_block_scale_moe_raw

__version__ = "@version@"

__all__ = [
    "DEFAULT_TACTIC",
    "SITU",
    "BundleError",
    "DtypeTrtllmGen",
    "Fp8QuantizationType",
    "RoutingInputMode",
    "bundle_info",
    "get_valid_moe_configs",
    "load_raw_module",
    "raise_last_callback_error",
    "trtllm_fp4_block_scale_moe_raw",
    "verify_bundle",
]
