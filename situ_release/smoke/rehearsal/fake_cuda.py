"""What the stub CUDA libraries do: the Python half behind ``native/``.

Every CUDA call of the runner arrives here with its arguments as 64-bit words, and gets a result
code of the CUDA driver API (the runtime's are the same for what is used). Launches are taken down:
which kernel, and whether each device address among its parameters is inside its allocation.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

from situ_release.digests import sha256_bytes
from situ_release.errors import SituReleaseError
from situ_release.smoke.rehearsal.memory import DeviceMemory
from situ_release.smoke.rehearsal.parameters import EmbeddedCode, parameter_sizes
from situ_release.smoke.rehearsal.stubs import Stubs
from situ_release.smoke.rehearsal.words import read_image, read_text, read_words, store_word
from situ_release.sources.elf import Elf, read_elf

SUCCESS = 0
INVALID_VALUE = 1
INVALID_IMAGE = 200
NOT_FOUND = 500
NOT_SUPPORTED = 801
UNKNOWN = 999

# CUdevice_attribute.
_MULTIPROCESSORS = 16
_CAPABILITY_MAJOR = 75
_CAPABILITY_MINOR = 76

_DEVICE_MEMORY = 2  # cudaMemoryTypeDevice
_TENSOR_MAP_BYTES = 128
_ELEMENT_BITS = (8, 16, 32, 32, 64, 64, 16, 32, 64, 16, 32, 32, 32, 4, 4, 6)
"""By CUtensorMapDataType."""
_UNBOUNDED = 1 << 31
"""A size that a tensor map gives for an extent which the kernel bounds itself."""
_FATBIN_MAGIC = b"\x50\xed\x55\xba"

Words = Any
"""A call's arguments: a C array of unsigned 64-bit integers."""

_Listener = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.POINTER(ctypes.c_uint64))


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel launch.

    Attributes:
        kernel: its symbol.
        cubin_sha256: of the cubin it came from; "" for a kernel that the runner embeds.
        owners: names of the allocations that its parameters point into.
        pointers: device addresses among its parameters.
        outside: the addresses that are not inside a live allocation, in words.
    """

    kernel: str
    cubin_sha256: str
    owners: frozenset[str]
    pointers: int
    outside: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Module:
    cubin: Elf | None
    sha256: str


@dataclass(frozen=True, slots=True)
class _Function:
    kernel: str
    cubin_sha256: str
    sizes: tuple[int, ...] | None


class FakeCuda:
    """One claimed device, and what the runner does with it.

    Keep the object as long as the stubs are loaded: they hold the bare C pointer.

    Args:
        memory: the invented device memory.
        embedded: the runner's own device code.
        sm: the claimed SM number (103 is compute capability 10.3).
        multiprocessors: the claimed number of SMs of the device.

    Attributes:
        launches: launches since :meth:`restart`.
        outside: other addresses outside of their allocations: of memory calls and tensor maps.
        failure: an error of the imitation itself, since :meth:`restart`.
    """

    def __init__(
        self, memory: DeviceMemory, embedded: EmbeddedCode, sm: int, multiprocessors: int
    ) -> None:
        self._memory = memory
        self._embedded = embedded
        self._attributes = {
            _CAPABILITY_MAJOR: sm // 10,
            _CAPABILITY_MINOR: sm % 10,
            _MULTIPROCESSORS: multiprocessors,
        }
        self._handles = count(1)
        self._modules: dict[int, _Module] = {}
        self._functions: dict[int, _Function] = {}
        self._registered: dict[int, str] = {}
        self._host_blocks: list[Any] = []
        self._calls: dict[str, Callable[[Words], int]] = {
            "cuModuleLoadData": self._load_module,
            "cuModuleUnload": lambda words: SUCCESS,
            "cuModuleGetFunction": self._find_function,
            "cuFuncSetAttribute": lambda words: SUCCESS,
            "cuLaunchKernelEx": self._launch_function,
            "cuTensorMapEncodeTiled": self._encode_tensor_map,
            "cudaDeviceGetAttribute": self._tell_attribute,
            "cudaPointerGetAttributes": self._describe_address,
            "cudaMalloc": self._allocate,
            "cudaMallocHost": self._allocate_host,
            "cudaFree": self._free,
            "cudaMemset": self._fill,
            "cudaMemsetAsync": self._fill,
            "cudaMemcpy": self._copy,
            "cudaMemcpyAsync": self._copy,
            "__cudaRegisterFunction": self._register,
            "__cudaLaunchKernel": self._launch_registered,
            "cudaLaunchKernel": self._launch_registered,
            "cudaLaunchKernelExC": self._launch_registered,
        }
        self._listener = _Listener(self._listen)
        self.restart()

    def restart(self) -> None:
        """Forget what was taken down, before another call of the runner."""
        self.launches: list[Launch] = []
        self.outside: list[str] = []
        self.failure: BaseException | None = None

    def install(self, stubs: Stubs) -> None:
        """Open the stub libraries for the whole process and listen to them."""
        driver = ctypes.CDLL(str(stubs.driver), mode=ctypes.RTLD_GLOBAL)
        ctypes.CDLL(str(stubs.runtime), mode=ctypes.RTLD_GLOBAL)
        driver.situ_rehearsal_listen(self._listener)

    def _listen(self, call: bytes, words: Words) -> int:
        handle = self._calls.get(call.decode())
        if handle is None:
            return NOT_SUPPORTED
        try:
            return handle(words)
        except BaseException as failure:  # noqa: BLE001 - nothing may be raised into native code
            self.failure = self.failure or failure
            return UNKNOWN

    # Modules and kernels.

    def _load_module(self, words: Words) -> int:
        result, image = words[0], words[1]
        beginning = ctypes.string_at(image, 4) if image else b""
        if beginning == _FATBIN_MAGIC:
            module = _Module(None, "")
        elif beginning == b"\x7fELF":
            content = read_image(image)
            try:
                module = _Module(read_elf(content, "cuModuleLoadData"), sha256_bytes(content))
            except SituReleaseError:
                return INVALID_IMAGE
        else:
            return INVALID_IMAGE
        handle = next(self._handles)
        self._modules[handle] = module
        store_word(result, handle)
        return SUCCESS

    def _find_function(self, words: Words) -> int:
        result, module, kernel = words[0], self._modules[words[1]], read_text(words[2])
        if module.cubin is None:
            sizes = self._embedded.parameter_sizes(kernel)
        else:
            sizes = parameter_sizes(module.cubin, kernel)
        if sizes is None:
            return NOT_FOUND
        handle = next(self._handles)
        self._functions[handle] = _Function(kernel, module.sha256, sizes)
        store_word(result, handle)
        return SUCCESS

    def _register(self, words: Words) -> int:
        self._registered[words[0]] = read_text(words[1])
        return SUCCESS

    def _launch_function(self, words: Words) -> int:
        function, parameters, extra = self._functions[words[0]], words[1], words[2]
        if extra:
            return NOT_SUPPORTED
        self._launch(function, parameters)
        return SUCCESS

    def _launch_registered(self, words: Words) -> int:
        kernel = self._registered.get(words[0])
        sizes = None if kernel is None else self._embedded.parameter_sizes(kernel)
        if kernel is None or sizes is None:
            return NOT_FOUND
        self._launch(_Function(kernel, "", sizes), words[1])
        return SUCCESS

    def _launch(self, function: _Function, parameters: int) -> None:
        owners, outside, pointers = set(), [], 0
        for number, position, word in _words(function.sizes or (), parameters):
            if not self._memory.is_address(word):
                continue
            pointers += 1
            if owner := self._memory.owner(word):
                owners.add(owner.name)
            if fault := self._memory.fault(word):
                outside.append(f"parameter {number}, byte {position}: {fault}")
        self.launches.append(
            Launch(
                function.kernel,
                function.cubin_sha256,
                frozenset(owners),
                pointers,
                tuple(outside),
            )
        )

    def _encode_tensor_map(self, words: Words) -> int:
        result, kind, rank, address = words[0], words[1], words[2], words[3]
        # The address comes first, so that a launch with this map is seen to point there.
        ctypes.memset(result, 0, _TENSOR_MAP_BYTES)
        store_word(result, address)
        sizes = read_words(words[4], rank)
        extent = 1
        if _UNBOUNDED not in sizes:
            strides = read_words(words[5], rank - 1)
            steps = zip(sizes[1:], strides, strict=True)
            extent = sum((size - 1) * stride for size, stride in steps)
            extent += -(-sizes[0] * _ELEMENT_BITS[kind] // 8)
        self._check("tensor map", address, extent)
        return SUCCESS

    # The device and its memory.

    def _tell_attribute(self, words: Words) -> int:
        value = self._attributes.get(words[1])
        if value is None:
            return INVALID_VALUE
        ctypes.c_int.from_address(words[0]).value = value
        return SUCCESS

    def _describe_address(self, words: Words) -> int:
        result, address = words[0], words[1]
        on_device = self._memory.is_address(address)
        # cudaPointerAttributes: type, device, device pointer, host pointer.
        layout = struct.pack(
            "<iiQQ", _DEVICE_MEMORY * on_device, 0, address, 0 if on_device else address
        )
        ctypes.memmove(result, layout, len(layout))
        return SUCCESS

    def _allocate(self, words: Words) -> int:
        store_word(words[0], self._memory.allocate("memory of cudaMalloc", words[1]).address)
        return SUCCESS

    def _allocate_host(self, words: Words) -> int:
        self._host_blocks.append(ctypes.create_string_buffer(words[1]))
        store_word(words[0], ctypes.addressof(self._host_blocks[-1]))
        return SUCCESS

    def _free(self, words: Words) -> int:
        owner = self._memory.owner(words[0])
        if owner is not None:
            self._memory.free(owner)
        return SUCCESS

    def _fill(self, words: Words) -> int:
        address, value, size = words[0], words[1], words[2]
        if self._memory.is_address(address):
            self._check("memory set", address, size)
        else:
            ctypes.memset(address, value & 0xFF, size)
        return SUCCESS

    def _copy(self, words: Words) -> int:
        to, source, size = words[0], words[1], words[2]
        from_device, to_device = map(self._memory.is_address, (source, to))
        for address, on_device in ((to, to_device), (source, from_device)):
            if on_device:
                self._check("memory copy", address, size)
        if not to_device:
            # Device memory has no content; whoever reads it gets zeros.
            if from_device:
                ctypes.memset(to, 0, size)
            else:
                ctypes.memmove(to, source, size)
        return SUCCESS

    def _check(self, what: str, address: int, size: int) -> None:
        if size and (fault := self._memory.fault(address, size)):
            self.outside.append(f"{what}: {fault}")


def _words(sizes: tuple[int, ...], parameters: int) -> Iterator[tuple[int, int, int]]:
    """``(parameter, byte offset, value)`` of every aligned 64-bit word of a launch's parameters."""
    for number, (size, address) in enumerate(zip(sizes, read_words(parameters, len(sizes)), strict=True)):
        for index, word in enumerate(read_words(address, size // 8)):
            yield number, 8 * index, word
