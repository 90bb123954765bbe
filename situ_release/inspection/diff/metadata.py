"""METADATA and WHEEL of two wheels compared field by field."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from email.parser import HeaderParser

from situ_release.inspection.diff.sides import DIST_INFO_LABEL, Side
from situ_release.inspection.diff.texts import unified_diff
from situ_release.inspection.facts.wheel import header_fields

METADATA_LABELS = (f"{DIST_INFO_LABEL}/METADATA", f"{DIST_INFO_LABEL}/WHEEL")


@dataclass(frozen=True, slots=True)
class MetadataChange:
    """A field of METADATA or WHEEL with other values; of the description, a unified diff."""

    file: str
    field: str
    old: tuple[str, ...]
    new: tuple[str, ...]
    diff: tuple[str, ...] | None = None


def compare_metadata(old: Side, new: Side) -> tuple[MetadataChange, ...]:
    """Every field of METADATA and WHEEL that differs, in their order.

    Texts that differ in no field are there as the field "spelling"; the dist-info folder's name,
    which follows from the version, is there only where nothing else differs.
    """
    changes = [change for label in METADATA_LABELS for change in _changes(label, old, new)]
    if not changes:
        folders = [_folder(side) for side in (old, new)]
        if folders[0] != folders[1]:
            changes.append(MetadataChange("", "folder", folders[0], folders[1]))
    return tuple(changes)


def _changes(label: str, old: Side, new: Side) -> Iterator[MetadataChange]:
    name = label.rpartition("/")[2]
    texts = [
        side.read(label).decode("utf-8", "backslashreplace") if label in side.states else ""
        for side in (old, new)
    ]
    if old.states.get(label) == new.states.get(label):
        return
    before, after = map(header_fields, texts)
    differing = False
    for field in dict.fromkeys((*before, *after)):
        values = tuple(before.get(field, ())), tuple(after.get(field, ()))
        if values[0] != values[1]:
            differing = True
            yield MetadataChange(name, field, *values)
    bodies = [str(HeaderParser().parsestr(text).get_payload()) for text in texts]
    if bodies[0] != bodies[1]:
        yield MetadataChange(name, "Description", (), (), unified_diff(*bodies))
    elif not differing:
        yield MetadataChange(name, "spelling", (), (), unified_diff(*texts))


def _folder(side: Side) -> tuple[str, ...]:
    """The real name of the dist-info folder, if there is one."""
    names = {side.paths[label].split("/")[0] for label in METADATA_LABELS if label in side.paths}
    return tuple(sorted(names))
