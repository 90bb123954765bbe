"""How long the parameters of a kernel are, as its cubin says.

A launch passes addresses of parameter values and no sizes; a kernel's ``.nv.info`` section has
them. Kernels of the runner itself lie in its embedded modules, which CUDA 13 compresses with zstd.
"""

from __future__ import annotations

import ctypes
import struct
from functools import cached_property

from situ_release.errors import HostError
from situ_release.sources.cubin import info_records
from situ_release.sources.elf import Elf, malformed, read_elf
from situ_release.sources.fatbin import DeviceModule, device_modules

ZSTD_SONAME = "libzstd.so.1"

# Attributes of .nv.info, as cuobjdump -elf names them: EIATTR_KPARAM_INFO and its successor for
# kernels whose parameters together are longer than 4 KiB.
_PARAMETER = 0x17
_LONG_PARAMETER = 0x45
_PARAMETER_RECORD = struct.Struct("<IHHI")
_LONG_SIZE = 0xFFFF  # parameters end at 32,764 bytes
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_MOST_CONTENT = 1 << 30


def parameter_sizes(elf: Elf, kernel: str) -> tuple[int, ...] | None:
    """Sizes of a kernel's parameters in bytes, in order; ``None`` where the file does not say."""
    section = elf.section(f".nv.info.{kernel}")
    if section is None:
        return None
    sizes = {}
    for attribute, value in info_records(elf.content(section)):
        if attribute in (_PARAMETER, _LONG_PARAMETER) and len(value) == _PARAMETER_RECORD.size:
            _, ordinal, _, word = _PARAMETER_RECORD.unpack(value)
            sizes[ordinal] = word >> 18 if attribute == _PARAMETER else word & _LONG_SIZE
    return tuple(sizes[ordinal] for ordinal in sorted(sizes))


class EmbeddedCode:
    """The device code inside a runner library, for one device. Read when it is first asked for.

    Args:
        runner: the library's bytes.
        where: the name used in errors.
        sm: the device's SM number.
    """

    def __init__(self, runner: bytes, where: str, sm: int) -> None:
        self._runner = runner
        self._where = where
        self._sm = sm

    def parameter_sizes(self, kernel: str) -> tuple[int, ...] | None:
        """As :func:`parameter_sizes`; ``None`` also where no module for the device has the kernel.

        Raises:
            HostError: a module is compressed and this host cannot decompress it.
        """
        found = (parameter_sizes(module, kernel) for module in self._modules)
        return next((sizes for sizes in found if sizes is not None), None)

    @cached_property
    def _modules(self) -> tuple[Elf, ...]:
        return tuple(
            read_elf(self._content(module), f"{self._where}: embedded module for {module.target}")
            for module in device_modules(read_elf(self._runner, self._where))
            if module.kind == "cubin" and module.runs_on(self._sm)
        )

    def _content(self, module: DeviceModule) -> bytes:
        if not module.compressed:
            return module.payload
        if not module.payload.startswith(_ZSTD_MAGIC):
            raise HostError.of(
                "the runner's device code is compressed in an unknown way",
                self._where,
                expected="a zstd frame, as CUDA 13 writes it",
                found=f"bytes {module.payload[:4].hex()}",
                remedy="build the runner with CUDA 13, or with nvcc --no-compress",
            )
        content = _decompress(module.payload)
        if content is None:
            raise malformed(self._where, f"a damaged zstd frame at byte {module.offset:,}")
        return content


def _decompress(frame: bytes) -> bytes | None:
    """The content of a zstd frame; ``None`` where it is damaged."""
    try:
        zstd = ctypes.CDLL(ZSTD_SONAME)
    except OSError as error:
        raise HostError.of(
            "the zstd library is missing, which reads the runner's embedded device code",
            ZSTD_SONAME,
            expected=f"{ZSTD_SONAME}, which gcc brings with it on most systems",
            found=str(error),
            remedy="install libzstd (Debian, Ubuntu: apt install libzstd1)",
        ) from error
    zstd.ZSTD_getFrameContentSize.restype = ctypes.c_uint64
    zstd.ZSTD_getFrameContentSize.argtypes = (ctypes.c_char_p, ctypes.c_size_t)
    zstd.ZSTD_decompress.restype = ctypes.c_size_t
    zstd.ZSTD_decompress.argtypes = (
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_char_p,
        ctypes.c_size_t,
    )
    size = zstd.ZSTD_getFrameContentSize(frame, len(frame))
    # Errors are huge numbers, in both functions.
    if size > _MOST_CONTENT:
        return None
    content = ctypes.create_string_buffer(size)
    written = zstd.ZSTD_decompress(content, size, frame, len(frame))
    return content.raw if written == size else None
