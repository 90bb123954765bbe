"""Device code inside a host library: fatbin containers and raw cubin images, by SM.

The container layout is not documented; what is used here was checked against ``cuobjdump -lelf
-lptx`` and against containers written by CUDA 12.9 and 13.0: a 16-byte header (magic, version,
header size, payload size), then entries of a header that gives kind, SM, flags and sizes.
Entries may be compressed (LZ4 up to CUDA 12, zstd since); their headers alone say what is asked.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

from situ_release.digests import sha256_bytes
from situ_release.sources.cubin import interpret_cubin, read_cubin
from situ_release.sources.elf import (
    EM_CUDA,
    PF_X,
    PT_LOAD,
    SHF_ALLOC,
    SHF_EXECINSTR,
    SHT_PROGBITS,
    Elf,
    malformed,
    parse_elf,
)
from situ_release.sources.sm_target import runs_on, target_name

FATBIN_SECTIONS = (".nv_fatbin", "__nv_relfatbin")

_CONTAINER_HEADER = 16
_ENTRY = struct.Struct("<HHIQIIHHIIIQQQ")
_START = re.compile(rb"\x50\xed\x55\xba\x01\x00\x10\x00|\x7fELF\x02\x01\x01")
_KINDS = {1: "ptx", 2: "cubin", 8: "lto-ir"}
_COMPRESSED = 0x2000 | 0x8000  # LZ4, zstd
_ARCH_SPECIFIC = 0x100000
_FAMILY_SPECIFIC = 0x200000


@dataclass(frozen=True, slots=True)
class DeviceModule:
    """One piece of device code in a host library.

    Attributes:
        kind: "cubin", "ptx", "lto-ir", or "kind <n>" for one that is not known.
        sm: SM number it was compiled for.
        suffix: "a" architecture-specific, "f" family-specific, "" neither. A raw image does not
            tell the last two apart and has "".
        compressed: whether ``payload`` is.
        container: "fatbin" or "raw".
        section: section it lies in; "" in a file without sections.
        offset: byte offset of ``payload`` in the file.
        payload: the stored bytes.
        device_code_sha256: digest over what the GPU executes, see
            :func:`~situ_release.sources.device_code.device_code_sha256`; ``None`` for a compressed
            module and for anything but a cubin.
    """

    kind: str
    sm: int
    suffix: str
    compressed: bool
    container: str
    section: str
    offset: int
    payload: bytes = field(repr=False)
    device_code_sha256: str | None

    @property
    def target(self) -> str:
        """What a compiler calls it: ``sm_103a`` for a cubin, else ``compute_103a``."""
        return target_name(self.sm, self.suffix, real=self.kind == "cubin")

    @property
    def payload_sha256(self) -> str:
        """SHA-256 of the stored bytes; computed at every access."""
        return sha256_bytes(self.payload)

    def runs_on(self, sm: int) -> bool:
        """Whether a device of that SM number can run it (PTX: after compilation by the driver)."""
        return runs_on(self.sm, self.suffix, sm, any_later=self.kind == "ptx")


def device_modules(elf: Elf) -> tuple[DeviceModule, ...]:
    """Every device module in the data of a host library, in file order.

    Searched are all sections that are loaded and not executed, and fatbin sections; in a file
    without sections, the loaded segments that are not executed.

    Raises:
        InputError: a container or image that does not fit into its section, or a fatbin section
            with something else than containers in it.
    """
    return tuple(
        module
        for name, offset, size in data_blocks(elf)
        for module in _modules_in(elf, name, offset, offset + size)
    )


def data_blocks(elf: Elf) -> Iterator[tuple[str, int, int]]:
    """``(section name, offset, size)`` of the file's loaded data, code left out."""
    if elf.sections:
        for section in elf.sections:
            loaded = section.flags & SHF_ALLOC and not section.flags & SHF_EXECINSTR
            if section.type == SHT_PROGBITS and loaded:
                yield section.name, section.offset, section.size
        return
    for segment in elf.segments:
        if segment.type == PT_LOAD and not segment.flags & PF_X:
            yield "", segment.offset, segment.file_size


def _modules_in(elf: Elf, section: str, start: int, end: int) -> Iterator[DeviceModule]:
    data = elf.data
    position = covered = start
    while match := _START.search(data, position, end):
        found = match.start()
        if data[found] == 0x7F:
            machine = int.from_bytes(data[found + 18 : min(found + 20, end)], "little")
            if machine != EM_CUDA:
                position = found + 4
                continue
            module = _raw_image(elf, section, found, end)
            yield module
            position = found + len(module.payload)
        else:
            position = found + _CONTAINER_HEADER
            if position <= end:
                position += int.from_bytes(data[found + 8 : position], "little")
            if position > end:
                raise malformed(elf.where, f"a fatbin container that leaves its section {section}")
            yield from _entries(elf, section, found + _CONTAINER_HEADER, position)
        _refuse_strange_bytes(elf, section, covered, found)
        covered = position
    _refuse_strange_bytes(elf, section, covered, end)


def _refuse_strange_bytes(elf: Elf, section: str, start: int, end: int) -> None:
    if section in FATBIN_SECTIONS and bytes(elf.data[start:end]).strip(b"\0"):
        raise malformed(elf.where, f"bytes that are no fatbin container in {section}")


def _entries(elf: Elf, section: str, position: int, end: int) -> Iterator[DeviceModule]:
    while position < end:
        if position + _ENTRY.size > end:
            raise malformed(elf.where, f"a cut-off fatbin entry in {section}")
        kind_number, _, header, size, packed, _, _, _, sm, _, _, flags, _, _ = _ENTRY.unpack_from(
            elf.data, position
        )
        start = position + header
        position = start + size
        if header < _ENTRY.size or position > end or packed > size:
            raise malformed(elf.where, f"a fatbin entry that leaves its container in {section}")
        kind = _KINDS.get(kind_number, f"kind {kind_number}")
        compressed = bool(flags & _COMPRESSED)
        payload = bytes(elf.data[start : start + (packed if compressed else size)])
        code = None
        if kind == "cubin" and not compressed:
            code = read_cubin(payload, f"{elf.where}, fatbin entry at {start:#x}")
        if flags & _ARCH_SPECIFIC or (code is not None and code.arch_specific):
            suffix = "a"
        else:
            suffix = "f" if flags & _FAMILY_SPECIFIC else ""
        yield DeviceModule(
            kind=kind,
            sm=sm,
            suffix=suffix,
            compressed=compressed,
            container="fatbin",
            section=section,
            offset=start,
            payload=payload,
            device_code_sha256=None if code is None else code.device_code_sha256,
        )


def _raw_image(elf: Elf, section: str, start: int, end: int) -> DeviceModule:
    image = parse_elf(elf.data[start:end], f"{elf.where}, cubin image at {start:#x}")
    cubin = interpret_cubin(image)
    return DeviceModule(
        kind="cubin",
        sm=cubin.sm,
        suffix="a" if cubin.arch_specific else "",
        compressed=False,
        container="raw",
        section=section,
        offset=start,
        payload=bytes(image.data[: image.extent]),
        device_code_sha256=cubin.device_code_sha256,
    )
