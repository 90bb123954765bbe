"""A host library, for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from situ_release.inspection.facts.kernels import KernelCensus
from situ_release.inspection.facts.runner import ModuleFacts, RunnerFacts
from situ_release.inspection.pages.cubin import kernel_table, paths_section
from situ_release.inspection.pages.page import (
    Block,
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
from situ_release.sources.elf import ET_DYN
from situ_release.sources.symbol_versions import TRACKED
from situ_release.text import size_text

_FEW = 3
_GROUPS = 8
_PREFIXES = ("TVMFFI", "cuda", "cu")


def runner_page(path: Path, facts: RunnerFacts) -> Page:
    """Everything about one host library."""
    return page(
        f"Host library for {facts.machine}",
        section("", fields(("file", str(path)), *identity_rows(facts)), *peculiarities(facts)),
        *runner_sections(facts),
        paths_section(facts.embedded_paths),
    )


def identity_rows(facts: RunnerFacts) -> Iterator[tuple[str, object]]:
    """What tells this library from another."""
    yield "size", size_text(facts.size)
    yield "SHA-256", facts.sha256
    yield "build id", facts.build_id
    yield "soname", facts.soname
    yield "compiled by", facts.compilers
    yield "symbols", "stripped" if facts.stripped else "full symbol table"


def runner_sections(facts: RunnerFacts) -> Iterator[Section]:
    """What it needs, offers and holds."""
    yield section("Needs", needed_table(facts), *_unversioned(facts))
    yield section("Oldest host it can be opened on", versions_table(facts))
    yield section("Entry points", items(facts.ffi_exports), _c_functions(facts))
    yield from device_sections(facts)
    yield from kernel_table_sections(facts)


def needed_table(facts: RunnerFacts) -> Table:
    """The libraries it needs and how many symbols it takes from each by version."""
    taken = Counter(symbol.library for symbol in facts.undefined)
    return table(
        ("library", "versioned symbols"), ((name, taken[name]) for name in facts.needed), _GROUPS
    )


def versions_table(facts: RunnerFacts) -> Table:
    """Minimum versions and the symbols that demand them."""
    rows = []
    for name in TRACKED:
        if name not in facts.minimum_versions:
            continue
        number = facts.minimum_versions[name]
        symbols = [
            symbol
            for demand in facts.version_demands
            if demand.version == f"{name}_{number}"
            for symbol in demand.symbols
        ]
        shown = ", ".join(symbols[:_FEW])
        more = f" and {len(symbols) - _FEW} more" if len(symbols) > _FEW else ""
        rows.append((name, number, shown + more or "only its version table"))
    return table(("", "at least", "because of"), rows)


def device_sections(facts: RunnerFacts) -> Iterator[Section]:
    """The device code inside, and the kernels of what is not compressed."""
    modules = facts.device_modules
    groups: dict[tuple[str, str, str], list[ModuleFacts]] = {}
    for module in modules:
        place = f"{module.container} in {module.section}" if module.section else module.container
        groups.setdefault((module.target, module.kind, place), []).append(module)
    rows = [
        (target, kind, len(found), sum(module.size for module in found), _packed(found), place)
        for (target, kind, place), found in groups.items()
    ]
    yield section(
        "Device code inside",
        table(("target", "kind", "modules", "bytes", "compressed", "where"), rows),
        Note("note", "of compressed modules only the target is told, not the kernels")
        if any(module.compressed for module in modules)
        else None,
    )
    kernels = tuple(kernel for m in modules if m.cubin is not None for kernel in m.cubin.kernels)
    yield section("Kernels of the device code inside", kernel_table(kernels))


def kernel_table_sections(facts: RunnerFacts) -> Iterator[Section]:
    """The kernels it may ask for."""
    compiled = facts.kernel_table
    if compiled is not None:
        yield section(
            f"Kernel table: {count_text(compiled.count, 'kernel')} it may ask for",
            fields(("SHA-256", compiled.sha256)),
            *census_blocks(compiled.census),
        )


def census_blocks(census: KernelCensus) -> Iterator[Block]:
    """Kernels by family, and names that nobody understands."""
    yield table(
        ("kernels", "family", "act.", "SM"),
        (
            (group.count, group.dtypes, group.activation or "none", group.sm)
            for group in census.groups
        ),
        _GROUPS,
    )
    if census.unknown:
        names = count_text(len(census.unknown), "name holds", "names hold")
        yield Note("warn", f"{names} a token that the grammar does not know")
        yield table(("kernel", "token"), ((name.name, name.reason) for name in census.unknown))


def _packed(modules: list[ModuleFacts]) -> str:
    packed = sum(module.compressed for module in modules)
    return "yes" if packed == len(modules) else "no" if packed == 0 else f"{packed}"


def _unversioned(facts: RunnerFacts) -> Iterator[Note]:
    strong = [symbol.name for symbol in facts.unversioned if not symbol.weak]
    if not strong:
        return
    groups: Counter[str] = Counter()
    for name in strong:
        groups[next((f"{p}*" for p in _PREFIXES if name.startswith(p)), "others")] += 1
    shown = ", ".join(f"{count} {group}" for group, count in groups.most_common())
    text = count_text(len(strong), "more symbol names", "more symbols name")
    yield Note(
        "note", f"{text} no library and version; whoever is loaded may define them ({shown})"
    )


def _c_functions(facts: RunnerFacts) -> Block:
    ffi = {f"__tvm_ffi_{name}" for name in facts.ffi_exports}
    plain = [name for name in facts.exports if name not in ffi and not name.startswith("_")]
    more = f" and {len(plain) - _GROUPS} more" if len(plain) > _GROUPS else ""
    return fields(
        ("C functions", ", ".join(plain[:_GROUPS]) + more), ("all exports", len(facts.exports))
    )


def peculiarities(facts: RunnerFacts) -> Iterator[Note]:
    """What is unusual about it or missing, in words."""
    if facts.elf_type != ET_DYN:
        yield Note("warn", f"not a shared object (ELF type {facts.elf_type})")
    if facts.executable_stack:
        yield Note("warn", "it asks for an executable stack")
    for label, value in (("RPATH", facts.rpath), ("RUNPATH", facts.runpath)):
        if value is not None:
            yield Note("warn", f"it looks for its libraries at a fixed place: {label} {value}")
    if not facts.device_modules:
        yield Note("note", "there is no device code in it")
    if facts.kernel_table is None:
        yield Note("note", "there is no table of kernels in it: it asks for no cubins by name")
