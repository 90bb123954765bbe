r"""The document as ``PROVENANCE.md``, and the pieces that other Markdown is made of.

Every text from elsewhere goes through :func:`escaped` or :func:`code`, so none can become markup:
``PROVENANCE.md`` may be shown where HTML inside Markdown is run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from situ_release.report.model import (
    Bars,
    Block,
    Document,
    Facts,
    Form,
    Note,
    OpenPoint,
    Section,
    Source,
    Table,
    Value,
)
from situ_release.report.render import BLANK, value_text

# An underline within a word is one.
_SPECIAL = re.compile(r"([\\`*\[\]<>|~$&]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9]))")
# What makes a list, a heading or a rule, at the beginning of a line alone.
_AT_START = re.compile(r"^(\d*)([.)#+=-])(?=[\s=#-]|$)")
_RUNS = re.compile("`+")


def to_markdown(document: Document) -> str:
    """``PROVENANCE.md``."""
    return "\n".join(_lines(document)) + "\n"


def escaped(text: str) -> str:
    """A text as Markdown that shows it character by character, on one line."""
    shown = _SPECIAL.sub(r"\\\1", " ".join(text.split()))
    # A scheme or a www would be made a link by readers that look for bare ones.
    shown = shown.replace("://", ":\\//").replace("www.", "www\\.").replace("@", "\\@")
    return _AT_START.sub(r"\1\\\2", shown)


def code(text: str) -> str:
    """A text as a code span, whatever backticks are in it."""
    text = " ".join(text.split())
    if not text:
        return ""
    fence = "`" * (max((len(run) for run in _RUNS.findall(text)), default=0) + 1)
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A table of cells that are Markdown already."""
    lines = [header, ["---"] * len(header), *rows]
    return ["| " + " | ".join(line) + " |" for line in lines]


def cell(value: Value, form: Form) -> str:
    """A value in a table."""
    if value is None:
        return f"*{BLANK}*"
    text = value_text(value, "number" if form == "bytes" else form)
    # In a table even a code span ends at a bar, unless it is escaped.
    return code(text).replace("|", "\\|") if form in ("code", "digest") else escaped(text)


def _lines(document: Document) -> Iterator[str]:
    wheel, decision = document.wheel, document.decision
    yield f"# {escaped(wheel.distribution)} {escaped(wheel.version)}: provenance"
    yield ""
    yield f"{code(wheel.filename)}, {wheel.size:,} bytes, SHA-256 {code(wheel.sha256)}"
    yield ""
    yield f"## {escaped(decision.headline)}"
    yield ""
    yield escaped(decision.summary)
    yield ""
    if decision.blocking:
        yield from _points("What stands against it", decision.blocking)
    if decision.attention:
        yield from _points("To be weighed", decision.attention)
    for section in document.sections:
        yield from _section(section)


def _points(title: str, points: Sequence[OpenPoint]) -> Iterator[str]:
    yield f"### {title}"
    yield ""
    for number, point in enumerate(points, 1):
        yield (
            f"{number}. **{escaped(point.title)}** Must act: {escaped(point.who)}. "
            f"{escaped(point.action)}. {_source(point.source)}"
        )
    yield ""


def _section(section: Section) -> Iterator[str]:
    yield f"## {escaped(section.title)}"
    yield ""
    yield f"{escaped(section.lead)} {_source(section.source)}"
    yield ""
    for block in section.blocks:
        yield from _block(block)


def _block(block: Block) -> Iterator[str]:
    if isinstance(block, Note):
        yield f"> {escaped(block.text)} {_source(block.source)}"
    elif isinstance(block, Facts):
        yield from _facts(block)
    elif isinstance(block, Bars):
        yield from _bars(block)
    else:
        yield from _table(block)
    yield ""


def _facts(block: Facts) -> Iterator[str]:
    if block.title:
        yield f"### {escaped(block.title)}"
        yield ""
    for fact in block.items:
        text = value_text(fact.value, fact.form)
        shown = code(text) if fact.form in ("code", "digest") else escaped(text)
        note = f" ({escaped(fact.note)})" if fact.note else ""
        value = f"*{BLANK}*" if fact.value is None else shown
        yield f"- {escaped(fact.label)}: {value}{note} {_source(fact.source)}"


def _bars(block: Bars) -> Iterator[str]:
    yield f"### {escaped(block.title)}"
    yield ""
    rows = [
        (escaped(bar.label), f"{bar.value:,}", f"{bar.part:,}" if bar.part else "")
        for bar in block.bars
    ]
    yield from table(["", "bytes", escaped(block.part_label)], rows)
    yield ""
    yield _source(block.source)


def _table(block: Table) -> Iterator[str]:
    yield f"### {escaped(block.title)}"
    yield ""
    if not block.rows:
        yield f"{escaped(block.empty)} {_source(block.source)}"
        return
    sourced = any(row.source for row in block.rows)
    header = [escaped(column.title) for column in block.columns]
    rows = []
    for row in block.rows:
        cells = [cell(row.cells[column.key], column.form) for column in block.columns]
        rows.append([*cells, _source(row.source or block.source)] if sourced else cells)
    yield from table([*header, "Source"] if sourced else header, rows)
    if not sourced:
        yield ""
        yield _source(block.source)


def _source(source: Source) -> str:
    return f"*({escaped(str(source))})*"
