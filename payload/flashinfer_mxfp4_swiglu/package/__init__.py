"""Precompiled MXFP4 + SwiGLU mixture-of-experts kernels of public FlashInfer.

Importing this package loads no native code: the runner is verified and opened on first use.
"""

from __future__ import annotations

from .loader import BundleError, bundle_info, load_raw_module, verify_bundle
from .op import (
    DEFAULT_TACTIC,
    SWIGLU,
    get_valid_moe_configs,
    mxfp4_swiglu_routed_moe,
    trtllm_fp4_block_scale_moe_raw,
)

__version__ = "@version@"

__all__ = [
    "DEFAULT_TACTIC",
    "SWIGLU",
    "BundleError",
    "bundle_info",
    "get_valid_moe_configs",
    "load_raw_module",
    "mxfp4_swiglu_routed_moe",
    "trtllm_fp4_block_scale_moe_raw",
    "verify_bundle",
]
