"""Sizes of kernel parameters, from cubins and from device code inside a runner."""

from __future__ import annotations

import ctypes
import struct
from contextlib import suppress

import pytest

from situ_release.errors import HostError, InputError
from situ_release.smoke.rehearsal import parameters
from situ_release.smoke.rehearsal.parameters import EmbeddedCode, parameter_sizes
from situ_release.smoke.rehearsal.words import read_image
from situ_release.sources.elf import read_elf
from tests.synth.elf import Kernel, make_cubin, make_fatbin, make_runner

_ZSTD_ENTRY = 0x8000  # flag of a fatbin entry


def cubin(*sizes: int, sm: int = 103) -> bytes:
    return make_cubin(sm=sm, kernels=[Kernel("k", parameters=sizes), Kernel("none")])


def embedded(fatbin: bytes, sm: int = 103) -> EmbeddedCode:
    return EmbeddedCode(make_runner(table=(), fatbin=fatbin), "runner.so", sm)


def test_sizes_come_in_the_order_of_parameters() -> None:
    elf = read_elf(cubin(152, 4, 8), "k.cubin")
    assert parameter_sizes(elf, "k") == (152, 4, 8)
    assert parameter_sizes(elf, "none") == ()
    assert parameter_sizes(elf, "absent") is None


def test_the_record_of_long_parameters() -> None:
    data = cubin(0)
    # Attribute 0x45 holds the size as it is; the tool that writes it sets no other bits.
    old = b"\x04\x17\x0c\x00" + bytes(8) + (0x1F000).to_bytes(4, "little")
    new = b"\x04\x45\x0c\x00" + bytes(8) + (17536).to_bytes(4, "little")
    assert data.count(old) == 1
    assert parameter_sizes(read_elf(data.replace(old, new), "k.cubin"), "k") == (17536,)


def test_an_image_in_memory_ends_where_the_file_does() -> None:
    data = cubin(8)
    block = ctypes.create_string_buffer(data + b"something else")
    assert read_image(ctypes.addressof(block)) == data


def test_only_modules_for_the_device_count() -> None:
    code = make_fatbin(cubin(16, sm=90), sm=90) + make_fatbin(cubin(24), sm=103)
    assert embedded(code).parameter_sizes("k") == (24,)
    assert embedded(code, sm=90).parameter_sizes("k") == (16,)
    assert embedded(code, sm=80).parameter_sizes("k") is None
    assert embedded(code).parameter_sizes("absent") is None


def compressed(content: bytes) -> bytes:
    """A fatbin with one module as a zstd frame."""
    zstd = None
    with suppress(OSError):
        zstd = ctypes.CDLL(parameters.ZSTD_SONAME)
    if zstd is None:
        pytest.skip(f"no {parameters.ZSTD_SONAME} on this host")
    zstd.ZSTD_compress.restype = ctypes.c_size_t
    frame = ctypes.create_string_buffer(len(content) + 1024)
    size = zstd.ZSTD_compress(
        frame, ctypes.c_size_t(len(frame)), content, ctypes.c_size_t(len(content)), 3
    )
    return _flagged(frame.raw[:size])


def _flagged(payload: bytes) -> bytes:
    """An uncompressed fatbin's container around a payload that is said to be compressed."""
    fatbin = bytearray(make_fatbin(payload))
    struct.pack_into("<I", fatbin, 16 + 16, len(payload))
    struct.pack_into("<Q", fatbin, 16 + 40, 0x11 | _ZSTD_ENTRY)
    return bytes(fatbin)


def test_compressed_modules_are_read() -> None:
    assert embedded(compressed(cubin(152))).parameter_sizes("k") == (152,)


def test_a_damaged_frame_is_an_input_error() -> None:
    frame = bytearray(compressed(cubin(152)))
    frame[100:140] = bytes(40)
    with pytest.raises(InputError, match="damaged zstd frame"):
        embedded(bytes(frame)).parameter_sizes("k")


def test_another_compression_is_named() -> None:
    with pytest.raises(HostError, match="bytes 2a2a2a2a"):
        embedded(_flagged(b"*" * 64)).parameter_sizes("k")


def test_without_zstd_the_host_is_to_blame(monkeypatch: pytest.MonkeyPatch) -> None:
    fatbin = compressed(cubin(152))
    monkeypatch.setattr(parameters, "ZSTD_SONAME", "libnowhere.so.1")
    with pytest.raises(HostError, match=r"libnowhere\.so\.1"):
        embedded(fatbin).parameter_sizes("k")
