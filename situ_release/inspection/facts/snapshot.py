"""Facts of a source snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from situ_release.sources.snapshot import open_snapshot


@dataclass(frozen=True, slots=True)
class SnapshotFacts:
    """What a snapshot says about itself, see :class:`situ_release.sources.snapshot.Snapshot`.

    Attributes:
        kind: "git", "files" or "recovered".
        commit_time: seconds since the epoch.
        licenses: relative path of each licence text by its name.
        recovered_from: the wheel it was recovered from.
    """

    version: str
    version_source: str
    kind: str
    commit: str | None
    tree: str | None
    branch: str | None
    dirty: bool | None
    commit_time: int | None
    licenses: Mapping[str, str]
    recovered_from: str | None


def snapshot_facts(path: Path) -> SnapshotFacts:
    """Facts of a snapshot.

    Raises:
        InputError: it states no version or contradicting ones, or its checkout is damaged.
        HostError: it is a git checkout and git is not installed.
        ToolError: git failed.
    """
    snapshot = open_snapshot(path)
    return SnapshotFacts(
        version=snapshot.version,
        version_source=snapshot.version_source,
        kind=snapshot.kind,
        commit=snapshot.commit,
        tree=snapshot.tree,
        branch=snapshot.branch,
        dirty=snapshot.dirty,
        commit_time=snapshot.commit_time,
        licenses=dict(snapshot.licenses),
        recovered_from=snapshot.marker.wheel if snapshot.marker else None,
    )
