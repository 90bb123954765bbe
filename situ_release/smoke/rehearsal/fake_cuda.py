"""What the stub CUDA libraries do: the Python half behind ``native/``.

Every CUDA call of the runner that matters arrives here with its arguments as 64-bit words, and gets
a result code of the CUDA driver API (the runtime's are the same for what is used). Launches are
taken down: which kernel, and whether each device address among its parameters is inside its
allocation.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

from situ_release.digests import sha256_bytes
from situ_release.errors import HostError, InputError
from situ_release.smoke.rehearsal.memory import DeviceMemory
from situ_release.smoke.rehearsal.parameters import EmbeddedCode, parameter_sizes
from situ_release.smoke.rehearsal.stubs import Stubs
from situ_release.smoke.rehearsal.words import read_image, read_text, read_words, store_word
from situ_release.sources.elf import Elf, read_elf

SUCCESS = 0
INVALID_VALUE = 1
INVALID_IMAGE = 200
INVALID_HANDLE = 400
NOT_FOUND = 500
UNKNOWN = 999

# CUdevice_attribute.
_MULTIPROCESSORS = 16
_CAPABILITY_MAJOR = 75
_CAPABILITY_MINOR = 76

_TENSOR_MAP_BYTES = 128
_ELEMENT_BITS = (8, 16, 32, 32, 64, 64, 16, 32, 64, 16, 32, 32, 32, 4, 4, 6)
"""By CUtensorMapDataType."""
_UNBOUNDED = 1 << 31
"""A size in a tensor map of an extent that the kernel bounds by itself."""
_FATBIN_MAGIC = b"\x50\xed\x55\xba"
_ELF_MAGIC = b"\x7fELF"

Words = Any
"""A call's arguments: a C array of unsigned 64-bit integers."""

_Listener = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.POINTER(ctypes.c_uint64))


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel launch.

    Attributes:
        kernel: its symbol.
        cubin_sha256: of the cubin it came from; ``None`` for a kernel that the runner embeds.
        owners: names of the allocations that its parameters point into.
        pointers: number of device addresses among its parameters.
        outside: those that are not inside a live allocation, in words.
    """

    kernel: str
    cubin_sha256: str | None
    owners: frozenset[str]
    pointers: int
    outside: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Module:
    """A loaded image: a cubin, or (``None``) code that the runner embeds."""

    cubin: Elf | None
    sha256: str | None


@dataclass(frozen=True, slots=True)
class _Function:
    kernel: str
    cubin_sha256: str | None
    sizes: tuple[int, ...]


class FakeCuda:
    """One claimed device, and what the runner does with it.

    Keep the object as long as the stubs are loaded: they hold the bare C pointer.

    Args:
        memory: the invented device memory.
        embedded: the runner's own device code.
        sm: the claimed SM number (103 is compute capability 10.3).
        multiprocessors: how many SMs the device claims to have.

    Attributes:
        launches: launches since :meth:`restart`.
        outside: tensor maps since then that leave their allocation, in words.
        failure: an error of the imitation itself since then.
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
        self._calls: dict[str, Callable[[Words], int]] = {
            "cuModuleLoadData": self._load_module,
            "cuModuleGetFunction": self._find_function,
            "cuLaunchKernelEx": self._launch_function,
            "cuTensorMapEncodeTiled": self._encode_tensor_map,
            "cudaDeviceGetAttribute": self._tell_attribute,
            "__cudaRegisterFunction": self._register,
            "__cudaLaunchKernel": self._launch_registered,
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
        """Open the stub libraries, for the whole process, and listen to them."""
        driver = ctypes.CDLL(str(stubs.driver), mode=ctypes.RTLD_GLOBAL)
        ctypes.CDLL(str(stubs.runtime), mode=ctypes.RTLD_GLOBAL)
        driver.situ_rehearsal_listen(self._listener)

    def _listen(self, call: bytes, words: Words) -> int:
        try:
            return self._handler(call.decode())(words)
        except BaseException as failure:  # noqa: BLE001 - nothing may be raised into native code
            self.failure = self.failure or failure
            return UNKNOWN

    def _handler(self, call: str) -> Callable[[Words], int]:
        try:
            return self._calls[call]
        except KeyError:
            raise HostError.of(
                "the runner calls a CUDA function that the rehearsal does not imitate",
                call,
                expected=f"calls of {', '.join(sorted(self._calls))} and what needs no answer",
                found=call,
                remedy="run the tiers that need a GPU, or let the rehearsal imitate the function",
            ) from None

    def _load_module(self, words: Words) -> int:
        result, image = words[0], words[1]
        beginning = ctypes.string_at(image, 4) if image else b""
        if beginning == _ELF_MAGIC:
            content = read_image(image)
            try:
                module = _Module(read_elf(content, "cuModuleLoadData"), sha256_bytes(content))
            except InputError:
                return INVALID_IMAGE
        elif beginning == _FATBIN_MAGIC:
            module = _Module(None, None)
        else:
            return INVALID_IMAGE
        handle = next(self._handles)
        self._modules[handle] = module
        store_word(result, handle)
        return SUCCESS

    def _find_function(self, words: Words) -> int:
        result, module, kernel = words[0], self._modules.get(words[1]), read_text(words[2])
        if module is None:
            return INVALID_HANDLE
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
        function = self._functions.get(words[0])
        if function is None:
            return INVALID_HANDLE
        self._launch(function, words[1])
        return SUCCESS

    def _launch_registered(self, words: Words) -> int:
        kernel = self._registered.get(words[0])
        if kernel is None:
            return INVALID_HANDLE
        sizes = self._embedded.parameter_sizes(kernel)
        if sizes is None:
            return NOT_FOUND
        self._launch(_Function(kernel, None, sizes), words[1])
        return SUCCESS

    def _launch(self, function: _Function, parameters: int) -> None:
        owners, outside, pointers = set(), [], 0
        for number, position, word in _parameter_words(function.sizes, parameters):
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
            extent = -(-sizes[0] * _ELEMENT_BITS[kind] // 8)
            extent += sum((size - 1) * step for size, step in zip(sizes[1:], strides, strict=True))
        if fault := self._memory.fault(address, extent):
            self.outside.append(f"tensor map: {fault}")
        return SUCCESS

    def _tell_attribute(self, words: Words) -> int:
        value = self._attributes.get(words[1])
        if value is None:
            return INVALID_VALUE
        ctypes.c_int.from_address(words[0]).value = value
        return SUCCESS


def _parameter_words(sizes: tuple[int, ...], parameters: int) -> Iterator[tuple[int, int, int]]:
    """``(parameter, byte offset, value)`` of every aligned 64-bit word of a launch's parameters."""
    addresses = read_words(parameters, len(sizes))
    for number, (size, address) in enumerate(zip(sizes, addresses, strict=True)):
        for index, word in enumerate(read_words(address, size // 8)):
            yield number, 8 * index, word
