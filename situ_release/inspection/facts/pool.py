"""Facts of a pool: its cubins, its table, its checksums, and whether they agree."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from situ_release.digests import sha256_bytes
from situ_release.errors import InputError, Problem
from situ_release.inspection.facts.census import Census, census, read_cubin_files
from situ_release.inspection.facts.header import HeaderSummary, header_summary
from situ_release.sources import checksums, marker
from situ_release.sources.checksums import Checksums
from situ_release.sources.files import join
from situ_release.sources.kernel_name import FILE_SUFFIX, cubin_filename
from situ_release.sources.metadata_header import MetadataHeader
from situ_release.sources.pool import CONFIG, Pool
from situ_release.wheel.archive import on_all_cores

Read = TypeVar("Read")

_NEVER_LISTED = (checksums.FILENAME, CONFIG, marker.FILENAME)


@dataclass(frozen=True, slots=True)
class ChecksumFacts:
    """``checksums.txt`` against the files of the pool, each list sorted.

    Attributes:
        count: lines.
        wrong: files with another digest than the stated one, and files that cannot be read.
        missing: listed, and no such file.
        unlisted: files without a line that should have one.
    """

    count: int
    sha256: str
    wrong: tuple[str, ...]
    missing: tuple[str, ...]
    unlisted: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TableAgreement:
    """The header's table against the cubins of the pool, each list sorted.

    Attributes:
        matching: kernels whose cubin has the digest that the table states.
        wrong: kernels whose cubin has another one.
        missing: kernels without a cubin.
        unlisted: cubins of no kernel.
    """

    matching: int
    wrong: tuple[str, ...]
    missing: tuple[str, ...]
    unlisted: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PoolFacts:
    """One pool.

    Attributes:
        name: its folder's name.
        where: its path as it can be given to this tool again.
        config_sha256: SHA-256 of its ``config.json``; None without one.
        recovered_from: the wheel it was recovered from; None for an original.
        header_path: relative path of the metadata header; None without one.
        header: None where there is none or it cannot be read.
        checksums: None where there are none or they cannot be read.
        agreement: None without a readable header.
        problems: why header, checksums or marker cannot be read.
        other_files: everything that is no cubin, relative.
        refused: reason by path for links, devices and the like.
        cubins: what the cubins say.
    """

    name: str
    where: str
    config_sha256: str | None
    recovered_from: str | None
    header_path: str | None
    header: HeaderSummary | None
    checksums: ChecksumFacts | None
    agreement: TableAgreement | None
    problems: tuple[Problem, ...]
    other_files: tuple[str, ...]
    refused: Mapping[str, str]
    cubins: Census


def pool_facts(pool: Pool) -> PoolFacts:
    """Facts of a pool; every file of it is read.

    Raises:
        HostError: the system ended a process that reads cubins.
    """
    paths: list[str] = []
    refused: dict[str, str] = {}
    for folder, listing in pool.files.walk():
        paths += (join(folder, name) for name in listing.files)
        refused |= {join(folder, name): reason for name, reason in listing.refused.items()}
    cubin_paths = sorted(path for path in paths if path.endswith(FILE_SUFFIX))
    others = sorted(path for path in paths if not path.endswith(FILE_SUFFIX))
    counted = census(read_cubin_files(pool.files, Path(pool.where), cubin_paths))

    problems: list[Problem] = []
    header = None if pool.header_path is None else _read(lambda: pool.header, problems)
    stated = None
    if pool.files.has(checksums.FILENAME):
        stated = _read(lambda: pool.checksums, problems)
    origin = _read(lambda: pool.marker, problems)
    return PoolFacts(
        name=pool.name,
        where=pool.where,
        config_sha256=_read(lambda: pool.config_sha256, problems),
        recovered_from=origin.wheel if origin else None,
        header_path=pool.header_path,
        header=_summary(pool, header),
        checksums=None if stated is None else _compare_checksums(pool, stated, counted, others),
        agreement=None if header is None else _compare_table(header, counted),
        problems=tuple(problems),
        other_files=tuple(others),
        refused=refused,
        cubins=counted,
    )


def _read(read: Callable[[], Read], problems: list[Problem]) -> Read | None:
    """What ``read`` returns; its problems are collected."""
    try:
        return read()
    except InputError as error:
        problems.extend(error.problems)
        return None


def _summary(pool: Pool, header: MetadataHeader | None) -> HeaderSummary | None:
    if header is None or pool.header_path is None:
        return None
    return header_summary(header, len(pool.read(pool.header_path)))


def _compare_checksums(
    pool: Pool, stated: Checksums, counted: Census, others: Iterable[str]
) -> ChecksumFacts:
    def digest(path: str) -> str:
        try:
            return sha256_bytes(pool.read(path))
        except InputError:
            return ""  # listed among the wrong ones

    rest = [path for path in others if path not in _NEVER_LISTED]
    rest += [file.path for file in counted.unreadable]
    digests = dict(zip(rest, on_all_cores(digest, rest), strict=True))
    digests |= {file.path: file.cubin.sha256 for file in counted.cubins}
    return ChecksumFacts(
        count=len(stated),
        sha256=stated.sha256,
        wrong=tuple(
            sorted(
                path
                for path, sha256 in stated.digests.items()
                if digests.get(path, sha256) != sha256
            )
        ),
        missing=tuple(sorted(stated.digests.keys() - digests.keys())),
        unlisted=tuple(sorted(digests.keys() - stated.digests.keys())),
    )


def _compare_table(header: MetadataHeader, counted: Census) -> TableAgreement:
    digests: dict[str, set[str]] = {}
    for file in counted.cubins:
        digests.setdefault(file.path.rpartition("/")[2], set()).add(file.cubin.sha256)
    wrong, missing, named = [], [], set()
    for entry in header.entries:
        try:
            filename = cubin_filename(entry.name)
        except InputError:
            filename = f"{entry.name}{FILE_SUFFIX}"
        named.add(filename)
        if filename not in digests:
            missing.append(entry.name)
        elif digests[filename] != {entry.sha256}:
            wrong.append(entry.name)
    return TableAgreement(
        matching=len(header) - len(wrong) - len(missing),
        wrong=tuple(sorted(wrong)),
        missing=tuple(sorted(missing)),
        unlisted=tuple(
            sorted(f.path for f in counted.cubins if f.path.rpartition("/")[2] not in named)
        ),
    )
