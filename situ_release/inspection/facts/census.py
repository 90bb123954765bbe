"""Many cubins: every one read on all cores, and what they have in common."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from pathlib import Path
from typing import Union

from situ_release.errors import HostError, InputError
from situ_release.inspection.facts.cubin import CubinFacts, cubin_facts
from situ_release.sources.files import SourceFiles, open_source
from situ_release.wheel.archive import on_all_cores

_WORTH_PROCESSES = 512  # cubins; starting processes costs as much as reading some hundred
_MOST_PROCESSES = 8  # each takes some 40 MB, which together stays under 500 MB
_CHUNK = 64


@dataclass(frozen=True, slots=True)
class CubinFile:
    """A cubin by its path below the pool, package or wheel."""

    path: str
    cubin: CubinFacts


@dataclass(frozen=True, slots=True)
class UnreadableFile:
    """A file that is named like a binary and is none.

    Attributes:
        what: the fault ("not a cubin").
        found: what it is instead ("a git-LFS pointer, not the file itself").
    """

    path: str
    what: str
    found: str


@dataclass(frozen=True, slots=True)
class TargetGroup:
    """Cubins for one SM; ``arch_specific`` is None where they do not say."""

    target: str
    arch_specific: bool | None
    count: int
    bytes: int


@dataclass(frozen=True, slots=True)
class ToolchainGroup:
    """Cubins that one tool wrote with the same options; ``producer`` is "" where none is named."""

    producer: str
    version: str
    options: str
    count: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Census:
    """Cubins and what they have in common.

    Attributes:
        count: readable cubins.
        bytes: their size in all.
        targets: by SM, the largest groups first.
        toolchains: by tool, the largest groups first.
        line_info: how many were compiled with line info.
        with_paths: how many hold absolute build paths.
        unreadable: files that are named like cubins and cannot be read as one.
        cubins: every cubin, by path.
    """

    count: int
    bytes: int
    targets: tuple[TargetGroup, ...]
    toolchains: tuple[ToolchainGroup, ...]
    line_info: int
    with_paths: int
    unreadable: tuple[UnreadableFile, ...]
    cubins: tuple[CubinFile, ...] = field(repr=False)

    @property
    def largest(self) -> tuple[CubinFile, ...]:
        """The cubins by size, largest first."""
        return tuple(sorted(self.cubins, key=lambda file: (-file.cubin.size, file.path)))

    @property
    def hungriest(self) -> tuple[CubinFile, ...]:
        """The cubins by the registers of their hungriest kernel, most first."""
        return tuple(sorted(self.cubins, key=lambda file: (-file.cubin.most_registers, file.path)))


Reading = Union[CubinFile, UnreadableFile]  # noqa: UP007 - evaluated at run time on Python 3.10


def census(readings: Iterable[Reading]) -> Census:
    """What cubins that were read have in common."""
    cubins: list[CubinFile] = []
    unreadable: list[UnreadableFile] = []
    targets: Counter[tuple[str, bool | None]] = Counter()
    target_bytes: Counter[tuple[str, bool | None]] = Counter()
    tools: Counter[tuple[str, str, str]] = Counter()
    tool_bytes: Counter[tuple[str, str, str]] = Counter()
    for reading in readings:
        if isinstance(reading, UnreadableFile):
            unreadable.append(reading)
            continue
        cubins.append(reading)
        cubin, made = reading.cubin, reading.cubin.toolchain
        target = (cubin.target, cubin.arch_specific)
        tool = (made.producer, made.version, made.options) if made else ("", "", "")
        targets[target] += 1
        target_bytes[target] += cubin.size
        tools[tool] += 1
        tool_bytes[tool] += cubin.size
    return Census(
        count=len(cubins),
        bytes=sum(file.cubin.size for file in cubins),
        targets=tuple(
            TargetGroup(*key, count, target_bytes[key])
            for key, count in sorted(targets.items(), key=lambda item: (-item[1], str(item[0])))
        ),
        toolchains=tuple(
            ToolchainGroup(*key, count, tool_bytes[key])
            for key, count in sorted(tools.items(), key=lambda item: (-item[1], item[0]))
        ),
        line_info=sum(file.cubin.has_line_info for file in cubins),
        with_paths=sum(bool(file.cubin.embedded_paths) for file in cubins),
        unreadable=tuple(sorted(unreadable, key=lambda file: file.path)),
        cubins=tuple(sorted(cubins, key=lambda file: file.path)),
    )


def read_cubin_files(files: SourceFiles, root: Path, paths: Sequence[str]) -> list[Reading]:
    """Read cubins of a pool on all cores (up to eight); what cannot be read is data, not an error.

    Thousands are read by processes, since taking ELF files apart holds the interpreter lock. They
    are forked, which only a process of a single thread may do; in any other, threads do the work.

    Args:
        files: the pool's files.
        root: the path that :func:`situ_release.sources.files.open_source` opens as ``files``.
        paths: relative paths, in the order of the result.

    Raises:
        HostError: the system ended one of the processes.
    """
    if len(paths) < _WORTH_PROCESSES or threading.active_count() > 1:
        return on_all_cores(lambda path: read_cubin_file(files, path), paths)
    try:
        with ProcessPoolExecutor(
            min(len(os.sched_getaffinity(0)), _MOST_PROCESSES),
            multiprocessing.get_context("fork"),
            initializer=_open,
            initargs=(root,),
        ) as workers:
            return list(workers.map(_read_in_worker, paths, chunksize=_CHUNK))
    except BrokenProcessPool as error:
        raise HostError.of(
            "a process that reads cubins was ended by the system",
            root,
            expected="memory for one process on each core",
            found="a process that was killed",
            remedy="free memory, or bind the command to fewer cores (taskset)",
        ) from error


def read_cubin_file(files: SourceFiles, path: str) -> Reading:
    """One cubin, or why it cannot be read."""
    try:
        return read_cubin_data(files.read(path), path)
    except InputError as error:
        return unreadable_file(path, error)


def read_cubin_data(data: bytes, path: str) -> Reading:
    """The same for content that was read already."""
    try:
        return CubinFile(path, cubin_facts(data, path))
    except InputError as error:
        return unreadable_file(path, error)


def unreadable_file(path: str, error: InputError) -> UnreadableFile:
    """Why a file could not be read, from the error that says so."""
    problem = error.problems[0]
    return UnreadableFile(path, problem.what, problem.found)


# A forked process shares the parent's open file and its position in it, so each opens its own.
_of_worker: list[SourceFiles] = []


def _open(root: Path) -> None:
    _of_worker[:] = [open_source(root, "pool")]


def _read_in_worker(path: str) -> Reading:
    return read_cubin_file(_of_worker[0], path)
