"""Reading and writing this process's own memory, at addresses that native code gave."""

from __future__ import annotations

import ctypes
import struct

_NO_BITS = 8  # SHT_NOBITS: a section without content


def read_words(address: int, count: int) -> list[int]:
    """``count`` unsigned 64-bit integers."""
    return list((ctypes.c_uint64 * count).from_address(address)) if count else []


def store_word(address: int, value: int) -> None:
    """Write one unsigned 64-bit integer."""
    ctypes.c_uint64.from_address(address).value = value


def read_text(address: int) -> str:
    """A NUL-terminated string."""
    return ctypes.string_at(address).decode("utf-8", "backslashreplace")


def read_image(address: int) -> bytes:
    """A 64-bit ELF file: it ends where its last section, segment or table does."""
    header = ctypes.string_at(address, 64)
    segments, sections = struct.unpack_from("<QQ", header, 32)
    segment_size, segment_count, section_size, section_count = struct.unpack_from(
        "<HHHH", header, 54
    )
    ends = [64, segments + segment_size * segment_count, sections + section_size * section_count]
    table = ctypes.string_at(address + sections, section_size * section_count)
    for position in range(0, len(table), max(section_size, 1)):
        kind, _, _, offset, size = struct.unpack_from("<IQQQQ", table, position + 4)
        if kind != _NO_BITS:
            ends.append(offset + size)
    return ctypes.string_at(address, max(ends))
