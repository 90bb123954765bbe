"""A difference, for people: binaries first."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from situ_release.inspection.diff.binaries import BinaryComparison, ModuleComparison
from situ_release.inspection.diff.compare import (
    BinaryFile,
    ChangedBinary,
    Difference,
    FileChange,
)
from situ_release.inspection.diff.documents import Change, without_names
from situ_release.inspection.diff.headline import (
    container_text,
    device_sections,
    headline,
    sections_text,
)
from situ_release.inspection.diff.kernel_tables import KernelTableComparison
from situ_release.inspection.diff.metadata import MetadataChange
from situ_release.inspection.pages.page import (
    Block,
    Note,
    Page,
    Section,
    count_text,
    fields,
    items,
    page,
    section,
    table,
)
from situ_release.sources import checksums, metadata_header
from situ_release.text import size_text

_DETAILED = 2
_DIFF_LINES = 12
_LISTED = 5
_VALUE = 200

_DEVICE_CODE = {
    "equal": "equal",
    "different": "DIFFERENT",
    "unknown": "not known: it is compressed or cannot be read",
    "none": "none inside",
}


def difference_page(difference: Difference) -> Page:
    """Everything that differs."""
    return page(
        headline(difference),
        section("", fields(*_sides(difference)), *_problems(difference)),
        *_binaries(difference),
        _kernel_table(difference.kernel_table),
        section("Manifest", *_changes(difference.manifest or ())),
        section("METADATA and WHEEL", *_metadata(difference.metadata)),
        *_files("Python code", difference.python),
        *_files("Other files", difference.files),
        _container(difference),
    )


def _sides(difference: Difference) -> Iterator[tuple[str, object]]:
    container = difference.container
    for label, path in (("old", difference.old), ("new", difference.new)):
        yield label, path
        if container is not None and not container.same_bytes:
            state = container.old if label == "old" else container.new
            yield "", size_text(state.size)
            yield "", state.sha256


def _problems(difference: Difference) -> Iterator[Note]:
    for problem in difference.problems:
        yield Note("warn", f"not compared: {problem}")


def _binaries(difference: Difference) -> Iterator[Section]:
    """Groups of binaries, what matters most first; then details of libraries and of few cubins."""
    binaries = difference.binaries
    groups: dict[str, list[str]] = {}
    for file in sorted(binaries.changed, key=lambda file: _rank(file.comparison)):
        groups.setdefault(_verdict_text(file.comparison), []).append(file.path)
    for verdict, paths in groups.items():
        yield section(f"Changed: {verdict} ({len(paths):,})", items(paths, _LISTED))
    yield section(f"Added ({len(binaries.added):,})", items(map(_added_text, binaries.added)))
    yield section(
        f"Removed ({len(binaries.removed):,})",
        items(f"{file.path} ({file.size:,} bytes)" for file in binaries.removed),
    )
    cubins = [file for file in binaries.changed if not file.comparison.modules]
    for file in binaries.changed:
        if file.comparison.modules or len(cubins) <= _DETAILED:
            yield section(file.path, *_changed(file))


def _rank(comparison: BinaryComparison) -> int:
    return ("different", "unknown", "none", "equal").index(comparison.device_code)


def _verdict_text(comparison: BinaryComparison) -> str:
    if comparison.unreadable:
        return "cannot be compared"
    if comparison.device_code == "equal":
        kinds = sorted({kind for part in device_sections(comparison) for kind in part.kinds})
        return f"device code equal, {' and '.join(kinds) or 'places in the file'} not"
    return {"different": "DEVICE CODE", "none": "host code"}.get(
        comparison.device_code, "whether in device code, is not known (compressed)"
    )


def _added_text(file: BinaryFile) -> str:
    if file.moved_from:
        return f"{file.path} (the same bytes as {file.moved_from})"
    return f"{file.path} ({file.size:,} bytes)"


def _changed(file: ChangedBinary) -> Iterator[Block]:
    comparison = file.comparison
    yield fields(
        ("old", f"{file.old_size:,} bytes"),
        ("", file.old_sha256),
        ("new", f"{file.new_size:,} bytes"),
        ("", file.new_sha256),
        ("device code", _DEVICE_CODE[comparison.device_code]),
        ("sections", sections_text(comparison.sections) if comparison.sections else None),
    )
    if comparison.unreadable:
        yield Note("warn", f"not compared: {comparison.unreadable}")
    yield table(
        ("module", "kind", "is", "device code", "what differs"),
        (_module_row(module) for module in comparison.modules),
    )
    yield from _changes(comparison.facts)


def _module_row(module: ModuleComparison) -> tuple[str, ...]:
    code = {"equal": "equal", "different": "DIFFERENT"}.get(module.device_code, "not known")
    if module.change in ("added", "removed"):
        return module.target, module.kind, module.change, "", ""
    what = sections_text(module.sections) if module.sections else ""
    return module.target, module.kind, module.change, code, what


def _kernel_table(compared: KernelTableComparison | None) -> Section | None:
    if compared is None:
        return None
    if compared.same:
        kernels = count_text(compared.old.count, "kernel")
        return section("Kernel table", Note("note", f"unchanged ({kernels})"))
    return section(
        "Kernel table",
        fields(
            ("kernels", f"{compared.old.count:,} -> {compared.new.count:,}"),
            ("added", len(compared.added) or None),
            ("removed", len(compared.removed) or None),
            ("other digest", len(compared.changed) or None),
            ("other launch", _launch_text(len(compared.redescribed))),
        ),
        Note("note", "the same kernels and digests in another order")
        if compared.reordered
        else None,
        items((f"+ {name}" for name in compared.added), _LISTED),
        items((f"- {name}" for name in compared.removed), _LISTED),
        items((f"~ {kernel.name}" for kernel in compared.changed), _LISTED),
        items((f"~ {name}" for name in compared.redescribed), _LISTED),
    )


def _launch_text(count: int) -> str:
    if not count:
        return ""
    return f"{count_text(count, 'kernel')}: same digest, other shared memory, threads or options"


def _changes(changes: Iterable[Change]) -> Iterator[Block]:
    """Changes one by one; the same change of many entries of a list in one line."""
    groups: dict[tuple[str, str], list[Change]] = {}
    for change in changes:
        groups.setdefault((without_names(change.key), change.change), []).append(change)
    listed = [
        _change_text(found[0]) if len(found) == 1 else f"{key}: {what} in {len(found):,} entries"
        for (key, what), found in groups.items()
    ]
    if listed:
        yield items(listed)


def _change_text(change: Change) -> str:
    key = change.key or "the document"
    if change.change == "changed":
        return f"{key}: {_value(change.old)} -> {_value(change.new)}"
    if change.change in ("added", "removed"):
        value = change.new if change.change == "added" else change.old
        # An entry of many keys is named by its key already.
        return f"{key}: {change.change} {'' if isinstance(value, dict) else _value(value)}".rstrip()
    return f"{key}: {'in another order' if change.change == 'reordered' else 'spelled differently'}"


def _value(value: Any) -> str:
    plain = isinstance(value, str) and value and " " not in value
    text = str(value) if plain else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _VALUE else f"{text[:_VALUE]}…"


def _metadata(changes: Iterable[MetadataChange]) -> Iterator[Block]:
    changes = tuple(changes)
    listed = tuple(_field_text(change) for change in changes if change.old or change.new)
    if listed:
        yield items(listed)
    for change in changes:
        if not (change.old or change.new):
            yield Note("note", f"{change.field} of {change.file} differs:")
            yield from _diff(change.diff)


def _field_text(change: MetadataChange) -> str:
    gone = [value for value in change.old if value not in change.new]
    fresh = [value for value in change.new if value not in change.old]
    if len(gone) == len(fresh) == 1:
        return f"{change.field}: {_value(gone[0])} -> {_value(fresh[0])}"
    parts = [f"removed {_value(value)}" for value in gone]
    parts += [f"added {_value(value)}" for value in fresh]
    return f"{change.field}: {', '.join(parts) or 'in another order'}"


def _files(title: str, changes: tuple[FileChange, ...]) -> Iterator[Section]:
    yield section(
        title, table(("", "file", "bytes"), ((c.change, c.path, _sizes(c)) for c in changes))
    )
    for change in changes:
        if change.change != "changed" or _is_derived(change.path):
            continue
        if change.keys is not None:
            yield section(change.path, *_changes(change.keys))
        else:
            yield section(change.path, *_diff(change.diff))


def _is_derived(path: str) -> bool:
    """Whether a pool's file only repeats what binaries and kernel table say already."""
    return path.rpartition("/")[2] in (checksums.FILENAME, *metadata_header.FILENAMES)


def _sizes(change: FileChange) -> str:
    if change.old_size is None or change.new_size is None:
        size = change.new_size if change.old_size is None else change.old_size
        return f"{size:,}"
    return f"{change.old_size:,} -> {change.new_size:,}"


def _diff(lines: tuple[str, ...] | None) -> Iterator[Block]:
    if lines is None:
        yield Note("note", "no text, or too long to compare line by line")
    elif not lines:
        yield Note("note", "only the line ends differ")
    else:
        yield items(lines, _DIFF_LINES, "keep")


def _container(difference: Difference) -> Section | None:
    container = difference.container
    if container is None or container.same_bytes:
        return None
    named = [
        *((f"compression of {name}") for name in container.compression),
        *((f"folder entry {name}") for name in container.folders),
    ]
    if not difference.contents_identical and not named:
        return None  # dates and order of a zip whose files differ tell nothing
    return section(
        "The zip around the files",
        fields(("differs in", container_text(container))),
        items(named, _LISTED),
    )
