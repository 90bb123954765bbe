"""What a cubin says about itself: SM, producer, kernels and their resources."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

from situ_release.errors import InputError, Problem
from situ_release.sources.content_kind import describe_content
from situ_release.sources.device_code import device_code_sha256
from situ_release.sources.elf import (
    EM_CUDA,
    SHF_EXECINSTR,
    Elf,
    malformed,
    parse_notes,
    read_elf,
)
from situ_release.sources.embedded_paths import find_paths
from situ_release.sources.faults import shown
from situ_release.text import printable

_OLD_ABI = 7
# The e_flags bit of an architecture-specific build: in the old ABI, and in ABI 8 by CUDA 12.
# Since CUDA 13 a record in .nv.compat says it and the bit stays unset.
_ACCELERATOR_FLAG_OF_OLD_ABI = 0x800
_ACCELERATOR_FLAG = 0x8
_ENTRY = 0x10  # st_other bit of a symbol that is a kernel, not a device function

_NOTE_OWNER = "NVIDIA Corp"
_NOTE_TOOLKIT = 1000
_NOTE_TOOL = 2000

# Attributes of .nv.info records, as cuobjdump -elf names them.
_FORMAT_SIZED = 4
_MAX_THREADS = 0x05
_REQUIRED_THREADS = 0x10
_REGISTER_COUNT = 0x2F
# Attribute of .nv.compat: EICOMPAT_ATTR_CUDA_ACCELERATOR_TARGET.
_ACCELERATOR_TARGET = 0x09

_RELEASE = re.compile(r"release (\d+\.\d+), (V[\d.]+)")
_LINE_TABLES = (".debug_line", ".nv_debug_line")


@dataclass(frozen=True, slots=True)
class CubinKernel:
    """A kernel (entry function) in a cubin.

    Attributes:
        name: its symbol.
        registers: per thread; ``None`` where the file does not say.
        shared_memory_bytes: static shared memory per block as the file reserves it, the number that
            ``cuobjdump -res-usage`` prints. From sm_90 on it includes 1,024 bytes that the system
            keeps for itself and that ``ptxas -v`` leaves out.
        max_threads: threads in the largest block it was compiled for; ``None`` where the source set
            no launch bound.
    """

    name: str
    registers: int | None
    shared_memory_bytes: int
    max_threads: int | None


@dataclass(frozen=True, slots=True)
class Toolchain:
    """The tool that wrote a cubin, in its own words (``.note.nv.tkinfo``), made printable.

    Attributes:
        producer: "ptxas", "nvasm_internal", …
        release: "13.1"; "" where the note gives none.
        version: "V13.1.80"; "" where the note gives none.
        options: its command line options, spaces collapsed.
    """

    producer: str
    release: str
    version: str
    options: str


@dataclass(frozen=True, slots=True)
class Cubin:
    """A device code file.

    Attributes:
        sm: the SM number (103 for sm_103a).
        arch_specific: ``True`` for ``sm_103a`` and its like, which run on exactly that SM;
            ``False`` for ``sm_100f`` and plain ``sm_100``; ``None`` where the file does not say.
        abi_version: the layout of the ELF header's flags: 7 in CUDA 12 and before up to sm_90a,
            otherwise 8.
        kernels: in symbol table order.
        toolchain: the producer; ``None`` where the file has no such note.
        toolkit: the CUDA toolkit ("13.1"), from ``.note.nv.cuinfo`` or, in ABI 7, the header;
            ``None`` where neither says.
        has_line_info: compiled with ``-lineinfo`` or ``-G``, so the bytes depend on the folder.
        elf: the file itself.
    """

    sm: int
    arch_specific: bool | None
    abi_version: int
    kernels: tuple[CubinKernel, ...]
    toolchain: Toolchain | None
    toolkit: str | None
    has_line_info: bool
    elf: Elf = field(repr=False)

    @property
    def device_code_sha256(self) -> str:
        """Digest over what the GPU executes and reads; computed at every access."""
        return device_code_sha256(self.elf)

    @property
    def embedded_paths(self) -> tuple[str, ...]:
        """Absolute build paths in the file; searched for at every access."""
        return find_paths(
            self.elf.content(section)
            for section in self.elf.sections
            if not section.flags & SHF_EXECINSTR
        )


def read_cubin(data: bytes, where: str) -> Cubin:
    """Read a cubin.

    Args:
        data: the whole file.
        where: the name used in errors.

    Raises:
        InputError: not a cubin (the problem's ``found`` says what it is instead), or a damaged one.
    """
    elf = read_elf(data, where) if data.startswith(b"\x7fELF") else None
    if elf is None or elf.machine != EM_CUDA:
        raise InputError(
            Problem(
                "not a cubin",
                where,
                expected="an ELF file for NVIDIA CUDA (machine 190)",
                found=describe_content(data),
                remedy="fetch the cubin again from its pool",
            )
        )
    return interpret_cubin(elf)


def interpret_cubin(elf: Elf) -> Cubin:
    """The cubin in an ELF file whose machine is known to be CUDA.

    Raises:
        InputError: a damaged one.
    """
    notes = _nvidia_notes(elf)
    return Cubin(
        sm=_sm(elf),
        arch_specific=_arch_specific(elf),
        abi_version=elf.abi_version,
        kernels=_kernels(elf),
        toolchain=_toolchain(notes.get(_NOTE_TOOL, b"")),
        toolkit=_toolkit(elf, notes.get(_NOTE_TOOLKIT, b"")),
        has_line_info=any(section.name.startswith(_LINE_TABLES) for section in elf.sections),
        elf=elf,
    )


def _sm(elf: Elf) -> int:
    return elf.flags & 0xFF if elf.abi_version <= _OLD_ABI else elf.flags >> 8 & 0xFF


def _arch_specific(elf: Elf) -> bool | None:
    if elf.abi_version <= _OLD_ABI:
        return bool(elf.flags & _ACCELERATOR_FLAG_OF_OLD_ABI)
    compat = elf.section(".nv.compat")
    if compat is not None:
        for attribute, value in info_records(elf.content(compat)):
            if attribute == _ACCELERATOR_TARGET:
                return value[:1] == b"\1"
    if elf.flags & _ACCELERATOR_FLAG:
        return True
    return None if compat is None else False


def _kernels(elf: Elf) -> tuple[CubinKernel, ...]:
    table = elf.section(".symtab")
    if table is None:
        return ()
    sections = {section.name: section for section in elf.sections}
    registers = _registers(elf.content_of(".nv.info"))
    kernels = []
    names: set[str] = set()
    for symbol in elf.functions(table):
        if not symbol.other & _ENTRY:
            continue
        # Each kernel has sections of its own, so reading them stays within the size of the file.
        if symbol.name in names:
            raise malformed(elf.where, f"two kernels of one name, {shown(symbol.name, 80)}")
        names.add(symbol.name)
        info = sections.get(f".nv.info.{symbol.name}")
        shared = sections.get(f".nv.shared.{symbol.name}")
        kernels.append(
            CubinKernel(
                name=symbol.name,
                registers=registers.get(symbol.row),
                shared_memory_bytes=0 if shared is None else shared.size,
                max_threads=None if info is None else _max_threads(elf.content(info)),
            )
        )
    return tuple(kernels)


def _registers(info: bytes) -> dict[int, int]:
    """Registers per thread by symbol index, from ``.nv.info``."""
    return dict(
        struct.unpack("<II", value)
        for attribute, value in info_records(info)
        if attribute == _REGISTER_COUNT and len(value) == 8
    )


def _max_threads(info: bytes) -> int | None:
    """Threads per block that the launch bounds allow, from ``.nv.info.<kernel>``."""
    for attribute, value in info_records(info):
        if attribute in (_MAX_THREADS, _REQUIRED_THREADS) and len(value) == 12:
            x, y, z = struct.unpack("<III", value)
            return int(x * y * z)
    return None


def info_records(content: bytes) -> Iterator[tuple[int, bytes]]:
    """``(attribute, value)`` of a ``.nv.info`` or ``.nv.compat`` section.

    A record is a format byte, an attribute byte and two bytes: the value itself, or in the sized
    format the length of the value that follows.
    """
    position = 0
    while position + 4 <= len(content):
        form, attribute, size = struct.unpack_from("<BBH", content, position)
        end = position + 4 + (size if form == _FORMAT_SIZED else 0)
        yield attribute, content[position + 4 if form == _FORMAT_SIZED else position + 2 : end]
        position = end


def _nvidia_notes(elf: Elf) -> dict[int, bytes]:
    """NVIDIA's notes by type."""
    return {
        note_type: description
        for section in elf.sections
        if section.name in (".note.nv.cuinfo", ".note.nv.tkinfo")
        for owner, note_type, description in parse_notes(elf.content(section))
        if owner == _NOTE_OWNER
    }


def _toolkit(elf: Elf, note: bytes) -> str | None:
    if len(note) >= 6:  # three 16-bit words: note version, SM, toolkit times ten
        tenths = int.from_bytes(note[4:6], "little")
    elif elf.abi_version <= _OLD_ABI and elf.version > 1:
        tenths = elf.version
    else:
        return None
    return f"{tenths // 10}.{tenths % 10}"


def _toolchain(note: bytes) -> Toolchain | None:
    # Six words, then strings; words 2, 3 and 5 are the offsets of the tool's name, its banner
    # ("Cuda compilation tools, release 13.1, V13.1.80") and its options.
    if len(note) < 24:
        return None
    words = struct.unpack_from("<6I", note)
    name, banner, options = (
        note[24 + words[index] :].split(b"\0", 1)[0].decode("utf-8", "backslashreplace")
        for index in (2, 3, 5)
    )
    release = _RELEASE.search(banner)
    return Toolchain(
        producer=printable(name),
        release=release.group(1) if release else "",
        version=release.group(2) if release else "",
        options=printable(" ".join(options.split())),
    )
