"""Facts of one host library: the runner of a bundle, or another with device code inside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from situ_release.digests import sha256_bytes
from situ_release.inspection.facts.cubin import CubinFacts, cubin_facts
from situ_release.inspection.facts.kernels import KernelCensus, kernel_census
from situ_release.sources.content_kind import machine_name
from situ_release.sources.fatbin import DeviceModule
from situ_release.sources.runner import Runner, UndefinedSymbol, read_runner
from situ_release.sources.symbol_versions import VersionDemand


@dataclass(frozen=True, slots=True)
class ModuleFacts:
    """A piece of device code inside, as :class:`situ_release.sources.fatbin.DeviceModule`.

    Attributes:
        size: stored bytes.
        sha256: digest of the stored bytes.
        cubin: what the cubin says; None for another kind and for a compressed one.
    """

    kind: str
    target: str
    container: str
    section: str
    offset: int
    size: int
    compressed: bool
    sha256: str
    device_code_sha256: str | None
    cubin: CubinFacts | None


@dataclass(frozen=True, slots=True)
class TableFacts:
    """The kernel table compiled into the library.

    Attributes:
        sha256: see :attr:`situ_release.sources.kernel_table.KernelTable.sha256`.
        kernels: ``(name, SHA-256 of its cubin)`` in table order.
    """

    count: int
    sha256: str
    census: KernelCensus
    kernels: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class RunnerFacts:
    """What a host library says about itself, see :class:`situ_release.sources.runner.Runner`.

    Attributes:
        machine: "x86-64", "AArch64", …
        size: bytes.
        exports: sorted.
        kernel_table: None where the library has none.
    """

    machine: str
    size: int
    sha256: str
    elf_type: int
    soname: str | None
    needed: tuple[str, ...]
    rpath: str | None
    runpath: str | None
    executable_stack: bool
    minimum_versions: Mapping[str, str]
    version_demands: tuple[VersionDemand, ...]
    build_id: str | None
    compilers: tuple[str, ...]
    stripped: bool
    ffi_exports: tuple[str, ...]
    exports: tuple[str, ...]
    undefined: tuple[UndefinedSymbol, ...]
    device_modules: tuple[ModuleFacts, ...]
    kernel_table: TableFacts | None
    embedded_paths: tuple[str, ...]

    @property
    def unversioned(self) -> tuple[UndefinedSymbol, ...]:
        """Undefined symbols that name no library: any that is loaded may define them."""
        return tuple(symbol for symbol in self.undefined if symbol.library is None)


def runner_facts(data: bytes, where: str) -> RunnerFacts:
    """Facts of a host library.

    Raises:
        InputError: not an ELF file, or a damaged one.
    """
    return facts_of(read_runner(data, where), data)


def facts_of(runner: Runner, data: bytes) -> RunnerFacts:
    """Facts of a library that was read already; ``data`` is its content."""
    table = runner.kernel_table
    return RunnerFacts(
        machine=machine_name(runner.machine),
        size=len(data),
        sha256=sha256_bytes(data),
        elf_type=runner.elf_type,
        soname=runner.soname,
        needed=runner.needed,
        rpath=runner.rpath,
        runpath=runner.runpath,
        executable_stack=runner.executable_stack,
        minimum_versions=dict(runner.minimum_versions),
        version_demands=runner.version_demands,
        build_id=runner.build_id,
        compilers=runner.compilers,
        stripped=runner.stripped,
        ffi_exports=tuple(sorted(runner.ffi_exports)),
        exports=tuple(sorted(runner.exports)),
        undefined=runner.undefined,
        device_modules=tuple(map(_module, runner.device_modules)),
        kernel_table=TableFacts(
            table.count, table.sha256, kernel_census(name for name, _ in table.pairs), table.pairs
        )
        if table.count
        else None,
        embedded_paths=runner.embedded_paths,
    )


def _module(module: DeviceModule) -> ModuleFacts:
    cubin = None
    if module.device_code_sha256 is not None:
        cubin = cubin_facts(module.payload, f"cubin image at {module.offset:#x}")
    return ModuleFacts(
        kind=module.kind,
        target=module.target,
        container=module.container,
        section=module.section,
        offset=module.offset,
        size=len(module.payload),
        compressed=module.compressed,
        sha256=module.payload_sha256,
        device_code_sha256=module.device_code_sha256,
        cubin=cubin,
    )
