"""The one sentence that a difference comes down to: binaries first."""

from __future__ import annotations

from collections.abc import Iterator

from situ_release.inspection.diff.binaries import BinaryComparison
from situ_release.inspection.diff.compare import Binaries, Difference
from situ_release.inspection.diff.container import ContainerComparison
from situ_release.inspection.diff.sections import SectionComparison
from situ_release.sources.kernel_name import FILE_SUFFIX


def headline(difference: Difference) -> str:
    """What changed, in one sentence."""
    binaries = difference.binaries
    if difference.identical:
        return "Identical: every byte is the same."
    if difference.contents_identical and difference.container is not None:
        return (
            f"Every file is equal ({difference.file_count:,}); only the zip differs: "
            f"{container_text(difference.container)}."
        )
    if binaries.all_same:
        kept = (
            f"No binary changed: {_kept(binaries)} byte-identical."
            if binaries.same
            else "There are no binaries."
        )
        return f"{kept} What differs: {', '.join(_differing(difference))}."
    if all(file.comparison.device_code == "equal" for file in binaries.changed) and not (
        binaries.added or binaries.removed
    ):
        return _only_around_the_code(binaries)
    counts = [
        _changed_text(binaries),
        f"{len(binaries.added):,} added",
        f"{len(binaries.removed):,} removed",
        f"{len(binaries.same):,} the same",
    ]
    return f"Binaries: {', '.join(counts)}."


def container_text(container: ContainerComparison) -> str:
    """In what two zip files with equal files differ."""
    parts = []
    if container.compression:
        smaller = container.new.size - container.old.size
        parts.append(f"compression of {len(container.compression):,} files ({smaller:+,} bytes)")
    if container.dates:
        parts.append(f"dates of {len(container.dates):,} files")
    if container.modes:
        parts.append(f"permissions of {len(container.modes):,} files")
    if container.order:
        parts.append("the order of files")
    if container.folders:
        parts.append("entries for folders")
    return ", ".join(parts) or "bytes around the files"


def sections_text(sections: SectionComparison) -> str:
    """How many sections differ and what they hold: ``5 of 45 sections differ, all relocations``."""
    if not sections.different:
        return "all sections are equal, only their places in the file differ"
    verb = "differs" if sections.different == 1 else "differ"
    only = "all " if len(sections.kinds) == 1 and sections.different > 1 else ""
    kinds = " and ".join(sections.kinds) if len(sections.kinds) < 3 else ", ".join(sections.kinds)
    return f"{sections.different} of {sections.total} sections {verb}: {only}{kinds}"


def _kept(binaries: Binaries) -> str:
    cubins = sum(file.path.endswith(FILE_SUFFIX) for file in binaries.same)
    libraries = len(binaries.same) - cubins
    parts = []
    if cubins:
        parts.append(f"{cubins:,} {'cubin' if cubins == 1 else 'cubins'}")
    if libraries:
        parts.append(f"{libraries:,} {'library' if libraries == 1 else 'libraries'}")
    verb = "is" if len(binaries.same) == 1 else "are"
    return f"{' and '.join(parts)} {verb}"


def _only_around_the_code(binaries: Binaries) -> str:
    """Files differ, what a GPU executes does not: evidence from running one holds for the other."""
    changed = len(binaries.changed)
    total = changed + len(binaries.same)
    kinds = {
        kind
        for file in binaries.changed
        for sections in device_sections(file.comparison)
        for kind in sections.kinds
    }
    if any(file.comparison.modules for file in binaries.changed):
        kinds.add("host code")
    around = " and ".join(sorted(kinds)) or "the places of sections in the file"
    if total == 1:
        return f"No device code changed: the one binary differs only in {around}."
    verb = "differs" if changed == 1 else "differ"
    return f"No device code changed: {changed:,} of {total:,} binaries {verb}, only in {around}."


def device_sections(comparison: BinaryComparison) -> Iterator[SectionComparison]:
    """The comparisons of what a GPU loads: of a cubin, or of the modules in a library."""
    if comparison.modules:
        yield from (module.sections for module in comparison.modules if module.sections)
    elif comparison.sections:
        yield comparison.sections


def _changed_text(binaries: Binaries) -> str:
    changed = f"{len(binaries.changed):,} changed"
    equal = sum(file.comparison.device_code == "equal" for file in binaries.changed)
    if not equal:
        return changed
    return (
        f"{changed} ({'all' if equal == len(binaries.changed) else equal} with equal device code)"
    )


def _differing(difference: Difference) -> Iterator[str]:
    table = difference.kernel_table
    if table is not None and not table.same:
        yield "the kernel table"
    if any(change.key == "package_version" for change in difference.manifest or ()) or any(
        change.field == "Version" for change in difference.metadata
    ):
        yield "the version"
    rest = [c for c in difference.manifest or () if c.key != "package_version"]
    if rest:
        yield f"{len(rest):,} manifest {'key' if len(rest) == 1 else 'keys'}"
    fields = [change.field for change in difference.metadata if change.field != "Version"]
    if fields:
        yield f"metadata ({', '.join(fields)})"
    if difference.python:
        yield f"{len(difference.python):,} Python {_files(len(difference.python))}"
    if difference.files:
        yield f"{len(difference.files):,} other {_files(len(difference.files))}"


def _files(count: int) -> str:
    return "file" if count == 1 else "files"
