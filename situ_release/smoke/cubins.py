"""Tier ``cubins`` inside the child: the driver loads every cubin and finds its kernel.

Calls are the CUDA driver API by ctypes; no torch, and nothing is launched.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from situ_release.errors import HostError, Problem
from situ_release.smoke.child import Report, case_event

# CUfunction_attribute, from the CUDA driver API.
_LOCAL_BYTES = 3
_REGISTERS = 4


def cubins(request: Mapping[str, Any], report: Report) -> None:
    """Child task: report an event ``case`` for each group of cubins.

    Args:
        request: ``driver_soname``, ``folder`` (the unpacked import package) and ``groups``
            [{``name``, ``cubins`` [{``path``, ``kernel``}]}].
        report: receives ``step`` and ``case`` events. Figures: ``cubins``, ``loaded``,
            ``most_registers`` (per thread) and ``most_local_bytes`` (spilled, per thread).

    Raises:
        HostError: the driver gives no context on the device.
    """
    driver = _Driver(request["driver_soname"])
    for group in request["groups"]:
        report("step", {"step": f"loading the cubins of {group['name']}"})
        problems: list[Problem] = []
        kernels = []
        for cubin in group["cubins"]:
            path = cubin["path"]
            data = (Path(request["folder"]) / path).read_bytes()
            try:
                kernels.append(driver.inspect(data, cubin["kernel"]))
            except _DriverError as error:
                problems.append(_refused(path, error))
        figures = {
            "cubins": len(group["cubins"]),
            "loaded": len(kernels),
            "most_registers": max((registers for registers, _ in kernels), default=0),
            "most_local_bytes": max((local for _, local in kernels), default=0),
        }
        case_event(report, group["name"], problems, figures)


class _DriverError(Exception):
    """A call of the driver failed."""

    def __init__(self, function: str, name: str, code: int) -> None:
        super().__init__(f"{function}: {name} ({code})")
        self.function = function


class _Driver:
    """The CUDA driver with the primary context of device 0."""

    def __init__(self, soname: str) -> None:
        self._library = ctypes.CDLL(soname)
        device, context = ctypes.c_int(), ctypes.c_void_p()
        try:
            self._call("cuInit", 0)
            self._call("cuDeviceGet", ctypes.byref(device), 0)
            self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
            self._call("cuCtxSetCurrent", context)
        except _DriverError as error:
            raise HostError.of(
                "the NVIDIA driver gives no context",
                soname,
                expected="a context on device 0",
                found=str(error),
                remedy="check the device with nvidia-smi",
            ) from error

    def inspect(self, image: bytes, kernel: str) -> tuple[int, int]:
        """Load a cubin, find its kernel, unload it: registers and local bytes, per thread."""
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self._call("cuModuleLoadData", ctypes.byref(module), image)
        try:
            self._call("cuModuleGetFunction", ctypes.byref(function), module, kernel.encode())
            return self._attribute(_REGISTERS, function), self._attribute(_LOCAL_BYTES, function)
        finally:
            self._call("cuModuleUnload", module)

    def _attribute(self, number: int, function: ctypes.c_void_p) -> int:
        value = ctypes.c_int()
        self._call("cuFuncGetAttribute", ctypes.byref(value), number, function)
        return value.value

    def _call(self, name: str, *arguments: Any) -> None:
        code = getattr(self._library, name)(*arguments)
        if code:
            text = ctypes.c_char_p()
            self._library.cuGetErrorName(code, ctypes.byref(text))
            raise _DriverError(name, (text.value or b"unknown error").decode(), code)


def _refused(path: str, error: _DriverError) -> Problem:
    unknown = error.function == "cuModuleGetFunction"
    return Problem(
        "a cubin does not hold its kernel" if unknown else "the driver does not load a cubin",
        path,
        expected="the kernel that the file's name says, for this device",
        found=str(error),
        remedy="take the cubin from its pool again, and stage and build the wheel again",
    )
