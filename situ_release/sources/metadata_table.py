"""The records of a metadata header, whichever of its C++ forms they were read from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Union

from situ_release.digests import SHA256_HEX
from situ_release.errors import Problem
from situ_release.sources.faults import Faults, shown

Option = Union[int, tuple[int, ...]]  # noqa: UP007 - evaluated at run time on Python 3.10
"""A number, Boolean or enumerator as an integer; a brace list as a tuple."""

_FIELD_AND_VALUE = re.compile(r"/\* (m\w+) \*/ (\{[^}]*\}|[^\s,]+)")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class MetadataEntry:
    """One kernel of the table.

    Attributes:
        name: the kernel's name, as the runner asks for it.
        sha256: digest of its cubin.
        sm: target architecture, like ``sm100f``.
        shared_memory_bytes: dynamic shared memory of a launch; None where not known.
        threads: threads per CTA; None where not known.
        option_text: the generator's options as C++ text; None where not known.
        line: line of the header it begins on, 0 for an entry that is yet to be written.
    """

    name: str
    sha256: str
    sm: str
    shared_memory_bytes: int | None = None
    threads: int | None = None
    option_text: str | None = field(default=None, repr=False)
    line: int = field(default=0, compare=False)

    @property
    def options(self) -> Mapping[str, Option] | None:
        """The generator's options by field name, decoded at each call; None where not known."""
        if self.option_text is None:
            return None
        return {name: _value(text) for name, text in _FIELD_AND_VALUE.findall(self.option_text)}


@dataclass(frozen=True, slots=True)
class MetadataHeader:
    """The whole table.

    Attributes:
        where: the file it was read from, for messages.
        sha256: digest of the header itself.
        list_name: stem of the list's C++ name.
        export_version: version of the generator's export format, None where not stated.
        declared_length: the stated number of entries, equal to ``len(entries)``; None where the
            form of the header has no such statement.
        entries: in file order, which is the order of the runner's table.
    """

    where: str
    sha256: str
    list_name: str
    export_version: str | None
    declared_length: int | None
    entries: tuple[MetadataEntry, ...] = field(repr=False)
    by_name: Mapping[str, MetadataEntry] = field(repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.entries)

    def find(self, name: str) -> MetadataEntry | None:
        """The entry of exactly this kernel name, or None."""
        return self.by_name.get(name)

    def place(self, entry: MetadataEntry) -> str:
        """Where an entry stands, as ``include/flashinferMetaInfo.h:7``."""
        return f"{self.where}:{entry.line}"


def index_entries(
    entries: Iterable[MetadataEntry], where: str, faults: Faults
) -> dict[str, MetadataEntry]:
    """Entries by name; a name twice, and names and digests that are none, are faults."""
    by_name: dict[str, MetadataEntry] = {}
    for entry in entries:
        place = f"{where}:{entry.line}"
        if _NAME.fullmatch(entry.name) is None:
            faults.add(
                header_problem("bad kernel name", place, "an identifier", repr(shown(entry.name)))
            )
        if SHA256_HEX.fullmatch(entry.sha256) is None:
            found = f"{shown(entry.sha256, 80)!r} for {shown(entry.name)}"
            faults.add(
                header_problem("bad digest", place, "64 lower-case hexadecimal digits", found)
            )
        first = by_name.setdefault(entry.name, entry)
        if first is not entry:
            found = f"{shown(entry.name)}, already on line {first.line}"
            faults.add(header_problem("kernel listed twice", place, "each kernel once", found))
    return by_name


def header_problem(what: str, where: str, expected: str, found: str) -> Problem:
    """A problem of a metadata header, with what to do about it."""
    remedy = "take the metadata header unchanged from where the pool came from"
    return Problem(what, where, expected, found, remedy)


@lru_cache(maxsize=1024)  # a header holds hundreds of thousands of values, few of them distinct
def _value(text: str) -> Option:
    """``gemm::BiasType(1)`` as 1, ``-1`` as -1, ``{A(1), 2}`` as (1, 2)."""
    if text.startswith("{"):
        inner = text[1:-1]
        return tuple(_integer(part) for part in inner.split(", ")) if inner else ()
    return _integer(text)


def _integer(text: str) -> int:
    return int(text.rpartition("(")[2].removesuffix(")"))
