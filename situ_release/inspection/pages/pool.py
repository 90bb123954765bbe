"""A metadata header and pools, for people."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from situ_release.inspection.facts.header import HeaderFacts, HeaderSummary
from situ_release.inspection.facts.pool import PoolFacts
from situ_release.inspection.pages.cubin import census_sections
from situ_release.inspection.pages.page import (
    Block,
    Note,
    Page,
    Section,
    count_text,
    fields,
    items,
    page,
    section,
    table,
)
from situ_release.inspection.pages.runner import census_blocks
from situ_release.text import size_text

_LISTED = 3


def header_page(path: Path, facts: HeaderFacts) -> Page:
    """Everything about a metadata header."""
    summary = facts.summary
    return page(
        f"Metadata header of {count_text(summary.census.count, 'kernel')}",
        section("", fields(("file", str(path)), *_header_rows(summary)), *_header_notes(summary)),
        *_header_sections(summary),
    )


def pools_page(path: Path, pools: tuple[PoolFacts, ...]) -> Page:
    """Everything about the pools in one place."""
    if len(pools) == 1:
        return page(f"Pool {pools[0].name}", *_pool_sections(pools[0]))
    return page(
        f"{len(pools)} pools in {path}",
        section(
            "",
            table(
                ("pool", "cubins", "bytes"),
                ((pool.name, pool.cubins.count, pool.cubins.bytes) for pool in pools),
            ),
        ),
        *(part for pool in pools for part in _pool_sections(pool, f"Pool {pool.name}")),
    )


def _pool_sections(pool: PoolFacts, title: str = "") -> Iterator[Section]:
    yield section(
        title,
        fields(
            ("folder", pool.where),
            ("config.json", pool.config_sha256),
            ("other files", len(pool.other_files)),
        ),
        *_pool_notes(pool),
        table(("not read", "because it is"), pool.refused.items()),
    )
    yield from census_sections(pool.cubins, extremes=True)
    if pool.header is not None:
        yield section(
            f"Metadata header: {count_text(pool.header.census.count, 'kernel')}",
            fields(("file", pool.header_path), *_header_rows(pool.header)),
            *_header_notes(pool.header),
        )
        yield from _header_sections(pool.header)
    yield section("Do they agree?", *_agreement(pool))


def _header_rows(summary: HeaderSummary) -> Iterator[tuple[str, object]]:
    yield "size", size_text(summary.size)
    yield "SHA-256", summary.sha256
    yield "C++ list", summary.list_name
    yield "format", summary.export_version or "version not stated"
    yield "SM", [f"{count:,} {sm}" for sm, count in summary.sms]


def _header_notes(summary: HeaderSummary) -> Iterator[Block]:
    if summary.disagreements:
        found = count_text(len(summary.disagreements), "kernel", "kernels")
        yield Note("warn", f"the options of {found} contradict the name")
        yield items(summary.disagreements)
    elif summary.disagreements is not None:
        yield Note("note", f"options and names agree for all {summary.with_options:,}")
    if not summary.with_options:
        yield Note("note", "its entries hold no generator options that this tool can read")


def _header_sections(summary: HeaderSummary) -> Iterator[Section]:
    yield section("Families", *census_blocks(summary.census))


def _pool_notes(pool: PoolFacts) -> Iterator[Block]:
    if pool.recovered_from:
        yield Note("warn", f"not an original: recovered from {pool.recovered_from}")
    if pool.header_path is None:
        yield Note("note", "it has no metadata header: which kernels are in it, only files say")
    if pool.checksums is None:
        yield Note("note", "it has no readable checksums.txt")
    for problem in pool.problems:
        yield Note("warn", str(problem))


def _agreement(pool: PoolFacts) -> Iterator[Block]:
    """Header, checksums and files against each other, in one sentence each."""
    agreement, stated = pool.agreement, pool.checksums
    if agreement is not None:
        if not agreement.wrong and not agreement.missing:
            text = "every kernel of the header has its cubin, with the digest that it states"
            yield Note("note", f"{text} ({agreement.matching:,})")
        yield from _listed(
            agreement.wrong, "kernel", "whose cubin has another digest than the header states"
        )
        yield from _listed(agreement.missing, "kernel", "of the header without a cubin")
        yield from _listed(agreement.unlisted, "cubin", "that the header does not name")
    if stated is not None:
        if not stated.wrong and not stated.missing:
            text = "every line of checksums.txt is true"
            yield Note("note", f"{text} ({stated.count:,})")
        yield from _listed(stated.wrong, "file", "with another digest than checksums.txt states")
        yield from _listed(stated.missing, "line", "of checksums.txt without a file")
        yield from _listed(stated.unlisted, "file", "that checksums.txt does not list")


def _listed(names: tuple[str, ...], noun: str, fault: str) -> Iterator[Block]:
    if names:
        yield Note("warn", f"{count_text(len(names), noun)} {fault}:")
        yield items((f"  {name}" for name in names), _LISTED)
