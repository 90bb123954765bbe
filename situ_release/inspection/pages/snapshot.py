"""A source snapshot, for people."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

from situ_release.inspection.facts.snapshot import SnapshotFacts
from situ_release.inspection.pages.page import Note, Page, fields, page, section, table

_KINDS = {
    "git": "a git checkout",
    "files": "files without git: its identity is only what it states",
    "recovered": "recovered from a published wheel",
}


def snapshot_page(path: Path, facts: SnapshotFacts) -> Page:
    """Everything about a snapshot."""
    when = facts.commit_time
    time = None if when is None else datetime.fromtimestamp(when, timezone.utc).isoformat()
    return page(
        f"Source snapshot {facts.version}",
        section(
            "",
            fields(
                ("folder", str(path)),
                ("version", f"{facts.version}, stated in {facts.version_source}"),
                ("kind", _KINDS[facts.kind]),
                ("commit", facts.commit),
                ("committed at", time),
                ("tree", facts.tree),
                ("branch", facts.branch),
            ),
            Note("warn", "it was changed after that commit") if facts.dirty else None,
            Note("warn", f"not an original: from {facts.recovered_from}")
            if facts.recovered_from
            else None,
            None if facts.licenses else Note("warn", "there is no licence text in it"),
        ),
        section("Licence texts", table(("name", "file"), facts.licenses.items())),
    )
