"""A bounds-checked reader of 64-bit little-endian ELF files: host libraries and cubins alike.

Everything that points outside the file is an :class:`InputError` at reading time, so whoever holds
an :class:`Elf` may slice it freely. Nothing here is quadratic or larger than a small multiple of
the file, whatever the bytes are.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from situ_release.errors import InputError, Problem
from situ_release.sources.content_kind import describe_content, is_crlf_mangled

EM_X86_64 = 62
EM_CUDA = 190
ET_EXEC = 2
ET_DYN = 3

PT_LOAD = 1
PT_DYNAMIC = 2
PT_NOTE = 4
PT_GNU_STACK = 0x6474E551
PF_X = 1

SHT_NULL = 0
SHT_PROGBITS = 1
SHT_NOTE = 7
SHT_NOBITS = 8
SHT_DYNSYM = 11
SHF_ALLOC = 2
SHF_EXECINSTR = 4

STT_OBJECT = 1
STT_FUNC = 2
STT_TLS = 6
STT_GNU_IFUNC = 10
STB_GLOBAL = 1
STB_WEAK = 2

_HEADER = struct.Struct("<4sBBBBB7xHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQII16x")  # without alignment and size of entries
_SEGMENT = struct.Struct("<IIQQ8xQ16x")  # without physical address, size in memory, alignment
_SYMBOL = struct.Struct("<IBBHQQ")
_EXTENDED_NAMES = 0xFFFF
_MOST_OVERLAP = 4  # real sections overlap a little; more would make every later step slow


# Rows of tables are named tuples: files have thousands, and frozen dataclasses take longer to make.
class Section(NamedTuple):
    """One row of the section table. ``offset`` and ``size`` are bytes in the file."""

    name: str
    type: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int

    @property
    def stored(self) -> bool:
        """Whether it has bytes in the file, or is only reserved memory."""
        return self.type not in (SHT_NULL, SHT_NOBITS)


class Segment(NamedTuple):
    """One program header. ``offset`` and ``file_size`` are bytes in the file."""

    type: int
    flags: int
    offset: int
    address: int
    file_size: int


class Symbol(NamedTuple):
    """One row of a symbol table.

    Attributes:
        row: its number; other tables refer to it by this.
        section: index of the defining section, 0 for an undefined symbol.
        other: the raw ``st_other`` byte (visibility in the two lowest bits).
    """

    row: int
    name: str
    type: int
    binding: int
    other: int
    section: int
    value: int
    size: int


class StringTable:
    """NUL-terminated names by offset.

    Names may overlap inside the table, so a crafted file could name gigabytes; the table therefore
    hands out no more than sixteen times its own size and then refuses.
    """

    __slots__ = ("_budget", "_content", "_known", "_where")

    def __init__(self, content: bytes, where: str) -> None:
        self._content = content
        self._where = where
        self._budget = 16 * len(content) + 4096
        self._known: dict[int, str] = {}

    def at(self, offset: int) -> str:
        """The name at ``offset``; bytes that are not UTF-8 appear escaped.

        Raises:
            InputError: the offset is outside the table, the name has no end, or the names together
                are absurdly long.
        """
        if offset in self._known:
            return self._known[offset]
        if offset == 0 and not self._content:
            return ""
        end = self._content.find(b"\0", offset) if offset < len(self._content) else -1
        if end < 0:
            raise malformed(
                self._where,
                f"a name at offset {offset:#x} that the string table "
                f"({len(self._content):,} bytes) does not hold",
            )
        self._budget -= end - offset
        if self._budget < 0:
            raise malformed(self._where, "names that overlap beyond reason in the string table")
        name = self._content[offset:end].decode("utf-8", "backslashreplace")
        self._known[offset] = name
        return name


@dataclass(frozen=True, slots=True)
class Elf:
    """An ELF file whose tables are known to lie inside it.

    Attributes:
        data: the whole file.
        where: the name used in errors.
        os_abi: ``EI_OSABI`` (0 System V, 51 or 65 CUDA).
        abi_version: ``EI_ABIVERSION``.
        type: ``e_type`` (2 executable, 3 shared object).
        machine: ``e_machine`` (62 x86-64, 190 CUDA).
        version: ``e_version``: 1, but the toolkit times ten in cubins up to CUDA 12.
        flags: ``e_flags``.
        sections: the section table, null section included; empty when the file has none.
        segments: the program headers.
        extent: where the last of its tables and contents ends, in bytes; what lies behind belongs
            to something else (an image inside a larger file).
    """

    data: memoryview = field(repr=False)
    where: str
    os_abi: int
    abi_version: int
    type: int
    machine: int
    version: int
    flags: int
    sections: tuple[Section, ...] = field(repr=False)
    segments: tuple[Segment, ...] = field(repr=False)
    extent: int

    def section(self, name: str) -> Section | None:
        """The first section of that name."""
        return next((section for section in self.sections if section.name == name), None)

    def content(self, section: Section) -> bytes:
        """The section's bytes; none for one that is not stored."""
        if not section.stored:
            return b""
        return bytes(self.data[section.offset : section.offset + section.size])

    def content_of(self, name: str) -> bytes:
        """The bytes of the first section of that name; nothing when there is none."""
        section = self.section(name)
        return b"" if section is None else self.content(section)

    def strings(self, index: int) -> StringTable:
        """The string table in section ``index`` (a section's ``link``)."""
        if not 0 < index < len(self.sections):
            raise malformed(self.where, f"a string table in section {index}, which does not exist")
        return StringTable(self.content(self.sections[index]), self.where)

    def functions(self, table: Section) -> tuple[Symbol, ...]:
        """The rows of a symbol table section that stand for functions.

        Raises:
            InputError: a name lies outside the string table.
        """
        names = self.strings(table.link)
        return tuple(parse_symbols(self.content(table), names, only_type=STT_FUNC))

    def address_to_offset(self, address: int) -> int:
        """The file offset that the loader maps at ``address``.

        Raises:
            InputError: no loaded segment covers it.
        """
        for segment in self.segments:
            if segment.type == PT_LOAD and 0 <= address - segment.address < segment.file_size:
                return segment.offset + address - segment.address
        raise malformed(self.where, f"the address {address:#x}, which no loaded segment covers")


def read_elf(data: bytes, where: str) -> Elf:
    """Read the header, the section table and the program headers.

    Args:
        data: the whole file.
        where: the name used in errors.

    Raises:
        InputError: not a 64-bit little-endian ELF file, or one that is truncated or damaged; the
            problem's ``found`` says what it is instead.
    """
    if is_crlf_mangled(data):
        raise _unreadable(data, where)
    return parse_elf(memoryview(data), where)


def parse_elf(data: memoryview, where: str) -> Elf:
    """Like :func:`read_elf`, for an image inside a larger file: ``data`` may go on behind it.

    Raises:
        InputError: as :func:`read_elf`.
    """
    if len(data) < _HEADER.size or bytes(data[:6]) != b"\x7fELF\x02\x01":
        raise _unreadable(bytes(data), where)
    (
        _magic, _class, _order, _, os_abi, abi_version, elf_type, machine, version,
        _entry, segment_offset, section_offset, flags, _header_size, segment_size, segment_count,
        section_size, section_count, names_index,
    ) = _HEADER.unpack_from(data)  # fmt: skip
    segments = _read_segments(data, where, segment_offset, segment_size, segment_count)
    sections: tuple[Section, ...] = ()
    if section_offset:
        sections = _read_sections(
            data, where, section_offset, section_size, section_count, names_index
        )
    elif section_count:
        raise malformed(where, f"{section_count} sections but no section table")
    stored = [section for section in sections if section.stored]
    extent = max(
        _HEADER.size,
        segment_offset + segment_size * len(segments) if segments else 0,
        section_offset + section_size * len(sections) if sections else 0,
        *(segment.offset + segment.file_size for segment in segments),
        *(section.offset + section.size for section in stored),
    )
    total = sum(section.size for section in stored)
    if total > _MOST_OVERLAP * extent:
        raise malformed(where, f"sections of {total:,} bytes in a file of {extent:,}")
    return Elf(
        data=data,
        where=where,
        os_abi=os_abi,
        abi_version=abi_version,
        type=elf_type,
        machine=machine,
        version=version,
        flags=flags,
        sections=sections,
        segments=segments,
        extent=extent,
    )


def _unreadable(data: bytes, where: str) -> InputError:
    return InputError(
        Problem(
            "not a readable ELF file",
            where,
            expected="a 64-bit little-endian ELF file",
            found=describe_content(data),
            remedy="fetch or build the file again, in binary mode",
        )
    )


def parse_symbols(
    content: bytes, names: StringTable, only_type: int | None = None
) -> Iterator[Symbol]:
    """Decode symbol table rows, all or those of one type; a partial last row is left out."""
    whole = len(content) // _SYMBOL.size * _SYMBOL.size
    rows = _SYMBOL.iter_unpack(content[:whole])
    for index, (name, info, other, section, value, size) in enumerate(rows):
        if only_type in (None, info & 15):
            yield Symbol(index, names.at(name), info & 15, info >> 4, other, section, value, size)


def parse_notes(content: bytes) -> Iterator[tuple[str, int, bytes]]:
    """``(owner, type, description)`` of every complete note in a note section."""
    position = 0
    while position + 12 <= len(content):
        name_size, description_size, note_type = struct.unpack_from("<III", content, position)
        name_end = position + 12 + name_size
        start = (name_end + 3) & ~3
        end = start + description_size
        if end > len(content):
            return
        owner = content[position + 12 : name_end].rstrip(b"\0").decode("ascii", "backslashreplace")
        yield owner, note_type, content[start:end]
        position = (end + 3) & ~3


def malformed(where: str, found: str) -> InputError:
    """The error for an ELF file whose insides contradict themselves."""
    return InputError(
        Problem(
            "damaged or truncated ELF file",
            where,
            expected="tables and names that lie inside the file",
            found=found,
            remedy="fetch or build the file again",
        )
    )


def _read_segments(
    data: memoryview, where: str, offset: int, entry_size: int, count: int
) -> tuple[Segment, ...]:
    if not count or not offset:
        return ()
    rows = _table(data, where, "program header", offset, entry_size, count, _SEGMENT.size)
    segments = []
    for kind, flags, start, address, size in _SEGMENT.iter_unpack(rows):
        if start + size > len(data):
            raise malformed(where, f"a segment that ends at byte {start + size:,} of {len(data):,}")
        segments.append(Segment(kind, flags, start, address, size))
    return tuple(segments)


def _read_sections(
    data: memoryview, where: str, offset: int, entry_size: int, count: int, names_index: int
) -> tuple[Section, ...]:
    if not count:
        # More than 65,279 sections: the number stands in the null section's size.
        first = _table(data, where, "section", offset, entry_size, 1, _SECTION.size)
        count = _SECTION.unpack(first)[5]
    rows = list(
        _SECTION.iter_unpack(
            _table(data, where, "section", offset, entry_size, count, _SECTION.size)
        )
    )
    if not rows:
        return ()
    for index, (_, kind, _, _, start, size, _, _) in enumerate(rows):
        if kind in (SHT_NULL, SHT_NOBITS):
            continue
        if start + size > len(data):
            raise malformed(
                where, f"section {index}, which ends at byte {start + size:,} of {len(data):,}"
            )
    if names_index == _EXTENDED_NAMES:
        names_index = rows[0][6]
    if names_index >= len(rows):
        raise malformed(where, f"section names in section {names_index} of {len(rows)}")
    _, kind, _, _, start, size, _, _ = rows[names_index]
    stored = kind not in (SHT_NULL, SHT_NOBITS)
    names = StringTable(bytes(data[start : start + size]) if stored else b"", where)
    return tuple(
        Section(names.at(name), kind, flags, address, start, size, link, info)
        for name, kind, flags, address, start, size, link, info in rows
    )


def _table(
    data: memoryview, where: str, what: str, offset: int, entry_size: int, count: int, expected: int
) -> bytes:
    # As bytes: a view that an iterator still reads crashes CPython 3.11 when both are garbage.
    if entry_size != expected:
        raise malformed(where, f"{what} entries of {entry_size} bytes instead of {expected}")
    end = offset + count * entry_size
    if end > len(data):
        raise malformed(
            where, f"a {what} table that ends at byte {end:,} of {len(data):,} (truncated?)"
        )
    return bytes(data[offset:end])
