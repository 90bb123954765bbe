"""Synthetic cubins and runner libraries, made of nothing but Python: no compiler, no real binary.

Structurally they are the real thing: ``readelf``, pyelftools (so auditwheel) and ``cuobjdump`` read
them. The code in them is filler.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

PAGE = 4096
TOOLCHAIN = ("ptxas", "13.1", "V13.1.80", "-v -arch sm_100f -m 64")
"""Producer, release, version and options that a synthetic cubin names by default."""

_HEADER = struct.Struct("<4sBBBBB7xHHIQQQIHHHHHH")


@dataclass(frozen=True)
class Kernel:
    """A kernel of a synthetic cubin; ``None`` leaves that record out.

    ``parameters`` are sizes in bytes, each aligned to 8.
    """

    name: str
    registers: int | None = 168
    shared_memory_bytes: int = 1024
    max_threads: int | None = 384
    parameters: tuple[int, ...] = ()


@dataclass(frozen=True)
class Undefined:
    """A symbol that a synthetic runner leaves to others."""

    name: str
    version: str | None = None
    weak: bool = False
    kind: str = "function"


@dataclass
class _Section:
    name: str
    content: bytes = b""
    type: int = 1
    flags: int = 0
    link: str = ""
    info: int = 0
    align: int = 1
    entry_size: int = 0
    reserved: int = 0  # size of a NOBITS section
    offset: int = 0
    address: int = 0


@dataclass
class _Strings:
    content: bytearray = field(default_factory=lambda: bytearray(b"\0"))
    offsets: dict[str, int] = field(default_factory=lambda: {"": 0})

    def add(self, name: str) -> int:
        if name not in self.offsets:
            self.offsets[name] = len(self.content)
            self.content += name.encode() + b"\0"
        return self.offsets[name]


# --- cubins ----------------------------------------------------------------------------------


def make_header_only_cubin(sm: int = 103, filler: bytes = b"", abi: int = 8) -> bytes:
    """A cubin of an ELF header and ``filler``: no sections, so no kernels."""
    return _header(**_cubin_identity(sm, None, abi)) + filler


def make_cubin(
    name: str = "bmm_synthetic_sm103a",
    *,
    sm: int = 103,
    arch_specific: bool | None = True,
    abi: int = 8,
    kernels: Sequence[Kernel | str] | None = None,
    toolchain: tuple[str, str, str, str] | None = TOOLCHAIN,
    toolkit: str | None = "13.1",
    code_size: int = 512,
    seed: int = 0,
    relocation_seed: int = 0,
    source_path: str | None = None,
    compat_record: bool = True,
) -> bytes:
    """A cubin with the sections of a real one.

    Args:
        name: the kernel; ``<name>GetSmemSize`` is added beside it, as in the real ones.
        sm: SM number in the header.
        arch_specific: ``True`` for an ``a`` target; ``None`` leaves the ``.nv.compat`` record out.
        abi: 8, or 7 for the layout of CUDA 12 (whose cubins have no notes; pass ``None`` for them).
        kernels: instead of the two kernels named above.
        toolchain: producer, release, version, options; ``None`` leaves the note out.
        toolkit: "13.1"; ``None`` leaves the note out.
        code_size: bytes of code per kernel.
        seed: another number gives other code bytes.
        relocation_seed: another number gives other relocations and equal device code.
        source_path: compiled "with line info": a ``.debug_line`` section with this path.
        compat_record: ``False`` marks ``arch_specific`` in the header, as CUDA 12.9 does.
    """
    if kernels is None:
        kernels = (Kernel(name), Kernel(f"{name}GetSmemSize", 8, 1024, None))
    listed = [Kernel(kernel) if isinstance(kernel, str) else kernel for kernel in kernels]
    strings = _Strings()
    symbols = [bytes(24)]
    sections = [_Section(".strtab", type=3), _Section(".symtab", type=2, link=".strtab", align=8)]
    notes = []
    if toolchain is not None:
        notes.append(_Section(".note.nv.tkinfo", _tool_note(toolchain), type=7, align=4))
    if toolkit is not None:
        notes.append(_Section(".note.nv.cuinfo", _toolkit_note(sm, toolkit), type=7, align=4))
    info = b"".join(
        struct.pack("<BBHII", 4, 0x2F, 8, index, kernel.registers)
        for index, kernel in enumerate(listed, 1)
        if kernel.registers is not None
    )
    sections += [*notes, _Section(".nv.info", info, type=0x70000000, link=".symtab", align=4)]
    if arch_specific is not None and abi == 8:
        record = bytes((2, 9, arch_specific, 0)) if compat_record else b""
        compat = record + bytes((2, 2, 2, 0))
        sections.append(_Section(".nv.compat", compat, type=0x70000086, align=4))
    for index, kernel in enumerate(listed, 1):
        code = len(sections) + 4  # numbered from 1; the code is the fourth of a kernel's sections
        sections += _kernel_sections(kernel, index, code, code_size, seed, relocation_seed)
        symbols.append(
            struct.pack("<IBBHQQ", strings.add(kernel.name), 0x12, 0x10, code, 0, code_size)
        )
    if source_path is not None:
        sections.append(_Section(".debug_line", b"\0\2\0" + source_path.encode() + b"\0"))
    sections[0].content = bytes(strings.content)
    sections[1].content, sections[1].info, sections[1].entry_size = b"".join(symbols), 1, 24
    flagged = None if compat_record and abi == 8 else arch_specific
    return _assemble(sections, **_cubin_identity(sm, flagged, abi))


def _cubin_identity(sm: int, arch_specific: bool | None, abi: int) -> dict[str, int]:
    if abi == 8:
        flags, os_abi, version = sm << 8 | (0x600000A if arch_specific else 0x6000002), 65, 1
    else:
        flags, os_abi, version = sm << 16 | (0xD00 if arch_specific else 0x500) | sm, 51, 126
    return {
        "flags": flags,
        "version": version,
        "os_abi": os_abi,
        "abi_version": abi,
        "elf_type": 2,
        "machine": 190,
    }


def _kernel_sections(
    kernel: Kernel, symbol: int, code: int, code_size: int, seed: int, relocation_seed: int
) -> list[_Section]:
    info = struct.pack("<BBHI", 4, 0x37, 4, 131)
    if kernel.max_threads is not None:
        info += struct.pack("<BBHIII", 4, 5, 12, kernel.max_threads, 1, 1)
    info += _parameter_records(kernel.parameters)
    relocations = struct.pack("<QQq", 8 * relocation_seed, symbol << 32 | 2, relocation_seed)
    sections = [
        _Section(f".nv.info.{kernel.name}", info, 0x70000000, 0x40, ".symtab", code, 4),
        _Section(f".rela.text.{kernel.name}", relocations, 4, 0x40, ".symtab", code, 8, 24),
        _Section(f".nv.constant0.{kernel.name}", bytes(904), 1, 0x42, info=code, align=4),
        _Section(
            f".text.{kernel.name}",
            filler(f"{kernel.name}/{seed}", code_size),
            flags=6,
            link=".symtab",
            info=symbol,
            align=128,
        ),
    ]
    if kernel.shared_memory_bytes:
        sections.append(
            _Section(
                f".nv.shared.{kernel.name}",
                type=8,
                flags=0x43,
                info=code,
                align=16,
                reserved=kernel.shared_memory_bytes,
            )
        )
    return sections


def _parameter_records(sizes: tuple[int, ...]) -> bytes:
    content = b""
    for ordinal in reversed(range(len(sizes))):  # compilers begin with the last
        offset = sum(-(-size // 8) * 8 for size in sizes[:ordinal])
        content += struct.pack("<BBH", 4, 0x17, 12)
        content += struct.pack("<IHHI", 0, ordinal, offset, sizes[ordinal] << 18 | 0x1F000)
    return content


def _note(note_type: int, description: bytes) -> bytes:
    name = b"NVIDIA Corp\0"
    padding = bytes(-len(description) % 4)
    return (
        struct.pack("<III", len(name), len(description), note_type) + name + description + padding
    )


def _toolkit_note(sm: int, toolkit: str) -> bytes:
    major, minor = toolkit.split(".")
    return _note(1000, struct.pack("<HHHH", 2, sm, int(major) * 10 + int(minor), 0))


def _tool_note(toolchain: tuple[str, str, str, str]) -> bytes:
    producer, release, version, options = toolchain
    texts = [
        "",
        producer,
        f"Cuda compilation tools, release {release}, {version}",
        f"Build cuda_{release}.r{release}/compiler.1_0",
        f"{options} ",
    ]
    offsets, blob = [], b""
    for text in texts:
        offsets.append(len(blob))
        blob += text.encode() + b"\0"
    return _note(2000, struct.pack("<6I", 2, *offsets) + blob)


def filler(seed: str, size: int) -> bytes:
    """``size`` bytes that depend on ``seed`` alone."""
    block = hashlib.sha256(seed.encode()).digest()
    return (block * (size // len(block) + 1))[:size]


# --- runner libraries ------------------------------------------------------------------------

DEFAULT_NEEDED = ("libcudart.so.13", "libcuda.so.1", "libstdc++.so.6", "libc.so.6")
DEFAULT_VERSIONS: Mapping[str, Sequence[str]] = {
    "libc.so.6": ("GLIBC_2.2.5", "GLIBC_2.17"),
    "libstdc++.so.6": ("GLIBCXX_3.4", "CXXABI_1.3"),
}


def make_runner(
    ffi_symbols: Sequence[str] = ("trtllm_synthetic_moe",),
    c_symbols: Sequence[str] = ("FlashInferSetCubinCallback", "FlashInferSetCurrentCubin"),
    table: Sequence[tuple[str, str]] = (),
    needed: Sequence[str] = DEFAULT_NEEDED,
    versions: Mapping[str, Sequence[str]] = DEFAULT_VERSIONS,
    undefined: Sequence[Undefined | str] = (),
    *,
    rpath: str | None = None,
    runpath: str | None = None,
    soname: str | None = None,
    exec_stack: bool | None = False,
    build_id: str | None = "4c0c5dc8" * 5,
    compiler: str | None = "GCC: (synthetic) 13.3.0",
    strings: Sequence[str] = (),
    fatbin: bytes = b"",
    large_data: bytes = b"",
    machine: int = 62,
    elf_type: int = 3,
) -> bytes:
    """A shared object that a loader, ``readelf`` and auditwheel accept.

    Args:
        ffi_symbols: entry points without their ``__tvm_ffi_`` prefix.
        c_symbols: exported functions.
        table: kernel names and SHA-256 digests, put into ``.rodata`` as a compiler does.
        needed: NEEDED libraries, in order; libraries in ``versions`` are added.
        versions: the version needs, by library.
        undefined: undefined symbols; a string is ``name`` or ``name@VERSION``.
        rpath: DT_RPATH.
        runpath: DT_RUNPATH.
        soname: DT_SONAME.
        exec_stack: ``None`` leaves PT_GNU_STACK out, which means executable.
        build_id: hexadecimal; ``None`` leaves the note out.
        compiler: the text of ``.comment``; ``None`` leaves it out.
        strings: further NUL-terminated strings in ``.rodata`` (paths, say).
        fatbin: content of ``.nv_fatbin`` (see :func:`make_fatbin`).
        large_data: content of ``.lrodata``.
        machine: ``e_machine``.
        elf_type: ``e_type``.
    """
    names = _Strings()
    version_ids = {
        version: index
        for index, version in enumerate(
            (version for listed in versions.values() for version in listed), 2
        )
    }
    wanted = [_undefined(entry) for entry in undefined]
    exported = [*(f"__tvm_ffi_{name}" for name in ffi_symbols), *c_symbols]
    symbols, version_table = [bytes(24)], [0]
    for entry in wanted:
        info = (2 if entry.weak else 1) << 4
        symbols.append(struct.pack("<IBBHQQ", names.add(entry.name), info, 0, 0, 0, 0))
        version_table.append(version_ids[entry.version] if entry.version else 1)
    text_row = len(symbols)
    symbols += [struct.pack("<IBBHQQ", names.add(name), 0x12, 0, 0, 0, 3) for name in exported]
    version_table += [1] * len(exported)

    functions = [row for row, entry in enumerate(wanted, 1) if entry.kind == "function"]
    objects = [row for row, entry in enumerate(wanted, 1) if entry.kind != "function"]
    listed_needs = [*needed, *(library for library in versions if library not in needed)]
    dynamic_names = [(1, names.add(library)) for library in listed_needs]
    dynamic_names += [
        (tag, names.add(value))
        for tag, value in ((14, soname), (15, rpath), (29, runpath))
        if value is not None
    ]
    needs = _version_needs(versions, version_ids, names)

    count = len(symbols)
    chain = [0, *range(2, count), 0] if count > 1 else [0]
    sections = [
        _Section(
            ".note.gnu.build-id",
            b"" if build_id is None else _gnu_note(3, bytes.fromhex(build_id)),
            type=7,
            flags=2,
            align=4,
        ),
        _Section(
            ".hash",
            struct.pack(f"<{3 + count}I", 1, count, min(1, count - 1), *chain),
            5,
            2,
            ".dynsym",
            align=8,
        ),
        _Section(".dynsym", bytes(24 * count), 11, 2, ".dynstr", 1, 8, 24),
        _Section(".dynstr", bytes(names.content), 3, 2),
        _Section(
            ".gnu.version",
            struct.pack(f"<{count}H", *version_table),
            0x6FFFFFFF,
            2,
            ".dynsym",
            align=2,
            entry_size=2,
        ),
        _Section(".gnu.version_r", needs, 0x6FFFFFFE, 2, ".dynstr", len(versions), 8),
        _Section(".rela.dyn", bytes(24 * len(objects)), 4, 2, ".dynsym", 0, 8, 24),
        _Section(".rela.plt", bytes(24 * len(functions)), 4, 2, ".dynsym", 0, 8, 24),
        _Section(".text", b"\x31\xc0\xc3" + bytes(13), flags=6, align=PAGE),
        _Section(".rodata", _rodata(table, strings), flags=2, align=PAGE),
        _Section(".nv_fatbin", fatbin, flags=2, align=8),
        _Section(".lrodata", large_data, flags=2, align=32),
        _Section(".dynamic", bytes(16 * (len(dynamic_names) + 15)), 6, 3, ".dynstr", 0, PAGE, 16),
        _Section(".got.plt", bytes(8 * (3 + len(functions))), 1, 3, align=8, entry_size=8),
        _Section(".data", bytes(8 * len(objects)), 1, 3, align=8),
        _Section(".comment", b"" if compiler is None else compiler.encode() + b"\0", 1, 0x30),
    ]
    sections = [part for part in sections if part.content or part.name in (".rela.plt", ".got.plt")]
    by_name = {section.name: section for section in sections}
    segment_count = 4 + 1 + (exec_stack is not None) + (build_id is not None)
    _place(sections, 64 + 56 * segment_count)
    index = {section.name: number for number, section in enumerate(sections, 1)}

    code = by_name[".text"]
    for row in range(text_row, count):
        name, info, other, _, _, size = struct.unpack("<IBBHQQ", symbols[row])
        symbols[row] = struct.pack("<IBBHQQ", name, info, other, index[".text"], code.address, size)
    by_name[".dynsym"].content = b"".join(symbols)
    slots = by_name[".got.plt"].address + 24
    by_name[".rela.plt"].content = b"".join(
        struct.pack("<QQq", slots + 8 * number, row << 32 | 7, 0)
        for number, row in enumerate(functions)
    )
    if objects:
        by_name[".rela.dyn"].content = b"".join(
            struct.pack("<QQq", by_name[".data"].address + 8 * number, row << 32 | 1, 0)
            for number, row in enumerate(objects)
        )
    by_name[".dynamic"].content = _dynamic(by_name, dynamic_names, len(versions))
    return _assemble(
        sections,
        segments=_runner_segments(sections, by_name, exec_stack),
        os_abi=0,
        abi_version=0,
        elf_type=elf_type,
        machine=machine,
        flags=0,
    )


def make_fatbin(*modules: bytes | str, sm: int = 103) -> bytes:
    """An uncompressed fatbin container of cubins (bytes) and PTX texts (strings)."""
    entries = b""
    for module in modules:
        payload = module.encode() + b"\0" if isinstance(module, str) else module
        payload += bytes(-len(payload) % 8)
        kind = 1 if isinstance(module, str) else 2
        entries += struct.pack(
            "<HHIQIIHHIIIQQQ", kind, 0x101, 64, len(payload), 0, 0, 1, 1, sm, 0, 0, 0x11, 0, 0
        )
        entries += payload
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(entries)) + entries


def _undefined(entry: Undefined | str) -> Undefined:
    if isinstance(entry, Undefined):
        return entry
    name, _, version = entry.partition("@")
    return Undefined(name, version or None)


def _gnu_note(note_type: int, description: bytes) -> bytes:
    return struct.pack("<III", 4, len(description), note_type) + b"GNU\0" + description


def _rodata(table: Sequence[tuple[str, str]], strings: Sequence[str]) -> bytes:
    content = bytearray(b"\1\0\2\0" + bytes(4))
    for text in (*strings, *(part for pair in table for part in pair)):
        content += text.encode() + b"\0"
        # Compilers align strings that are long enough for vector loads.
        content += bytes(-len(content) % 8)
    return bytes(content)


def _version_needs(
    versions: Mapping[str, Sequence[str]], ids: Mapping[str, int], names: _Strings
) -> bytes:
    content = b""
    for number, (library, listed) in enumerate(versions.items(), 1):
        size = 16 + 16 * len(listed)
        following = 0 if number == len(versions) else size
        content += struct.pack("<HHIII", 1, len(listed), names.add(library), 16, following)
        for position, version in enumerate(listed, 1):
            following = 0 if position == len(listed) else 16
            content += struct.pack(
                "<IHHII", _sysv_hash(version), 0, ids[version], names.add(version), following
            )
    return content


def _sysv_hash(name: str) -> int:
    value = 0
    for byte in name.encode():
        value = (value << 4) + byte
        high = value & 0xF0000000
        value = (value ^ high >> 24) & ~high
    return value


def _dynamic(
    by_name: Mapping[str, _Section], names: Sequence[tuple[int, int]], version_count: int
) -> bytes:
    entries = [
        *names,
        (4, by_name[".hash"].address),
        (5, by_name[".dynstr"].address),
        (6, by_name[".dynsym"].address),
        (10, len(by_name[".dynstr"].content)),
        (11, 24),
        (3, by_name[".got.plt"].address),
        (2, len(by_name[".rela.plt"].content)),
        (20, 7),
        (23, by_name[".rela.plt"].address),
    ]
    if ".rela.dyn" in by_name:
        relocations = by_name[".rela.dyn"]
        entries += [(7, relocations.address), (8, len(relocations.content)), (9, 24)]
    if version_count:
        entries += [
            (0x6FFFFFFE, by_name[".gnu.version_r"].address),
            (0x6FFFFFFF, version_count),
            (0x6FFFFFF0, by_name[".gnu.version"].address),
        ]
    content = b"".join(struct.pack("<QQ", tag, value) for tag, value in entries)
    return content.ljust(len(by_name[".dynamic"].content), b"\0")


def _runner_segments(
    sections: Sequence[_Section], by_name: Mapping[str, _Section], exec_stack: bool | None
) -> list[bytes]:
    def covering(kind: int, flags: int, parts: Sequence[_Section], align: int) -> bytes:
        start = parts[0].offset
        size = parts[-1].offset + len(parts[-1].content) - start
        return struct.pack("<IIQQQQQQ", kind, flags, start, start, start, size, size, align)

    loaded = [section for section in sections if section.flags & 2]
    split = [
        [section.name for section in loaded].index(n) for n in (".text", ".rodata", ".dynamic")
    ]
    headers = _Section("", type=0)
    segments = [
        covering(1, 4, [headers, *loaded[: split[0]]], PAGE),
        covering(1, 5, loaded[split[0] : split[1]], PAGE),
        covering(1, 4, loaded[split[1] : split[2]], PAGE),
        covering(1, 6, loaded[split[2] :], PAGE),
        covering(2, 6, [by_name[".dynamic"]], 8),
    ]
    if ".note.gnu.build-id" in by_name:
        segments.append(covering(4, 4, [by_name[".note.gnu.build-id"]], 4))
    if exec_stack is not None:
        segments.append(struct.pack("<IIQQQQQQ", 0x6474E551, 7 if exec_stack else 6, *[0] * 5, 16))
    return segments


# --- files -----------------------------------------------------------------------------------


def _header(
    *,
    os_abi: int,
    abi_version: int,
    elf_type: int,
    machine: int,
    flags: int,
    version: int = 1,
    section_offset: int = 0,
    section_count: int = 0,
    segment_count: int = 0,
) -> bytes:
    return _HEADER.pack(
        b"\x7fELF", 2, 1, 1, os_abi, abi_version, elf_type, machine, version, 0,
        64 if segment_count else 0, section_offset, flags, 64, 56, segment_count, 64,
        section_count, max(0, section_count - 1),
    )  # fmt: skip


def _place(sections: Sequence[_Section], position: int) -> None:
    """Give every section its offset; what is loaded gets the offset as its address."""
    for section in sections:
        position += -position % section.align
        section.offset = position
        section.address = position if section.flags & 2 else 0
        position += len(section.content)


def _assemble(sections: list[_Section], segments: Sequence[bytes] = (), **identity: int) -> bytes:
    """The file: header, program headers, contents, section table."""
    names = _Strings()
    offsets = [names.add(section.name) for section in sections]
    offsets.append(names.add(".shstrtab"))
    sections = [*sections, _Section(".shstrtab", bytes(names.content), type=3)]
    if not segments:
        _place(sections, 64)
        for section in sections:
            section.address = 0
    else:
        last = sections[-2]
        sections[-1].offset = last.offset + len(last.content)
    index = {section.name: number for number, section in enumerate(sections, 1)}
    data = bytearray(b"".join(segments)).rjust(64 + 56 * len(segments), b"\0")
    rows = bytes(64)
    for section, name in zip(sections, offsets, strict=True):
        data += bytes(section.offset - len(data)) + section.content
        rows += struct.pack(
            "<IIQQQQIIQQ", name, section.type, section.flags, section.address, section.offset,
            section.reserved or len(section.content), index.get(section.link, 0), section.info,
            section.align, section.entry_size,
        )  # fmt: skip
    data += bytes(-len(data) % 8)
    data[:64] = _header(
        section_offset=len(data),
        section_count=len(sections) + 1,
        segment_count=len(segments),
        **identity,
    )
    return bytes(data + rows)
