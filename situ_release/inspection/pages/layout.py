"""A page as lines of text for a terminal of a given width.

Nothing here prints. All text is made printable, because most of it comes out of files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from situ_release.inspection.pages.page import (
    Block,
    Cell,
    Fields,
    Items,
    Note,
    Page,
    Table,
)
from situ_release.text import printable

NARROWEST = 40

_INDENT = "  "
_GAP = "  "
_LABEL = 12  # with indent and gap a SHA-256 ends in column 80
_CUT = "…"
_BREAKS = ("/-", "_,")  # the better ones first
_SPARED = 20  # a column is not cut below this


@dataclass(frozen=True, slots=True)
class Line:
    """One line: a coloured mark, then text in the colour of ``meaning`` ("" for none)."""

    text: str
    meaning: str = ""
    mark: str = ""
    mark_meaning: str = ""


def lay_out(page: Page, width: int, *, everything: bool = False) -> Iterator[Line]:
    """The page's lines.

    Args:
        page: what to show.
        width: columns of the terminal.
        everything: show long lists in full and cut nothing.
    """
    width = max(width, NARROWEST)
    for text in _wrapped(printable(page.title), width):
        yield Line(text, "head")
    for section in page.sections:
        yield Line("")
        if section.title:
            title = printable(section.title)
            yield Line(title if everything else _fitted(title, width), "head")
        for block in section.blocks:
            yield from _block(block, width, everything)


def _block(block: Block, width: int, everything: bool) -> Iterator[Line]:
    if isinstance(block, Fields):
        yield from _fields(block, width)
    elif isinstance(block, Table):
        yield from _table(block, width, everything)
    elif isinstance(block, Items):
        yield from _items(block, width, everything)
    else:
        yield from _note(block, width)


def _fields(block: Fields, width: int) -> Iterator[Line]:
    rows = [(printable(label), printable(value)) for label, value in block.rows]
    label_width = max(_LABEL, *(len(label) for label, _ in rows))
    room = width - len(_INDENT) - label_width - len(_GAP)
    for label, value in rows:
        if label_width > _LABEL and max(map(len, value.split(" "))) > room:
            # A digest beside a long label would be broken; it gets a line of its own.
            yield Line(f"{_INDENT}{label}")
            column, texts = _LABEL, _wrapped(value, width - len(_INDENT) - _LABEL - len(_GAP))
            label = ""
        else:
            column, texts = label_width, _wrapped(value, room)
        for number, text in enumerate(texts):
            shown = label if number == 0 else ""
            yield Line(f"{_INDENT}{shown:<{column}}{_GAP}{text}".rstrip())


def _note(block: Note, width: int) -> Iterator[Line]:
    mark = "note: " if block.meaning == "note" else "warning: "
    texts = _wrapped(printable(block.text), width - len(_INDENT) - len(mark))
    for number, text in enumerate(texts):
        if number == 0:
            yield Line(text, mark=_INDENT + mark, mark_meaning=block.meaning)
        else:
            yield Line(f"{_INDENT}{' ' * len(mark)}{text}")


def _items(block: Items, width: int, everything: bool) -> Iterator[Line]:
    shown = block.entries if everything else block.entries[: block.shown]
    for entry in shown:
        text = printable(entry)
        if block.fit == "keep":
            yield Line(f"{_INDENT}{text}".rstrip())
            continue
        first, *rest = _wrapped(text, width - 2 * len(_INDENT))
        yield Line(f"{_INDENT}{first}")
        yield from (Line(f"{_INDENT * 2}{part}") for part in rest)
    yield from _more(len(block.entries) - len(shown))


def _table(block: Table, width: int, everything: bool) -> Iterator[Line]:
    rows = block.rows if everything else block.rows[: block.shown]
    header = [printable(name) for name in block.header]
    cells = [[_cell(value) for value in row] for row in rows]
    widths = [max(len(text) for text in column) for column in zip(header, *cells, strict=True)]
    if not everything:
        room = width - len(_INDENT) - len(_GAP) * (len(widths) - 1)
        while sum(widths) > room and max(widths) > _SPARED:
            widest = widths.index(max(widths))
            widths[widest] = max(_SPARED, widths[widest] - (sum(widths) - room))
    numeric = [
        all(value is None or isinstance(value, int) for value in column)
        for column in zip(*rows, strict=True)
    ]
    yield Line(_row(header, widths, numeric), "dim")
    for row in cells:
        yield Line(_row(row, widths, numeric))
    yield from _more(len(block.rows) - len(rows))


def _row(cells: Sequence[str], widths: Sequence[int], numeric: Sequence[bool]) -> str:
    padded = (
        text.rjust(width) if right else _fitted(text, width).ljust(width)
        for text, width, right in zip(cells, widths, numeric, strict=True)
    )
    return (_INDENT + _GAP.join(padded)).rstrip()


def _more(count: int) -> Iterator[Line]:
    if count > 0:
        yield Line(f"{_INDENT}… and {count:,} more (--json or -v shows all)", "dim")


def _cell(value: Cell) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    return printable(value or "")


def _fitted(text: str, width: int) -> str:
    """``text`` cut in the middle: names differ most at their ends."""
    if len(text) <= width:
        return text
    tail = (width - 1) // 2
    return text[: width - 1 - tail] + _CUT + text[len(text) - tail :]


def _wrapped(text: str, width: int) -> list[str]:
    """Lines of at most ``width``; a longer word breaks at a mark in its second half."""
    lines = [""]
    for word in text.split(" "):
        joined = f"{lines[-1]} {word}" if lines[-1] else word
        if len(joined) <= width:
            lines[-1] = joined
        elif len(word) <= width:
            lines.append(word)
        else:
            rest = joined
            while len(rest) > width:
                end = _break(rest, width)
                lines[-1] = rest[:end]
                lines.append("")
                rest = rest[end:]
            lines[-1] = rest
    return lines


def _break(word: str, width: int) -> int:
    """Where to break a word that is longer than ``width``."""
    for marks in _BREAKS:
        end = max(word.rfind(mark, 0, width) for mark in marks)
        if end > width // 2:
            return end + 1
    return width
