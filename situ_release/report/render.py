"""The document as HTML and JSON.

The HTML is one file that asks nothing of anybody: styles and script lie inside it, and a content
security policy allows these two by their digest and nothing else, so that even a text that slipped
through the escaping could not run or load anything.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import asdict
from functools import cache

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from situ_release import canonical, resources
from situ_release.report.model import Bar, Bars, Document, Form, Table, Value
from situ_release.text import size_text

FOLDER = resources.DATA / "report"
BLANK = "not stated"
"""What stands for a value that nobody stated."""


def to_json(document: Document) -> str:
    """``provenance.json``: canonical JSON of the whole tree."""
    return canonical.dumps(asdict(document))


def to_html(document: Document) -> str:
    """``provenance.html``: one self-contained page."""
    style, script = _text("report.css"), _text("report.js")
    return (
        _environment()
        .get_template("report.html.j2")
        .render(
            document=document,
            # Both are the package's own files, not anybody's input.
            style=Markup(style),  # noqa: S704
            script=Markup(script),  # noqa: S704
            style_digest=_digest(style),
            script_digest=_digest(script),
        )
    )


def value_text(value: Value, form: Form) -> str:
    """A value for people; blanks are the caller's."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and form == "bytes":
        return size_text(value)
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.6g}"
    return "" if value is None else value


def is_numeric(table: Table, key: str) -> bool:
    """Whether a column holds numbers, which are aligned right."""
    return next(column.form in ("bytes", "number") for column in table.columns if column.key == key)


def shares(bars: Bars, width: int) -> list[tuple[Bar, int, int]]:
    """Every bar with its length and that of its part; the longest has ``width`` units."""
    longest = max((bar.value for bar in bars.bars), default=0) or 1
    return [
        (bar, round(width * bar.value / longest), round(width * bar.part / longest))
        for bar in bars.bars
    ]


def prose(text: str) -> Markup:
    """A sentence with what stands between backticks set as code; everything is escaped."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return escape(text)
    pieces = (
        Markup("<code>{}</code>").format(part) if index % 2 else escape(part)
        for index, part in enumerate(parts)
    )
    return Markup("").join(pieces)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(value=value_text, prose=prose)
    environment.globals.update(blank=BLANK, is_numeric=is_numeric, shares=shares)
    return environment


@cache
def _text(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
