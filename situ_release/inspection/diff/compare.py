"""What changed between two wheels, payloads or pools."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from situ_release import canonical
from situ_release.errors import InputError, Problem
from situ_release.inspection.diff.binaries import BinaryComparison, compare_binaries
from situ_release.inspection.diff.container import ContainerComparison, compare_containers
from situ_release.inspection.diff.documents import Change, compare_documents
from situ_release.inspection.diff.kernel_tables import (
    KernelTableComparison,
    compare_kernel_tables,
)
from situ_release.inspection.diff.metadata import (
    METADATA_LABELS,
    MetadataChange,
    compare_metadata,
)
from situ_release.inspection.diff.sides import DIST_INFO_LABEL, FileState, Side, open_sides
from situ_release.inspection.diff.texts import as_text, unified_diff
from situ_release.inspection.identify import Kind
from situ_release.sources.kernel_name import FILE_SUFFIX
from situ_release.wheel.record import RECORD

_LIBRARY_SUFFIX = ".so"
_PYTHON = (".py", ".pyi")
_DOCUMENT = ".json"

Happened = Literal["added", "removed", "changed"]


@dataclass(frozen=True, slots=True)
class BinaryFile:
    """A binary that is on one side only, or the same on both.

    Attributes:
        size: bytes.
        moved_from: for an added one, the path of a removed binary with the same bytes.
    """

    path: str
    size: int
    sha256: str
    moved_from: str | None = None


@dataclass(frozen=True, slots=True)
class ChangedBinary:
    """A binary whose bytes differ; sizes in bytes."""

    path: str
    old_size: int
    old_sha256: str
    new_size: int
    new_sha256: str
    comparison: BinaryComparison


@dataclass(frozen=True, slots=True)
class Binaries:
    """Every binary of both sides, by path."""

    changed: tuple[ChangedBinary, ...]
    added: tuple[BinaryFile, ...]
    removed: tuple[BinaryFile, ...]
    same: tuple[BinaryFile, ...]

    @property
    def all_same(self) -> bool:
        """Whether no binary changed, came or went."""
        return not (self.changed or self.added or self.removed)


@dataclass(frozen=True, slots=True)
class FileChange:
    """Any other file.

    Attributes:
        old_size: bytes; None where it was added.
        new_size: bytes; None where it was removed.
        diff: a unified diff of a text; None where it is none, or too long.
        keys: of a JSON document, the keys that differ; else None.
    """

    path: str
    change: Happened
    old_size: int | None
    new_size: int | None
    diff: tuple[str, ...] | None
    keys: tuple[Change, ...] | None


@dataclass(frozen=True, slots=True)
class Difference:
    """Everything that differs.

    Attributes:
        kind: what both are.
        identical: wheels and single files: the same bytes; folders: equal files.
        contents_identical: every file is equal, whatever the zip around them.
        kernel_table: None where there is none on either side, or one cannot be read.
        manifest: None where neither has one.
        files: files that are neither binary, manifest, metadata nor Python code. RECORD, which
            follows from the others, is among them only where nothing else changed.
        container: wheels only.
        problems: what could not be compared, and why.
    """

    kind: Kind
    old: str
    new: str
    identical: bool
    contents_identical: bool
    file_count: int
    binaries: Binaries
    kernel_table: KernelTableComparison | None
    manifest: tuple[Change, ...] | None
    metadata: tuple[MetadataChange, ...]
    python: tuple[FileChange, ...]
    files: tuple[FileChange, ...]
    container: ContainerComparison | None
    problems: tuple[Problem, ...]


def compare_paths(old: Path, new: Path) -> Difference:
    """Compare two wheels, staged payloads, pools, cubins or libraries.

    Raises:
        InputError: one cannot be read, is damaged, or is nothing that can be compared.
        UsageError: they are of different kinds.
    """
    return compare_sides(*open_sides(old, new))


def compare_sides(old: Side, new: Side) -> Difference:
    """Compare two sides of one kind that were opened already."""
    common = [label for label in old.states if label in new.states]
    equal = frozenset(label for label in common if old.states[label] == new.states[label])
    renamed = any(old.paths[label] != new.paths[label] for label in common) and (
        old.kind in ("wheel", "payload")
    )
    contents_identical = len(equal) == len(old.states) == len(new.states) and not renamed
    container = None
    if old.kind == "wheel":
        paths = {label: (old.paths[label], new.paths[label]) for label in common}
        container = compare_containers(
            old.path, new.path, paths, equal, contents_identical=contents_identical
        )
    binary_labels = {
        label
        for side in (old, new)
        for label, state in side.states.items()
        if _is_binary(label, state)
    }
    manifest = _compare_manifests(old, new)
    table, problems = compare_kernel_tables(old, new)
    special = {*binary_labels, *METADATA_LABELS}
    if manifest is not None:
        special |= {label for side in (old, new) if (label := side.manifest_label)}
    rest = sorted({*old.states, *new.states} - special - equal)
    changes = [_compare_file(label, old, new) for label in rest]
    metadata = compare_metadata(old, new)
    record = f"{DIST_INFO_LABEL}/{RECORD}"
    follows = len(changes) > 1 or bool(metadata or manifest) or not binary_labels <= equal
    return Difference(
        kind=old.kind,
        old=str(old.path),
        new=str(new.path),
        identical=contents_identical if container is None else container.same_bytes,
        contents_identical=contents_identical,
        file_count=len({*old.states, *new.states}),
        binaries=_compare_binaries(sorted(binary_labels), old, new),
        kernel_table=table,
        manifest=manifest,
        metadata=metadata,
        python=tuple(change for change in changes if change.path.endswith(_PYTHON)),
        files=tuple(
            change
            for change in changes
            if not change.path.endswith(_PYTHON) and not (change.path == record and follows)
        ),
        container=container,
        problems=problems,
    )


def _is_binary(label: str, state: FileState) -> bool:
    name = label.rpartition("/")[2]
    return (
        state.is_elf
        or name.endswith((FILE_SUFFIX, _LIBRARY_SUFFIX))
        or f"{_LIBRARY_SUFFIX}." in name
    )


def _compare_binaries(labels: list[str], old: Side, new: Side) -> Binaries:
    changed, added, removed, same = [], [], [], []
    for label in labels:
        before, after = old.states.get(label), new.states.get(label)
        if before is None and after is not None:
            added.append(BinaryFile(label, after.size, after.sha256))
        elif after is None and before is not None:
            removed.append(BinaryFile(label, before.size, before.sha256))
        elif before == after and before is not None:
            same.append(BinaryFile(label, before.size, before.sha256))
        elif before is not None and after is not None:
            comparison = compare_binaries(old.read(label), new.read(label), label)
            changed.append(
                ChangedBinary(
                    label, before.size, before.sha256, after.size, after.sha256, comparison
                )
            )
    gone = {file.sha256: file.path for file in removed}
    moved = (BinaryFile(f.path, f.size, f.sha256, gone.get(f.sha256)) for f in added)
    return Binaries(tuple(changed), tuple(moved), tuple(removed), tuple(same))


def _compare_manifests(old: Side, new: Side) -> tuple[Change, ...] | None:
    labels = old.manifest_label, new.manifest_label
    if labels == (None, None):
        return None
    documents = [
        None if label is None else _document(side.read(label))
        for side, label in ((old, labels[0]), (new, labels[1]))
    ]
    if labels[0] is None:
        return (Change("", "added", None, documents[1]),)
    if labels[1] is None:
        return (Change("", "removed", documents[0], None),)
    if None in documents:
        return None  # then it is compared as any other text
    changes = compare_documents(documents[0], documents[1])
    if changes or old.states[labels[0]] == new.states[labels[1]]:
        return changes
    return (Change("", "respelled", None, None),)


def _document(data: bytes) -> Any:
    """A JSON document; None where it is none."""
    try:
        return canonical.loads(data, "")
    except InputError:
        return None


def _compare_file(label: str, old: Side, new: Side) -> FileChange:
    before, after = old.states.get(label), new.states.get(label)
    if before is None or after is None:
        return FileChange(
            path=label,
            change="removed" if after is None else "added",
            old_size=None if before is None else before.size,
            new_size=None if after is None else after.size,
            diff=None,
            keys=None,
        )
    data = old.read(label), new.read(label)
    texts = [as_text(content) for content in data]
    documents: list[Mapping[str, Any] | None] = (
        [_document(content) for content in data] if label.endswith(_DOCUMENT) else [None, None]
    )
    return FileChange(
        path=label,
        change="changed",
        old_size=before.size,
        new_size=after.size,
        diff=None if texts[0] is None or texts[1] is None else unified_diff(texts[0], texts[1]),
        keys=None if None in documents else compare_documents(documents[0], documents[1]),
    )
