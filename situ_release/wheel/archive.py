"""A wheel as an archive: its members, its faults, and one fast pass over its content.

The file is read into memory once, so that nothing that happens to it afterwards can be seen. The
central directory is read by :mod:`zipfile`; members are then inflated on every core, because
``verify`` has to read the whole wheel in hardly more time than one core needs. Unlike ``zipfile``,
nothing in the file may be left unexplained: bytes before, between or after the members are faults,
since two tools may then see two different wheels.
"""

from __future__ import annotations

import hashlib
import io
import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from situ_release.digests import sha256_bytes
from situ_release.errors import InputError, Problem, SituReleaseError, raise_all
from situ_release.wheel.layout import LOCAL_HEADER, end_record_faults, fault, local_header
from situ_release.wheel.structure import ENCRYPTED, excess_faults, structural_faults

MAX_WHEEL_BYTES = 1 << 30
"""Larger files are not read; the first bundle's wheel has 9 MB."""

MAX_CONTENT_BYTES = 1 << 30
"""Most bytes that all members together may declare: 30 times the first bundle."""

_BLOCK_BYTES = 16 << 20

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Member:
    """One entry of the central directory.

    Attributes:
        name: the path inside the wheel, ``/`` separated; folders end in ``/``.
        size: declared size of the content in bytes.
        compressed_size: size in the archive in bytes.
        crc: declared CRC-32 of the content.
        mode: Unix mode with the file type bits; 0 where the archive does not say.
        date: (year, month, day, hour, minute, second).
        compression: zip method; 0 stored, 8 deflated.
        flags: general purpose bit flags.
        offset: where the local header begins, in bytes from the start of the file.
    """

    name: str
    size: int
    compressed_size: int
    crc: int
    mode: int
    date: tuple[int, int, int, int, int, int]
    compression: int
    flags: int
    offset: int

    @property
    def is_dir(self) -> bool:
        """Whether the entry is a folder."""
        return self.name.endswith("/")


@dataclass(frozen=True, slots=True)
class MemberContent:
    """What reading a member gave.

    Attributes:
        size: bytes actually inflated.
        sha256: lower-case hexadecimal digest of them.
        data: the bytes, where they were asked for.
        fault: why the member cannot be read as declared; size and digest are then of what could be
            read, and ``data`` is None.
    """

    size: int
    sha256: str
    data: bytes | None = None
    fault: Problem | None = None


@dataclass(frozen=True, slots=True)
class WheelArchive:
    """A wheel as it was when it was read.

    Attributes:
        path: the file.
        members: every entry in the order of the central directory; empty if there is none, or if
            reading the members would not be safe.
        faults: structural faults, where a member's name is ``Problem.where`` ("" for the archive).
    """

    path: Path
    members: tuple[Member, ...]
    faults: tuple[Problem, ...]
    _view: memoryview

    @property
    def size(self) -> int:
        """Bytes of the file as it was read."""
        return len(self._view)

    @property
    def sha256(self) -> str:
        """Digest of the very bytes that were read, whatever lies at ``path`` by now."""
        return sha256_bytes(self._view)

    @property
    def files(self) -> tuple[Member, ...]:
        """The members that are not folders."""
        return tuple(member for member in self.members if not member.is_dir)

    def read(self, name: str) -> bytes:
        """The content of one member.

        Raises:
            InputError: there is no such member, or it is damaged.
        """
        for member in self.files:
            if member.name == name:
                content = self.content(member, keep=True)
                raise_all(InputError, in_wheel(self.path, [content.fault] if content.fault else []))
                return content.data or b""
        raise InputError.of(
            "the wheel has no such member",
            self.path,
            expected=name,
            found=f"{len(self.files)} other files",
            remedy="check that this is the right wheel",
        )

    def scan(self, keep: Callable[[str], bool]) -> dict[str, MemberContent]:
        """Read and hash every file in one pass over all cores.

        Memory is bounded by what is kept plus one block of 16 MiB for each core.

        Args:
            keep: given a member's name, whether its bytes are wanted.

        Returns:
            name -> content for all files, in the archive's order; a damaged member has a ``fault``.
        """
        wanted = {member.name: member for member in self.files}

        def work(member: Member) -> MemberContent:
            return self.content(member, keep(member.name))

        # The largest first, so that no core ends with a long tail.
        order = sorted(wanted.values(), key=lambda member: -member.size)
        read = dict(zip((member.name for member in order), on_all_cores(work, order), strict=True))
        return {name: read[name] for name in wanted}

    def content(self, member: Member, keep: bool) -> MemberContent:
        """Read and hash one file; see :meth:`scan`."""
        digest = hashlib.sha256()
        size = crc = 0
        kept: list[bytes] = []
        damage: Problem | None = None
        try:
            for block in self._blocks(member):
                digest.update(block)
                crc = zlib.crc32(block, crc)
                size += len(block)
                if keep:
                    kept.append(block)
            if size != member.size:
                raise _DamagedError(f"{member.size} bytes", f"{size} bytes")
            if crc != member.crc:
                raise _DamagedError(f"CRC-32 {member.crc:08x}", f"{crc:08x}")
        except _DamagedError as error:
            damage = fault("the member is damaged", member.name, error.expected, error.found)
        data = None
        if keep and damage is None:
            data = kept[0] if len(kept) == 1 else b"".join(kept)
        return MemberContent(size, digest.hexdigest(), data, damage)

    def packed(self, member: Member) -> bytes:
        """A member's bytes as they stand in the archive; fewer where the file ends before."""
        start, end = _data_span(self._view, member)
        return bytes(self._view[start:end])

    def _blocks(self, member: Member) -> Iterator[bytes]:
        start, end = _data_span(self._view, member)
        if end > len(self._view):
            raise _DamagedError("all of its compressed bytes", "the file ends before")
        packed = self._view[start:end]
        if member.size > MAX_CONTENT_BYTES:
            raise _DamagedError(f"at most {MAX_CONTENT_BYTES} bytes", f"{member.size} declared")
        if member.compression == zipfile.ZIP_STORED:
            for position in range(0, len(packed), _BLOCK_BYTES):
                yield bytes(packed[position : position + _BLOCK_BYTES])
        elif member.compression == zipfile.ZIP_DEFLATED and not member.flags & ENCRYPTED:
            yield from _inflate(packed, member.size)
        else:
            raise _DamagedError("stored or deflated content", f"method {member.compression}")


class _DamagedError(Exception):
    def __init__(self, expected: str, found: str) -> None:
        super().__init__(expected, found)
        self.expected = expected
        self.found = found


def open_wheel(path: Path) -> WheelArchive:
    """Open a wheel whose structure is sound.

    Raises:
        InputError: the file cannot be read, or has any of the faults of :func:`examine_wheel`.
    """
    archive = examine_wheel(path)
    raise_all(InputError, in_wheel(path, archive.faults))
    return archive


def examine_wheel(path: Path, *, content_limit: int | None = None) -> WheelArchive:
    """Read any file as a wheel; what is wrong with its structure is data, not an error.

    Args:
        path: the file.
        content_limit: most bytes that all members together may declare, MAX_CONTENT_BYTES where
            not given; a wheel above it has no members, so that nothing is inflated.

    Raises:
        InputError: the file is missing, cannot be read, is no regular file or larger than
            MAX_WHEEL_BYTES.
    """
    data = _read(path)
    view = memoryview(data)
    if faults := end_record_faults(view):
        return WheelArchive(path, (), tuple(faults), view)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            infos = archive.infolist()
    except _ZIP_ERRORS as error:
        found = str(error) or type(error).__name__
        unreadable = fault("not a readable zip archive", "", "a wheel (zip)", found)
        return WheelArchive(path, (), (unreadable,), view)
    if faults := excess_faults(view, infos, content_limit or MAX_CONTENT_BYTES):
        return WheelArchive(path, (), tuple(faults), view)
    members = tuple(_member(info) for info in infos)
    return WheelArchive(path, members, tuple(structural_faults(view, infos)), view)


def _read(path: Path) -> bytes:
    try:
        # Opening a FIFO would otherwise wait for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        found = getattr(error, "strerror", None) or str(error)
        raise _unreadable(path, "a readable file", found) from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            found = "a folder" if stat.S_ISDIR(status.st_mode) else "a FIFO, device or socket"
            raise _unreadable(path, "a regular file", found)
        if status.st_size > MAX_WHEEL_BYTES:
            expected = f"at most {MAX_WHEEL_BYTES} bytes"
            raise _unreadable(path, expected, f"{status.st_size} bytes")
        with open(descriptor, "rb", closefd=False) as stream:
            return stream.read(status.st_size)
    except OSError as error:
        found = error.strerror or str(error)
        raise _unreadable(path, "a readable file", found) from error
    finally:
        os.close(descriptor)


def _unreadable(path: Path, expected: str, found: str) -> SituReleaseError:
    return InputError.of(
        "cannot read the wheel", path, expected=expected, found=found, remedy="check the path"
    )


# What zipfile raises for arbitrary bytes: bad offsets, names and dates come through as ValueError,
# struct.error or OverflowError.
_ZIP_ERRORS = (
    zipfile.BadZipFile,
    NotImplementedError,
    ValueError,
    OverflowError,
    EOFError,
    struct.error,
)


def archive_faults(
    archive: WheelArchive, contents: Mapping[str, MemberContent] | None = None
) -> tuple[Problem, ...]:
    """Every structural fault, and every damaged member of a scan.

    ``Problem.where`` is the member's name, or "" for the archive as a whole.
    """
    damaged = [item.fault for item in (contents or {}).values() if item.fault]
    return (*archive.faults, *damaged)


def in_wheel(path: Path, problems: Iterable[Problem]) -> Iterator[Problem]:
    """The problems with the wheel's path before the member's name."""
    for problem in problems:
        where = f"{path}: {problem.where}" if problem.where else str(path)
        yield replace(problem, where=where)


def on_all_cores(function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """``function`` over ``items`` in threads (zlib and hashlib release the interpreter lock)."""
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return list(pool.map(function, items))


def _member(info: zipfile.ZipInfo) -> Member:
    return Member(
        name=info.filename,
        size=info.file_size,
        compressed_size=info.compress_size,
        crc=info.CRC,
        mode=info.external_attr >> 16,
        date=info.date_time,
        compression=info.compress_type,
        flags=info.flag_bits,
        offset=info.header_offset,
    )


def _inflate(packed: memoryview, size: int) -> Iterator[bytes]:
    """Raw deflate, never more than ``size`` + 1 bytes whatever the stream would expand to."""
    stream = zlib.decompressobj(-zlib.MAX_WBITS)
    left = size + 1
    source: memoryview | bytes = packed
    while left and not stream.eof:
        try:
            block = stream.decompress(source, min(left, _BLOCK_BYTES))
        except zlib.error as error:
            raise _DamagedError("a deflate stream", str(error)) from error
        source = stream.unconsumed_tail
        left -= len(block)
        if block:
            yield block
        elif not source and not stream.eof:
            raise _DamagedError("a complete deflate stream", "it ends early")
    if not left:
        raise _DamagedError(f"{size} bytes", "more than that")
    if stream.unused_data:
        raise _DamagedError("one deflate stream", f"{len(stream.unused_data)} bytes behind it")


def _data_span(view: memoryview, member: Member) -> tuple[int, int]:
    """Start and end of the member's compressed bytes, by its local header."""
    fields = local_header(view, member.offset)
    if fields is None:
        raise _DamagedError("a local header", f"none at offset {member.offset}")
    start = member.offset + LOCAL_HEADER.size + fields[9] + fields[10]
    return start, start + member.compressed_size
