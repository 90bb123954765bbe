"""Facts of a metadata header, whatever generator's table it holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from situ_release.errors import InputError
from situ_release.inspection.facts.kernels import KernelCensus, kernel_census
from situ_release.sources.kernel_name import parse
from situ_release.sources.kernel_options import check_options
from situ_release.sources.metadata_header import (
    LIST_NAME,
    MetadataEntry,
    MetadataHeader,
    Option,
    read_header,
)


@dataclass(frozen=True, slots=True)
class HeaderSummary:
    """A metadata header without its entries.

    Attributes:
        size: bytes.
        list_name: stem of the C++ list's name.
        export_version: version of the generator's export format; None where not stated.
        declared_length: stated number of entries; None where that form states none.
        sms: entries by SM, the largest groups first.
        census: kernels by family.
        with_options: entries that hold the generator's options.
        disagreements: kernels whose options contradict their name; None where that cannot be told,
            because no rules are known for this generator's names or no entry has options.
    """

    size: int
    sha256: str
    list_name: str
    export_version: str | None
    declared_length: int | None
    sms: tuple[tuple[str, int], ...]
    census: KernelCensus
    with_options: int
    disagreements: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class HeaderEntry:
    """One kernel, see :class:`situ_release.sources.metadata_table.MetadataEntry`."""

    name: str
    sha256: str
    sm: str
    shared_memory_bytes: int | None
    threads: int | None
    options: Mapping[str, Option] | None


@dataclass(frozen=True, slots=True)
class HeaderFacts:
    """A metadata header with all of its entries, in its order."""

    summary: HeaderSummary
    entries: tuple[HeaderEntry, ...]


def header_facts(data: bytes, where: str) -> HeaderFacts:
    """Facts of a metadata header.

    Raises:
        InputError: it is none, or a malformed one.
    """
    header = read_header(data, where)
    entries = tuple(
        HeaderEntry(
            entry.name,
            entry.sha256,
            entry.sm,
            entry.shared_memory_bytes,
            entry.threads,
            entry.options,
        )
        for entry in header.entries
    )
    return HeaderFacts(header_summary(header, len(data)), entries)


def header_summary(header: MetadataHeader, size: int) -> HeaderSummary:
    """The summary of a header of ``size`` bytes that was read already."""
    sms = Counter(entry.sm for entry in header.entries)
    with_options = sum(entry.option_text is not None for entry in header.entries)
    checkable = header.list_name == LIST_NAME and with_options
    return HeaderSummary(
        size=size,
        sha256=header.sha256,
        list_name=header.list_name,
        export_version=header.export_version,
        declared_length=header.declared_length,
        sms=tuple(sms.most_common()),
        census=kernel_census(entry.name for entry in header.entries),
        with_options=with_options,
        disagreements=tuple(e.name for e in header.entries if _disagrees(e, header.place(e)))
        if checkable
        else None,
    )


def _disagrees(entry: MetadataEntry, place: str) -> bool:
    try:
        return bool(check_options(entry, parse(entry.name), place))
    except InputError:
        return False  # the census lists the name as unknown
