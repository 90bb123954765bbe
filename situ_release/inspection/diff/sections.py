"""Two ELF files compared section by section."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from situ_release.sources.device_code import is_device_code
from situ_release.sources.elf import Elf, Section

_KINDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("relocations", (".rela", ".rel.", ".nv.merc.rela", ".nv.merc.rel.", ".nv.rel")),
    ("debug data", (".debug", ".nv_debug", ".nv.merc.debug", ".line")),
    ("symbols", (".symtab", ".strtab", ".shstrtab", ".nv.merc.symtab")),
    ("notes", (".note", ".comment")),
)
DEVICE_CODE = "device code"
OTHER = "code or data"


@dataclass(frozen=True, slots=True)
class SectionComparison:
    """In which sections two ELF files differ, by section name.

    Attributes:
        equal: sections with the same content in both.
        differ: in both, with other content.
        removed: only in the old one.
        added: only in the new one.
        kinds: what these sections hold: "device code", "relocations", "debug data", "symbols",
            "notes", "code or data" for all others; sorted.
    """

    equal: int
    differ: tuple[str, ...]
    removed: tuple[str, ...]
    added: tuple[str, ...]
    kinds: tuple[str, ...]

    @property
    def different(self) -> int:
        """How many sections are not the same in both."""
        return len(self.differ) + len(self.removed) + len(self.added)

    @property
    def total(self) -> int:
        """Sections in either."""
        return self.equal + self.different


def compare_sections(old: Elf, new: Elf) -> SectionComparison:
    """Compare content and size of all sections; where they lie in the file has no influence."""
    before, after = _contents(old), _contents(new)
    differ = [key for key in before if key in after and before[key] != after[key]]
    removed = [key for key in before if key not in after]
    added = [key for key in after if key not in before]
    changed = [name for name, _ in (*differ, *removed, *added)]
    return SectionComparison(
        equal=len(before) - len(differ) - len(removed),
        differ=tuple(name for name, _ in differ),
        removed=tuple(name for name, _ in removed),
        added=tuple(name for name, _ in added),
        kinds=tuple(sorted({section_kind(name) for name in changed})),
    )


def section_kind(name: str) -> str:
    """What a section of that name holds, in words."""
    if is_device_code(name):
        return DEVICE_CODE
    return next((kind for kind, prefixes in _KINDS if name.startswith(prefixes)), OTHER)


def _contents(elf: Elf) -> Mapping[tuple[str, int], tuple[int, bytes]]:
    """Size and content by name and, where a name occurs again, its number."""
    return {key: (section.size, elf.content(section)) for key, section in _numbered(elf)}


def _numbered(elf: Elf) -> Iterator[tuple[tuple[str, int], Section]]:
    seen: Counter[str] = Counter()
    for section in elf.sections:
        if section.type:
            yield (section.name, seen[section.name]), section
            seen[section.name] += 1
