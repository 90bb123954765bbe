"""Two kernel tables compared: which kernels can be asked for, with which digest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from situ_release.errors import InputError, Problem
from situ_release.inspection.diff.sides import Side
from situ_release.inspection.identify import is_cubin
from situ_release.sources.kernel_name import FILE_SUFFIX
from situ_release.sources.kernel_table import KernelTable, read_kernel_table
from situ_release.sources.pool import open_pools


@dataclass(frozen=True, slots=True)
class TableState:
    """A table: how many kernels, and :attr:`KernelTable.sha256`."""

    count: int
    sha256: str


@dataclass(frozen=True, slots=True)
class ChangedKernel:
    """A kernel whose cubin must have another SHA-256 than before."""

    name: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class KernelTableComparison:
    """Two tables: those of the runners for wheels and payloads, those of the headers for pools.

    Attributes:
        added: names only in the new one, in its order.
        removed: names only in the old one.
        changed: names with another digest.
        redescribed: names with the same digest for which the headers state other shared memory,
            threads or options.
        reordered: both hold the same in another order.
    """

    old: TableState
    new: TableState
    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[ChangedKernel, ...]
    redescribed: tuple[str, ...]
    reordered: bool

    @property
    def same(self) -> bool:
        """Whether the tables are equal."""
        return self.old == self.new and not self.redescribed


def compare_kernel_tables(
    old: Side, new: Side
) -> tuple[KernelTableComparison | None, tuple[Problem, ...]]:
    """Compare the tables of two sides.

    Returns:
        The comparison, None where neither side has a table or one cannot be read; and why a table
        cannot be read.
    """
    problems: list[Problem] = []
    (before, stated_before), (after, stated_after) = _table(old, problems), _table(new, problems)
    if problems or not (before.pairs or after.pairs):
        return None, tuple(problems)
    first, second = before.digests, after.digests
    added = tuple(name for name in second if name not in first)
    removed = tuple(name for name in first if name not in second)
    changed = tuple(
        ChangedKernel(name, digest, second[name])
        for name, digest in first.items()
        if name in second and second[name] != digest
    )
    differs = bool(added or removed or changed)
    return (
        KernelTableComparison(
            old=TableState(before.count, before.sha256),
            new=TableState(after.count, after.sha256),
            added=added,
            removed=removed,
            changed=changed,
            redescribed=tuple(
                name
                for name, digest in first.items()
                if second.get(name) == digest and stated_before[name] != stated_after[name]
            ),
            reordered=not differs and before.pairs != after.pairs,
        ),
        (),
    )


def _table(side: Side, problems: list[Problem]) -> tuple[KernelTable, dict[str, object]]:
    """The table of one side; and what headers state of a kernel besides its digest."""
    pairs: dict[str, str] = {}
    stated: dict[str, object] = {}
    try:
        for name, digest, rest in _rows(side):
            pairs.setdefault(name, digest)
            stated.setdefault(name, rest)
    except InputError as error:
        problems.extend(error.problems)
    return KernelTable(tuple(pairs.items())), stated


def _rows(side: Side) -> Iterator[tuple[str, str, object]]:
    for label, state in side.states.items():
        if state.is_elf and not label.endswith(FILE_SUFFIX):
            data = side.read(label)
            if not is_cubin(data):
                yield from ((*pair, None) for pair in read_kernel_table(data, label).pairs)
    if side.kind == "pool":
        for pool in open_pools(side.path):
            if pool.header_path is not None:
                for entry in pool.header.entries:
                    stated = (entry.shared_memory_bytes, entry.threads, entry.option_text)
                    yield entry.name, entry.sha256, stated
