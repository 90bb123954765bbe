"""A cubin, for people; and the tables of many."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from situ_release.inspection.facts.census import Census, CubinFile, UnreadableFile
from situ_release.inspection.facts.cubin import CubinFacts
from situ_release.inspection.pages.page import (
    Block,
    Items,
    Note,
    Page,
    Section,
    Table,
    count_text,
    fields,
    items,
    page,
    section,
    table,
)
from situ_release.sources.cubin import CubinKernel
from situ_release.sources.kernel_name import KernelName
from situ_release.text import size_text

_TOP = 3
_PATHS = 5


def cubin_page(path: Path, facts: CubinFacts) -> Page:
    """Everything about one cubin."""
    name = facts.kernel_name
    return page(
        f"Cubin for {facts.target}",
        section(
            "",
            fields(
                ("file", str(path)),
                ("size", size_text(facts.size)),
                ("SHA-256", facts.sha256),
                ("device code", facts.device_code_sha256),
                ("runs on", runs_on_text(facts.sm, facts.arch_specific)),
                *_toolchain_rows(facts),
                ("line info", "yes" if facts.has_line_info else "none"),
            ),
            *_missing(facts),
        ),
        section("Kernels", kernel_table(facts.kernels)),
        section("What the name says", _name_fields(name)) if name else None,
        paths_section(facts.embedded_paths),
    )


def runs_on_text(sm: int, arch_specific: bool | None) -> str:
    """The devices that a cubin runs on, in words."""
    device = f"SM {sm // 10}.{sm % 10}"
    if arch_specific:
        return f"{device} only (architecture-specific)"
    if arch_specific is None:
        return f"{device}; whether on others too, the file does not say"
    return f"{device} and later devices of major {sm // 10}"


def kernel_table(kernels: tuple[CubinKernel, ...]) -> Table:
    """Kernels with what one block of each takes, the hungriest first."""
    return table(
        ("kernel", "registers", "shared", "threads"),
        (
            (kernel.name, kernel.registers, kernel.shared_memory_bytes, kernel.max_threads)
            for kernel in sorted(kernels, key=lambda kernel: -(kernel.registers or 0))
        ),
    )


def paths_section(paths: tuple[str, ...]) -> Section:
    """Absolute build paths in a file: only ``inspect`` shows them."""
    return section(f"Paths of the build host inside: {len(paths):,}", items(paths, _PATHS))


def census_sections(census: Census, *, extremes: bool) -> Iterator[Section]:
    """Cubins by SM and toolchain, what cannot be read, and with ``extremes`` the largest."""
    yield section(
        f"Cubins: {census.count:,}, {size_text(census.bytes)}",
        table(
            ("SM", "architecture-specific", "cubins", "bytes"),
            (
                (group.target, _said(group.arch_specific), group.count, group.bytes)
                for group in census.targets
            ),
        ),
        *_census_notes(census),
    )
    yield section("Toolchains", toolchain_table(census))
    yield section("Not readable as cubins", unreadable_items(census.unreadable))
    if extremes and len(census.cubins) > _TOP:
        largest, hungriest = census.largest[:_TOP], census.hungriest[:_TOP]
        yield section(
            "Largest, in bytes",
            fields(*((f"{file.cubin.size:,}", _base(file)) for file in largest)),
        )
        yield section(
            "Most registers per thread",
            fields(*((f"{file.cubin.most_registers}", _base(file)) for file in hungriest)),
        )


def toolchain_table(census: Census) -> Table:
    """Cubins by the tool that wrote them."""
    return table(
        ("cubins", "producer", "version", "options"),
        (
            (group.count, group.producer or "not named", group.version, group.options)
            for group in census.toolchains
        ),
    )


def unreadable_items(files: tuple[UnreadableFile, ...]) -> Items:
    """Files that are named like binaries and are none."""
    return items(f"{file.path}: {file.found}" for file in files)


def _census_notes(census: Census) -> Iterator[Note]:
    if census.with_paths:
        holding = count_text(census.with_paths, "cubin holds", "cubins hold")
        yield Note("warn", f"{holding} paths of the build host")
    if census.line_info:
        yield Note("note", f"{count_text(census.line_info, 'cubin')} compiled with line info")


def _base(file: CubinFile) -> str:
    return file.path.rpartition("/")[2]


def _said(value: bool | None) -> str:
    return "not said" if value is None else "yes" if value else "no"


def _toolchain_rows(facts: CubinFacts) -> Iterator[tuple[str, object]]:
    made = facts.toolchain
    if made is not None:
        yield "made by", f"{made.producer} {made.version}".strip()
        yield "options", made.options
    yield "CUDA toolkit", facts.toolkit


def _missing(facts: CubinFacts) -> Iterator[Block]:
    if not facts.kernels:
        yield Note("warn", "there is no kernel in it")
    if facts.toolchain is None:
        yield Note("note", "it does not name the tool that wrote it")


def _name_fields(name: KernelName) -> Block:
    cast = f", computed as {name.cast}" if name.cast else ""
    return fields(
        ("weights", f"{name.dtype_a}{_blocks(name.sf_block_a)}{cast}"),
        ("activations", f"{name.dtype_b}{_blocks(name.sf_block_b)}"),
        ("output", f"{name.dtype_c}{_blocks(name.sf_block_c)}"),
        ("accumulator", name.dtype_acc),
        ("gated act.", name.gated_act or "none"),
        ("tile", "x".join(map(str, name.tile))),
        ("MMA", "x".join(map(str, name.mma))),
        ("cluster", "x".join(map(str, name.cluster))),
        ("split K", name.split_k if name.split_k > 1 else None),
        ("stages", "x".join(map(str, name.stages))),
        ("scheduler", "persistent" if name.persistent else "static"),
        ("routing", name.routing or "input already permuted"),
        ("target", name.sm),
    )


def _blocks(size: int | None) -> str:
    return f", one scale per {size}" if size else ""
