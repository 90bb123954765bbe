"""This package's bundle. What its functions return and raise, the methods' docstrings say."""

from __future__ import annotations

from pathlib import Path

from ._runtime import Bundle, BundleError

__all__ = [
    "BundleError",
    "bundle_info",
    "call",
    "load_raw_module",
    "raise_last_callback_error",
    "verify_bundle",
]

_BUNDLE = Bundle(Path(__file__).resolve().parent, roles=("fc1_situ", "fc2"))

bundle_info = _BUNDLE.info
verify_bundle = _BUNDLE.verify
load_raw_module = _BUNDLE.open
call = _BUNDLE.call
raise_last_callback_error = _BUNDLE.raise_last_callback_error
