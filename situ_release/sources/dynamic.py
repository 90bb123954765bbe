"""What the dynamic loader reads of a shared object: its needs, symbols and symbol versions.

Everything is taken from the dynamic segment, as the loader does, not from section headers: a
stripped library says the same as one that is not.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

from situ_release.sources.elf import (
    PT_DYNAMIC,
    PT_LOAD,
    SHT_DYNSYM,
    Elf,
    StringTable,
    Symbol,
    malformed,
    parse_symbols,
)

_NEEDED, _PLT_SIZE, _HASH, _STRINGS, _SYMBOLS = 1, 2, 4, 5, 6
_STRINGS_SIZE, _SONAME, _RPATH, _PLT_RELOCATIONS, _RUNPATH = 10, 14, 15, 23, 29
_GNU_HASH, _VERSIONS = 0x6FFFFEF5, 0x6FFFFFF0
_VERSION_NEEDS, _VERSION_NEED_COUNT = 0x6FFFFFFE, 0x6FFFFFFF

_ENTRY_SIZE = 16
_SYMBOL_SIZE = 24
_RELOCATION_SIZE = 24
_VERSION_MASK = 0x7FFF  # the top bit hides a symbol


@dataclass(frozen=True, slots=True)
class VersionNeed:
    """A symbol version that a library must provide, whatever symbol asks for it."""

    version: str
    library: str


@dataclass(frozen=True, slots=True)
class Dynamic:
    """The dynamic segment.

    Attributes:
        needed: DT_NEEDED libraries, in order.
        soname: DT_SONAME.
        rpath: DT_RPATH.
        runpath: DT_RUNPATH.
        symbols: the dynamic symbols, null symbol included.
        version_needs: by version index.
        version_indices: for every symbol the index of its version (0 local, 1 none).
        lazily_bound: indices of symbols that are looked up at their first call, not at loading.
    """

    needed: tuple[str, ...] = ()
    soname: str | None = None
    rpath: str | None = None
    runpath: str | None = None
    symbols: tuple[Symbol, ...] = field(default=(), repr=False)
    version_needs: dict[int, VersionNeed] = field(default_factory=dict, repr=False)
    version_indices: tuple[int, ...] = field(default=(), repr=False)
    lazily_bound: frozenset[int] = field(default=frozenset(), repr=False)

    def version_need(self, symbol: Symbol) -> VersionNeed | None:
        """The version that an undefined symbol asks for."""
        if symbol.row >= len(self.version_indices):
            return None
        return self.version_needs.get(self.version_indices[symbol.row] & _VERSION_MASK)


def read_dynamic(elf: Elf) -> Dynamic:
    """Read the dynamic segment; a file without one has an empty one.

    Raises:
        InputError: it points outside the file.
    """
    segment = next((part for part in elf.segments if part.type == PT_DYNAMIC), None)
    if segment is None:
        return Dynamic()
    entries = _entries(bytes(elf.data[segment.offset : segment.offset + segment.file_size]))
    names = StringTable(
        _at(elf, entries.get(_STRINGS, [0])[0], entries.get(_STRINGS_SIZE, [0])[0]), elf.where
    )

    def name(tag: int) -> str | None:
        return names.at(entries[tag][0]) if tag in entries else None

    symbols = _symbols(elf, entries, names)
    indices: Sequence[int] = ()
    if _VERSIONS in entries:
        count = len(symbols)
        indices = struct.unpack(f"<{count}H", _at(elf, entries[_VERSIONS][0], 2 * count))
    plt = _at(elf, entries.get(_PLT_RELOCATIONS, [0])[0], entries.get(_PLT_SIZE, [0])[0])
    return Dynamic(
        needed=tuple(names.at(offset) for offset in entries.get(_NEEDED, ())),
        soname=name(_SONAME),
        rpath=name(_RPATH),
        runpath=name(_RUNPATH),
        symbols=symbols,
        version_needs=_version_needs(elf, entries, names),
        version_indices=tuple(indices),
        lazily_bound=frozenset(
            struct.unpack_from("<I", plt, position + 12)[0]
            for position in range(0, len(plt) - _RELOCATION_SIZE + 1, _RELOCATION_SIZE)
        ),
    )


def _entries(content: bytes) -> dict[int, list[int]]:
    """Values by tag, up to the null entry."""
    entries: dict[int, list[int]] = {}
    whole = len(content) // _ENTRY_SIZE * _ENTRY_SIZE
    for tag, value in struct.iter_unpack("<QQ", content[:whole]):
        if tag == 0:
            break
        entries.setdefault(tag, []).append(value)
    return entries


def _at(elf: Elf, address: int, size: int) -> bytes:
    """``size`` bytes that the loader maps at ``address``."""
    if size == 0:
        return b""
    offset = elf.address_to_offset(address)
    if offset + size > len(elf.data):
        raise malformed(elf.where, f"a dynamic table that ends at byte {offset + size:,}")
    return bytes(elf.data[offset : offset + size])


def _rest_at(elf: Elf, address: int) -> memoryview:
    """Everything from ``address`` to the end of its segment."""
    offset = elf.address_to_offset(address)
    end = next(
        part.offset + part.file_size
        for part in elf.segments
        if part.type == PT_LOAD and 0 <= address - part.address < part.file_size
    )
    return elf.data[offset:end]


def _symbols(elf: Elf, entries: dict[int, list[int]], names: StringTable) -> tuple[Symbol, ...]:
    if _SYMBOLS not in entries:
        return ()
    address = entries[_SYMBOLS][0]
    count = _symbol_count(elf, entries, address)
    return tuple(parse_symbols(_at(elf, address, count * _SYMBOL_SIZE), names))


def _symbol_count(elf: Elf, entries: dict[int, list[int]], address: int) -> int:
    # The loader never needs the count, so the format does not store it.
    for section in elf.sections:
        if section.type == SHT_DYNSYM and section.address == address:
            return section.size // _SYMBOL_SIZE
    if _HASH in entries:
        _, chains = struct.unpack("<II", _at(elf, entries[_HASH][0], 8))
        return int(chains)
    if _GNU_HASH in entries:
        return _count_by_gnu_hash(elf, entries[_GNU_HASH][0])
    return 0


def _count_by_gnu_hash(elf: Elf, address: int) -> int:
    """One more than the last symbol that the hash table's chains reach."""
    table = _rest_at(elf, address)
    if len(table) < 16:
        raise malformed(elf.where, "a cut-off GNU hash table")
    bucket_count, first, bloom_size, _ = struct.unpack_from("<IIII", table)
    buckets = 16 + 8 * bloom_size
    chains = buckets + 4 * bucket_count
    if chains > len(table):
        raise malformed(elf.where, "a GNU hash table that leaves its segment")
    last = max(struct.unpack_from(f"<{bucket_count}I", table, buckets), default=0)
    if last < first:
        return int(first)
    while True:
        position = chains + 4 * (last - first)
        if position + 4 > len(table):
            raise malformed(elf.where, "a GNU hash chain without an end")
        last += 1
        if table[position] & 1:
            return int(last)


def _version_needs(
    elf: Elf, entries: dict[int, list[int]], names: StringTable
) -> dict[int, VersionNeed]:
    if _VERSION_NEEDS not in entries:
        return {}
    table = _rest_at(elf, entries[_VERSION_NEEDS][0])
    needs: dict[int, VersionNeed] = {}
    position = 0
    try:
        for _ in range(entries.get(_VERSION_NEED_COUNT, [0])[0]):
            _, count, library, first, following = struct.unpack_from("<HHIII", table, position)
            version_position = position + first
            for _ in range(count):
                _, _, index, version, step = struct.unpack_from("<IHHII", table, version_position)
                if index in needs:
                    raise malformed(elf.where, f"two needed versions with the index {index}")
                needs[index] = VersionNeed(names.at(version), names.at(library))
                if not step:
                    break
                version_position += step
            if not following:
                break
            position += following
    except struct.error as error:
        raise malformed(elf.where, "a version table that leaves its segment") from error
    return needs
