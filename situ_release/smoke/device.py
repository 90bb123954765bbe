"""Which NVIDIA devices this host has, as the driver itself says.

Runs inside a child process (:mod:`situ_release.smoke.child`), because initialising a driver may
hang or crash and leaves a state behind that forked processes cannot use. Calls are the CUDA driver
API (``libcuda.so.1``) and NVML (``libnvidia-ml.so.1``, for the driver's version only), by ctypes.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from situ_release.errors import HostError, Problem, raise_all
from situ_release.smoke.child import Report

NVML_SONAME = "libnvidia-ml.so.1"

# CUdevice_attribute, from the CUDA driver API.
_COMPUTE_CAPABILITY_MAJOR = 75
_COMPUTE_CAPABILITY_MINOR = 76
_NAME_BYTES = 256


def probe(request: Mapping[str, Any], report: Report) -> None:
    """Child task: report an event ``host`` with the driver, the CUDA runtime and the devices.

    Args:
        request: ``driver_soname``, ``runtime_soname`` and ``cuda_major`` of the recipe.
        report: receives ``devices`` [{``name``, ``sm`` (103 for sm_103), ``memory_bytes``}],
            ``driver_version`` (None where NVML does not tell), ``driver_cuda`` (the newest CUDA
            that the driver serves, "13.0"), ``runtime_cuda`` and ``runtime_path``.

    Raises:
        HostError: the driver, a device or the CUDA runtime is missing; all of them at once.
    """
    driver, lacking = _attempt(_read_driver, request)
    runtime, more = _attempt(_read_runtime, request)
    raise_all(HostError, [*lacking, *more])
    report("host", driver | runtime)


def open_runtime(soname: str) -> tuple[ctypes.CDLL, str]:
    """Open the CUDA runtime so that a library which NEEDs its soname finds it.

    The loader's own search comes first, then the folders of NVIDIA's pip packages
    (``nvidia/*/lib`` on ``sys.path``), which the loader does not know.

    Args:
        soname: for example ``libcudart.so.13``.

    Returns:
        The library and the path or soname it was opened by.

    Raises:
        HostError: it is nowhere.
    """
    packaged = (path for entry in sys.path for path in Path(entry).glob(f"nvidia/*/lib/{soname}"))
    for candidate in (soname, *map(str, packaged)):
        with suppress(OSError):
            return ctypes.CDLL(candidate), candidate
    raise HostError.of(
        "the CUDA runtime library is missing",
        soname,
        expected=f"{soname} on the loader's path or in one of NVIDIA's pip packages",
        found="none",
        remedy="install that CUDA toolkit, or `pip install nvidia-cuda-runtime`",
    )


def _attempt(
    read: Callable[[Mapping[str, Any]], dict[str, Any]], request: Mapping[str, Any]
) -> tuple[dict[str, Any], tuple[Problem, ...]]:
    try:
        return read(request), ()
    except HostError as error:
        return {}, error.problems


def _read_runtime(request: Mapping[str, Any]) -> dict[str, Any]:
    library, path = open_runtime(request["runtime_soname"])
    number = ctypes.c_int()
    library.cudaRuntimeGetVersion(ctypes.byref(number))
    return {"runtime_cuda": _cuda_version(number.value), "runtime_path": path}


def _read_driver(request: Mapping[str, Any]) -> dict[str, Any]:
    soname = request["driver_soname"]
    try:
        driver = ctypes.CDLL(soname)
    except OSError as error:
        raise HostError.of(
            "the NVIDIA driver library is missing",
            soname,
            expected=f"an NVIDIA driver for CUDA {request['cuda_major']} or newer, with {soname}",
            found=str(error),
            remedy="run gpu-smoke on a host with an NVIDIA GPU and its driver",
        ) from error
    _demand(driver, soname, driver.cuInit(0), "initialise")
    number = ctypes.c_int()
    _demand(driver, soname, driver.cuDriverGetVersion(ctypes.byref(number)), "say its version")
    if number.value < request["cuda_major"] * 1000:
        raise HostError.of(
            "the NVIDIA driver is too old",
            soname,
            expected=f"a driver that serves CUDA {request['cuda_major']}",
            found=f"CUDA {_cuda_version(number.value)}",
            remedy="install a newer NVIDIA driver",
        )
    count = ctypes.c_int()
    _demand(driver, soname, driver.cuDeviceGetCount(ctypes.byref(count)), "count its devices")
    if not count.value:
        raise _no_device(soname, "0 devices")
    return {
        "devices": [_device(driver, soname, index) for index in range(count.value)],
        "driver_version": _driver_version(),
        "driver_cuda": _cuda_version(number.value),
    }


def _device(driver: ctypes.CDLL, soname: str, index: int) -> dict[str, Any]:
    device, value = ctypes.c_int(), ctypes.c_int()
    name = ctypes.create_string_buffer(_NAME_BYTES)
    memory = ctypes.c_size_t()
    action = f"describe device {index}"
    _demand(driver, soname, driver.cuDeviceGet(ctypes.byref(device), index), action)
    _demand(driver, soname, driver.cuDeviceGetName(name, _NAME_BYTES, device), action)
    _demand(driver, soname, driver.cuDeviceTotalMem_v2(ctypes.byref(memory), device), action)
    sm = 0
    for attribute in (_COMPUTE_CAPABILITY_MAJOR, _COMPUTE_CAPABILITY_MINOR):
        code = driver.cuDeviceGetAttribute(ctypes.byref(value), attribute, device)
        _demand(driver, soname, code, action)
        sm = 10 * sm + value.value
    return {"name": name.value.decode("utf-8", "replace"), "sm": sm, "memory_bytes": memory.value}


def _demand(driver: ctypes.CDLL, soname: str, code: int, action: str) -> None:
    if not code:
        return
    text = ctypes.c_char_p()
    driver.cuGetErrorName(code, ctypes.byref(text))
    name = (text.value or b"unknown error").decode()
    if name == "CUDA_ERROR_NO_DEVICE":
        raise _no_device(soname, f"{name} ({code})")
    raise HostError.of(
        f"the NVIDIA driver could not {action}",
        soname,
        expected="a driver that answers",
        found=f"{name} ({code})",
        remedy="check the driver with nvidia-smi",
    )


def _no_device(soname: str, found: str) -> HostError:
    return HostError(
        Problem(
            "there is no NVIDIA device",
            soname,
            expected="at least one device that the driver shows",
            found=found,
            remedy="run gpu-smoke on a host with an NVIDIA GPU; check CUDA_VISIBLE_DEVICES",
        )
    )


def _driver_version() -> str | None:
    try:
        nvml = ctypes.CDLL(NVML_SONAME)
    except OSError:
        return None
    text = ctypes.create_string_buffer(_NAME_BYTES)
    if nvml.nvmlInit_v2() or nvml.nvmlSystemGetDriverVersion(text, _NAME_BYTES):
        return None
    return text.value.decode("ascii", "replace")


def _cuda_version(number: int) -> str:
    """CUDA's 1000 * major + 10 * minor as text."""
    return f"{number // 1000}.{number % 1000 // 10}"
