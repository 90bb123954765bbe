"""The document that every rendering is made from; each statement in it names its source.

One tree of records feeds ``provenance.html``, ``PROVENANCE.md`` and ``provenance.json``, so the
three cannot say different things. Sizes are bytes, digests lower-case hexadecimal SHA-256. None
stands for a blank: something that nobody stated; renderings show it as one. "" stands for a place
in a table where there is nothing to state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

SourceKind = Literal[
    "wheel", "manifest", "recipe", "binary", "check", "coverage", "evidence", "approvals", "diff"
]
Tone = Literal["plain", "good", "warn", "bad"]
Form = Literal["text", "code", "digest", "bytes", "number", "status"]
"""How a value is written: ``digest`` and ``code`` in fixed width, ``bytes`` with its unit."""

Severity = Literal["blocking", "attention"]
Value = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Source:
    """Where a statement comes from.

    Attributes:
        kind: which document, binary or computation.
        ref: the place in it: a key of the manifest or recipe, a member of the wheel, a check's id.
    """

    kind: SourceKind
    ref: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.ref}"


@dataclass(frozen=True, slots=True)
class Fact:
    """One statement: ``label`` is ``value``.

    Attributes:
        key: stable name, unique in the document.
        note: what a reader should know about it.
    """

    key: str
    label: str
    value: Value
    source: Source
    form: Form = "text"
    note: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """Statements side by side."""

    items: tuple[Fact, ...]
    title: str = ""
    kind: Literal["facts"] = "facts"


@dataclass(frozen=True, slots=True)
class Note:
    """A statement in a sentence."""

    text: str
    source: Source
    tone: Tone = "plain"
    kind: Literal["note"] = "note"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table; ``key`` is its name in the JSON rows."""

    key: str
    title: str
    form: Form = "text"


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table: a value for every column.

    Attributes:
        source: where this row comes from, where it is not the table's source.
        anchor: what other places of the document refer to it by; "" for none.
    """

    cells: Mapping[str, Value]
    source: Source | None = None
    anchor: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of one kind.

    Attributes:
        key: stable name, unique in the document.
        source: where rows without a source of their own come from.
        empty: said in place of a table without rows.
        searchable: long enough to search in.
    """

    key: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    source: Source
    empty: str = "none"
    searchable: bool = False
    kind: Literal["table"] = "table"


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar: ``value`` in all, of which ``part`` is drawn apart."""

    label: str
    value: int
    part: int


@dataclass(frozen=True, slots=True)
class Bars:
    """A picture of bytes; ``part_label`` says what the part is."""

    key: str
    title: str
    bars: tuple[Bar, ...]
    part_label: str
    source: Source
    kind: Literal["bars"] = "bars"


Block = Facts | Note | Table | Bars


@dataclass(frozen=True, slots=True)
class Section:
    """A chapter.

    Attributes:
        lead: in a sentence or two, what it comes down to.
        source: what the lead rests on.
    """

    key: str
    title: str
    lead: str
    source: Source
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class OpenPoint:
    """Something that a person has to settle.

    Attributes:
        severity: ``blocking`` points stand against publication; ``attention`` ones are to be
            weighed by whoever approves.
        who: who must act.
        action: what to do.
        section: key of the section that tells more.
    """

    severity: Severity
    title: str
    who: str
    action: str
    section: str
    source: Source


@dataclass(frozen=True, slots=True)
class Decision:
    """May the wheel be published: only when no point blocks.

    Attributes:
        source: what it rests on: every check, the gate's among them.
    """

    cleared: bool
    headline: str
    summary: str
    source: Source
    points: tuple[OpenPoint, ...]

    @property
    def blocking(self) -> tuple[OpenPoint, ...]:
        """The points that stand against publication."""
        return tuple(point for point in self.points if point.severity == "blocking")

    @property
    def attention(self) -> tuple[OpenPoint, ...]:
        """The points to be weighed."""
        return tuple(point for point in self.points if point.severity == "attention")


@dataclass(frozen=True, slots=True)
class WheelIdentity:
    """The wheel that the document is about and bound to."""

    filename: str
    distribution: str
    version: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Document:
    """Everything that a reviewer decides from."""

    wheel: WheelIdentity
    decision: Decision
    sections: tuple[Section, ...]
    schema: Literal["situ-release/provenance/1"] = "situ-release/provenance/1"

    def section(self, key: str) -> Section:
        """The section of that key (KeyError without one)."""
        return {section.key: section for section in self.sections}[key]
