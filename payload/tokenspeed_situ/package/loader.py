"""This package's bundle: what it holds, whether it is intact, and its runner."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ._runtime import Bundle, BundleError

__all__ = [
    "BundleError",
    "bundle_info",
    "call",
    "clear_callback_error",
    "load_raw_module",
    "raise_last_callback_error",
    "verify_bundle",
]

_BUNDLE = Bundle(Path(__file__).resolve().parent, roles=("fc1_situ", "fc2"))


def bundle_info() -> dict[str, Any]:
    """What the manifest says, without loading native code or hashing anything.

    Returns:
        ``package_version``, ``architecture``, ``cuda_major``, ``runner`` (absolute path),
        ``runner_sha256``, ``cubin_count``, ``fc1_situ_count``, ``fc2_count`` and
        ``gpu_validated``, in this order.

    Raises:
        BundleError: the manifest is missing, damaged or of another schema version.
    """
    return _BUNDLE.info()


def verify_bundle() -> dict[str, Any]:
    """Hash the runner and every cubin against the manifest; needs no CUDA and no GPU.

    Returns:
        The same as :func:`bundle_info`.

    Raises:
        BundleError: names every file that is missing or differs.
    """
    return _BUNDLE.verify()


def load_raw_module() -> Any:
    """The runner as a TVM-FFI module, verified and opened on the first call.

    Raises:
        BundleError: another platform, a damaged bundle, or a host that cannot open the runner.
    """
    return _BUNDLE.open()


def call(entry_point: str, *args: Any) -> Any:
    """Call an entry point of the runner by its TVM-FFI name.

    Raises:
        BundleError: as :func:`load_raw_module`, or a cubin that the call asked for is not in the
            bundle or damaged.
    """
    return _BUNDLE.call(entry_point, *args)


def raise_last_callback_error() -> None:
    """Raise the failed cubin request that waits, once.

    The functions of this package raise by themselves. This is for callers of the module that
    :func:`load_raw_module` returns.

    Raises:
        BundleError: names the cubin.
    """
    _BUNDLE.raise_last_callback_error()


def clear_callback_error() -> None:
    """Forget the failed cubin request that waits."""
    _BUNDLE.clear_callback_error()
