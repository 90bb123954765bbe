"""Opening the runner, and saying why it cannot be opened."""

from __future__ import annotations

import ctypes
import os
import re
from pathlib import Path
from typing import Any

from .errors import BundleError
from .manifest import Manifest

_TOO_OLD = re.compile(r"(\S+): version [`'](\w+?)_([\d.]+)' not found")
_MISSING_LIBRARY = re.compile(r"(\S+): cannot open shared object file")
_UNDEFINED = re.compile(r"undefined symbol: (\w+)")


def open_runner(path: Path, manifest: Manifest) -> tuple[Any, Any]:
    """Open the runner.

    Args:
        path: the runner library, its digest already checked.
        manifest: tells which entry points it must have and what it needs from the host.

    Returns:
        The TVM-FFI module and the same library as :class:`ctypes.CDLL`.

    Raises:
        BundleError: apache-tvm-ffi is absent, the library cannot be opened (the message says what
            the host lacks), or entry points are missing.
    """
    wanted = f"apache-tvm-ffi {manifest.runtime_dependencies.get('apache_tvm_ffi', '')}".rstrip()
    try:
        import tvm_ffi
    except (ImportError, OSError) as error:
        raise BundleError(f"cannot import tvm_ffi: {error}; install {wanted}") from error
    try:
        # First through ctypes, which binds every symbol at once: apache-tvm-ffi binds functions
        # when they are first called, and an unresolved one would then end the process. Not
        # RTLD_GLOBAL: the runner and FlashInfer's own libraries must not share equal symbol names.
        library = ctypes.CDLL(str(path))
        module = tvm_ffi.load_module(str(path))
    except Exception as error:
        found = f"apache-tvm-ffi {getattr(tvm_ffi, '__version__', '(unknown version)')}"
        reasons = [str(error), *explain(str(error), manifest, f"needs {wanted}, found {found}")]
        raise BundleError(f"cannot open {path}: " + "\n".join(reasons)) from error
    missing = [name for name in manifest.runner.ffi_symbols if not module.implements_function(name)]
    if missing:
        raise BundleError(f"{path}: the runner lacks the entry points {', '.join(missing)}")
    return module, library


def explain(problem: str, manifest: Manifest, tvm_ffi: str) -> list[str]:
    """What the host lacks, one sentence each, from the dynamic loader's message.

    Args:
        problem: the message.
        manifest: names the libraries that the driver and the CUDA runtime bring.
        tvm_ffi: the wanted and the found version of apache-tvm-ffi.
    """
    needs = manifest.runtime_dependencies
    reasons = []
    for soname in _MISSING_LIBRARY.findall(problem):
        if soname == needs.get("cuda_driver_soname"):
            reasons.append(f"{soname} belongs to the NVIDIA driver: use a host that has one")
        elif soname == needs.get("cuda_runtime_soname"):
            reasons.append(
                f"{soname} is the CUDA {manifest.cuda_major} runtime: import a torch that is built "
                f"for CUDA {manifest.cuda_major} first, or put its folder on LD_LIBRARY_PATH"
            )
        else:
            reasons.append(f"the host has no {soname}")
    demands = {
        (name, version): _newest_version(library, name)
        for library, name, version in _TOO_OLD.findall(problem)
    }
    # The loader stops at its first fault; the manifest may know that the C library is too old too.
    needed, host = manifest.runner.minimum_glibc, _glibc_version()
    if needed and host and _numbers(needed) > _numbers(host):
        demands["GLIBC", needed] = host
    reasons += [
        f"the runner needs {name} {version}, this host has {found}: use a newer system"
        for (name, version), found in demands.items()
    ]
    reasons += [
        f"no loaded library defines {symbol} (the runner {tvm_ffi})"
        for symbol in _UNDEFINED.findall(problem)
    ]
    return reasons


def _newest_version(library: str, name: str) -> str:
    """The highest version of the symbol set ``name`` that a system library offers."""
    try:
        found = re.findall(rb"\0%b_([\d.]+)(?=\0)" % name.encode(), Path(library).read_bytes())
    except OSError:
        found = []
    return max((version.decode() for version in found), key=_numbers, default="an older one")


def _glibc_version() -> str:
    try:
        return (os.confstr("CS_GNU_LIBC_VERSION") or "").rpartition(" ")[2]
    except (AttributeError, ValueError, OSError):
        return ""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)))
