"""What changed since the previous release, binaries first; and the bill of materials."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from situ_release.inspection.diff.compare import Difference
from situ_release.inspection.diff.documents import Change, without_names
from situ_release.inspection.diff.headline import headline
from situ_release.report.model import Block, Column, Fact, Facts, Row, Section, Source, Table
from situ_release.report.subject import Subject

_LONGEST = 160


def changes(subject: Subject) -> Section:
    """The difference to the release before."""
    previous = subject.previous
    if previous is None:
        return Section(
            "changes",
            "Since the previous release",
            "No previous release was given to compare with.",
            Source("diff", "none"),
            (),
        )
    difference = previous.difference
    binaries = difference.binaries
    counts = {
        "changed": len(binaries.changed),
        "added": len(binaries.added),
        "removed": len(binaries.removed),
        "same": len(binaries.same),
    }
    source = Source("diff", previous.filename)
    return Section(
        key="changes",
        title="Since the previous release",
        lead=headline(difference),
        source=source,
        blocks=(
            Facts(
                (
                    Fact("previous.filename", "Compared with", previous.filename, source, "code"),
                    *(
                        Fact(f"changes.{key}", f"Binaries {key}", count, source, "number")
                        for key, count in counts.items()
                    ),
                )
            ),
            *_tables(difference, source),
        ),
    )


def _tables(difference: Difference, source: Source) -> Iterator[Block]:
    binaries = difference.binaries
    moved = [
        *((file.path, "changed", file.old_sha256, file.new_sha256) for file in binaries.changed),
        *((file.path, "added", "", file.sha256) for file in binaries.added),
        *((file.path, "removed", file.sha256, "") for file in binaries.removed),
    ]
    if moved:
        yield Table(
            key="changed_binaries",
            title="Binaries",
            columns=(
                Column("path", "File", "code"),
                Column("change", "Change"),
                Column("old", "SHA-256 before", "digest"),
                Column("new", "SHA-256 now", "digest"),
            ),
            rows=tuple(
                Row({"path": path, "change": change, "old": old, "new": new})
                for path, change, old, new in moved
            ),
            source=source,
        )
    rest = [
        *_manifest(difference.manifest or ()),
        *(
            ("METADATA", change.field, _short(change.old), _short(change.new))
            for change in difference.metadata
        ),
        *(
            ("file", change.path, _size(change.old_size), _size(change.new_size))
            for change in (*difference.python, *difference.files)
        ),
    ]
    yield Table(
        key="changed_texts",
        title="Everything else",
        columns=(
            Column("where", "Where"),
            Column("what", "What", "code"),
            Column("old", "Before"),
            Column("new", "Now"),
        ),
        rows=tuple(
            Row({"where": where, "what": what, "old": old, "new": new})
            for where, what, old, new in rest
        ),
        source=source,
        empty="nothing else differs",
    )


def _manifest(found: tuple[Change, ...]) -> Iterator[tuple[str, str, str, str]]:
    """Keys of the manifest; what happened alike to entries of a list is one row."""
    groups: dict[tuple[str, str], list[Change]] = {}
    for change in found:
        groups.setdefault((without_names(change.key), change.change), []).append(change)
    for (key, happened), alike in groups.items():
        if len(alike) == 1:
            yield "manifest", alike[0].key, _short(alike[0].old), _short(alike[0].new)
        else:
            yield "manifest", key, "", f"{happened} in {len(alike)} entries"


def bill(subject: Subject) -> Section:
    """The bill of materials beside the report, and whether it is the wheel's own."""
    sbom = subject.sbom
    name = subject.recipe.sbom_name
    lead = (
        "The wheel carries a CycloneDX bill of materials; sbom.cdx.json is a copy of it, byte for "
        "byte."
        if sbom.in_wheel
        else "The wheel carries no bill of materials. sbom.cdx.json was made for this report from "
        "manifest and recipe, and says so; nothing in the wheel vouches for it."
    )
    source = (
        Source("wheel", f"{subject.context.dist_info}/sboms/{name}")
        if sbom.in_wheel
        else Source("check", "wheel.sbom")
    )
    return Section(
        key="sbom",
        title="Bill of materials",
        lead=lead,
        source=Source("check", "wheel.sbom"),
        blocks=(
            Facts(
                (
                    Fact(
                        "sbom.in_wheel",
                        "In the wheel",
                        "yes" if sbom.in_wheel else "no",
                        source,
                        "status",
                    ),
                    Fact("sbom.size", "Size", len(sbom.data), source, "bytes"),
                )
            ),
        ),
    )


def _short(value: Any) -> str:
    if value is None or value == ():
        return ""
    if isinstance(value, tuple):
        value = ", ".join(value)
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _size(count: int | None) -> str:
    return "" if count is None else f"{count:,} bytes"
