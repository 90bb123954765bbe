"""A page: what facts look like to people, before anything knows how wide the terminal is.

Pages are data. :mod:`situ_release.inspection.pages.layout` turns one into lines of text, and only
the command line prints them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Union

Cell = Union[str, int, None]  # noqa: UP007 - evaluated at run time on Python 3.10
"""A table's cell; numbers are aligned right and grouped by thousands."""

Fit = Literal["wrap", "keep"]

SHOWN = 10
"""Rows of a long list that are shown unless all are asked for."""


@dataclass(frozen=True, slots=True)
class Fields:
    """Labels and values, one below the other; rows with an empty value are left out."""

    rows: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Table:
    """Columns under a header.

    Attributes:
        header: a name for each column.
        rows: cells.
        shown: rows that are shown unless all are asked for.
    """

    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    shown: int = SHOWN


@dataclass(frozen=True, slots=True)
class Items:
    """A list of texts, one below the other.

    Attributes:
        entries: the texts.
        shown: entries that are shown unless all are asked for.
        fit: what happens to a text that is longer than a line: it is wrapped, or kept as it is
            (lines of a text, paths to copy).
    """

    entries: tuple[str, ...]
    shown: int = SHOWN
    fit: Fit = "wrap"


@dataclass(frozen=True, slots=True)
class Note:
    """A sentence; ``meaning`` is ``note`` or ``warn``."""

    meaning: str
    text: str


Block = Union[Fields, Table, Items, Note]  # noqa: UP007


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and what stands below it."""

    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Page:
    """The whole answer.

    Attributes:
        title: the first line, which says the most important thing.
        sections: in the order of interest; those without content are left out.
    """

    title: str
    sections: tuple[Section, ...] = field(default=())


def fields(*rows: tuple[str, object]) -> Fields:
    """Labels with values as people read them: yes and no, grouped numbers, lists with commas."""
    return Fields(tuple((label, text) for label, value in rows if (text := value_text(value))))


def table(header: Sequence[str], rows: Iterable[Sequence[Cell]], shown: int = SHOWN) -> Table:
    """A table from any sequences."""
    return Table(tuple(header), tuple(tuple(row) for row in rows), shown)


def items(entries: Iterable[str], shown: int = SHOWN, fit: Fit = "wrap") -> Items:
    """A list from any iterable."""
    return Items(tuple(entries), shown, fit)


def section(title: str, *blocks: Block | None) -> Section:
    """A section of the blocks that have content."""
    return Section(title, tuple(block for block in blocks if block is not None and _filled(block)))


def page(title: str, *sections: Section | None) -> Page:
    """A page of the sections that have content."""
    return Page(title, tuple(part for part in sections if part is not None and part.blocks))


def value_text(value: object) -> str:
    """A value as people read it; "" for None and empty lists."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    return str(value)


def count_text(count: int, singular: str, plural: str = "") -> str:
    """``1 cubin``, ``1,696 cubins``."""
    return f"{count:,} {singular if count == 1 else plural or singular + 's'}"


def _filled(block: Block) -> bool:
    if isinstance(block, (Fields, Table)):
        return bool(block.rows)
    return bool(block.entries) if isinstance(block, Items) else True
