"""What a runner library says about itself, without loading it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from situ_release.sources.content_kind import machine_name
from situ_release.sources.dynamic import Dynamic, read_dynamic
from situ_release.sources.elf import (
    EM_X86_64,
    ET_DYN,
    PF_X,
    PT_GNU_STACK,
    PT_NOTE,
    STB_WEAK,
    STT_FUNC,
    STT_GNU_IFUNC,
    STT_OBJECT,
    STT_TLS,
    Elf,
    Symbol,
    parse_notes,
    read_elf,
)
from situ_release.sources.embedded_paths import find_paths, mask_paths
from situ_release.sources.fatbin import (
    FATBIN_SECTIONS,
    DeviceModule,
    data_blocks,
    device_modules,
)
from situ_release.sources.kernel_table import KernelTable, find_kernel_table
from situ_release.sources.symbol_versions import VersionDemand, minimum_versions

FFI_PREFIX = "__tvm_ffi_"

_BUILD_ID = 3  # NT_GNU_BUILD_ID
_HIDDEN = (1, 2)  # internal and hidden visibility


@dataclass(frozen=True, slots=True)
class UndefinedSymbol:
    """A symbol that the runner takes from elsewhere.

    Attributes:
        name: the symbol.
        version: the version it must have ("GLIBC_2.38"); ``None`` for an unversioned one.
        library: the needed library that must define that version; ``None`` without one.
        weak: the loader accepts that nobody defines it.
        kind: "function", looked up at its first call, or "object", looked up when the runner is
            loaded. A missing function therefore shows as late as in that call.
    """

    name: str
    version: str | None
    library: str | None
    weak: bool
    kind: str


@dataclass(frozen=True, slots=True)
class Runner:
    """A compiled runner library.

    Attributes:
        machine: ``e_machine`` (62 is x86-64).
        elf_type: ``e_type`` (3 is a shared object).
        needed: NEEDED libraries, in order.
        soname: DT_SONAME.
        rpath: DT_RPATH.
        runpath: DT_RUNPATH.
        executable_stack: it asks for one, or omits to say that it needs none.
        minimum_versions: highest needed GLIBC, GLIBCXX and CXXABI, as "2.38".
        version_demands: every needed symbol version and the symbols that need it.
        exports: defined symbols that others can use.
        ffi_exports: of these the entry points, without their prefix ``__tvm_ffi_``.
        undefined: symbols taken from elsewhere, in symbol table order.
        build_id: GNU build id, hexadecimal.
        compilers: what the compilers wrote into ``.comment``, in order, each once.
        stripped: whether it has no full symbol table.
        device_modules: embedded device code, in file order.
        kernel_table: the kernels it may ask for.
        embedded_paths: absolute build paths in its data, sorted.
    """

    machine: int
    elf_type: int
    needed: tuple[str, ...]
    soname: str | None
    rpath: str | None
    runpath: str | None
    executable_stack: bool
    minimum_versions: Mapping[str, str]
    version_demands: tuple[VersionDemand, ...] = field(repr=False)
    exports: frozenset[str] = field(repr=False)
    ffi_exports: frozenset[str]
    undefined: tuple[UndefinedSymbol, ...] = field(repr=False)
    build_id: str | None
    compilers: tuple[str, ...]
    stripped: bool
    device_modules: tuple[DeviceModule, ...]
    kernel_table: KernelTable
    embedded_paths: tuple[str, ...] = field(repr=False)

    @property
    def is_x86_64_shared_object(self) -> bool:
        """Whether the wheel's platform can load a file of this kind at all."""
        return self.machine == EM_X86_64 and self.elf_type == ET_DYN

    @property
    def machine_name(self) -> str:
        """The machine in words ("x86-64")."""
        return machine_name(self.machine)

    @property
    def unprovided(self) -> tuple[UndefinedSymbol, ...]:
        """Undefined symbols for which the file itself names no provider.

        They carry no version and are not weak: symbols of a library without versions (libcuda), of
        the process that loads the runner (``TVMFFI…``), or of nobody.
        """
        return tuple(
            symbol for symbol in self.undefined if symbol.version is None and not symbol.weak
        )

    def masked_paths(self) -> tuple[str, ...]:
        """The embedded paths with user names replaced, fit for other people's eyes."""
        return mask_paths(self.embedded_paths)


def read_runner(data: bytes, where: str) -> Runner:
    """Read a runner library.

    A file of another kind (an executable, a library for another machine) is read as far as it goes;
    ask :attr:`Runner.is_x86_64_shared_object`.

    Args:
        data: the whole file.
        where: the name used in errors.

    Raises:
        InputError: not an ELF file (the problem's ``found`` says what it is instead), a damaged
            one, or a kernel table that contradicts itself.
    """
    elf = read_elf(data, where)
    dynamic = read_dynamic(elf)
    undefined = _undefined(dynamic)
    exports = frozenset(symbol.name for symbol in dynamic.symbols if _is_exported(symbol))
    blocks = [
        data[offset : offset + size]
        for section, offset, size in data_blocks(elf)
        if section not in FATBIN_SECTIONS
    ]
    return Runner(
        machine=elf.machine,
        elf_type=elf.type,
        needed=dynamic.needed,
        soname=dynamic.soname,
        rpath=dynamic.rpath,
        runpath=dynamic.runpath,
        executable_stack=_executable_stack(elf),
        minimum_versions=minimum_versions(need.version for need in dynamic.version_needs.values()),
        version_demands=_version_demands(dynamic, undefined),
        exports=exports,
        ffi_exports=frozenset(
            name[len(FFI_PREFIX) :] for name in exports if name.startswith(FFI_PREFIX)
        ),
        undefined=undefined,
        build_id=_build_id(elf),
        compilers=_compilers(elf.content_of(".comment")),
        stripped=elf.section(".symtab") is None,
        device_modules=device_modules(elf),
        kernel_table=find_kernel_table(blocks, where),
        embedded_paths=find_paths(blocks),
    )


def _is_exported(symbol: Symbol) -> bool:
    return bool(symbol.section and symbol.binding and symbol.other & 3 not in _HIDDEN)


def _undefined(dynamic: Dynamic) -> tuple[UndefinedSymbol, ...]:
    symbols = []
    for symbol in dynamic.symbols:
        if symbol.section or not symbol.name:
            continue
        need = dynamic.version_need(symbol)
        symbols.append(
            UndefinedSymbol(
                name=symbol.name,
                version=None if need is None else need.version,
                library=None if need is None else need.library,
                weak=symbol.binding == STB_WEAK,
                kind=_kind(symbol, dynamic),
            )
        )
    return tuple(symbols)


def _kind(symbol: Symbol, dynamic: Dynamic) -> str:
    # Linkers leave the type of an undefined symbol open; how it is bound tells.
    if symbol.type in (STT_FUNC, STT_GNU_IFUNC):
        return "function"
    if symbol.type in (STT_OBJECT, STT_TLS):
        return "object"
    return "function" if symbol.row in dynamic.lazily_bound else "object"


def _version_demands(
    dynamic: Dynamic, undefined: tuple[UndefinedSymbol, ...]
) -> tuple[VersionDemand, ...]:
    symbols: dict[tuple[str, str], list[str]] = {
        (need.library, need.version): [] for need in dynamic.version_needs.values()
    }
    for symbol in undefined:
        if symbol.library is not None and symbol.version is not None:
            symbols[symbol.library, symbol.version].append(symbol.name)
    return tuple(
        VersionDemand(version, library, tuple(sorted(names)))
        for (library, version), names in sorted(symbols.items())
    )


def _executable_stack(elf: Elf) -> bool:
    for segment in elf.segments:
        if segment.type == PT_GNU_STACK:
            return bool(segment.flags & PF_X)
    return True  # what the loader assumes


def _build_id(elf: Elf) -> str | None:
    for segment in elf.segments:
        if segment.type != PT_NOTE:
            continue
        notes = bytes(elf.data[segment.offset : segment.offset + segment.file_size])
        for owner, note_type, description in parse_notes(notes):
            if (owner, note_type) == ("GNU", _BUILD_ID):
                return description.hex()
    return None


def _compilers(comment: bytes) -> tuple[str, ...]:
    texts = (text.decode("utf-8", "backslashreplace") for text in comment.split(b"\0") if text)
    return tuple(dict.fromkeys(texts))
