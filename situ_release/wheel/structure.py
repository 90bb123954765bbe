"""What may be wrong with a wheel's structure as a zip file, before any content is read.

Installers, indexes and attestations read zip files in different ways. Whatever could show two of
them two different wheels is a fault, and so is whatever an installer must not unpack.
"""

from __future__ import annotations

import stat
import struct
import zipfile
from collections.abc import Iterator, Sequence

from situ_release.errors import Problem

LOCAL_HEADER = struct.Struct("<4s5H3L2H")
"""Signature, version, flags, method, time, date, CRC, packed size, size, name and extra lengths."""

ENCRYPTED = 0x1 | 0x40
"""Flag bits of encrypted members."""

_END_RECORD = struct.Struct("<4s4H2LH")
_HAS_DESCRIPTOR = 0x8
_UTF8_NAME = 0x800
_SIZE_64 = 0xFFFFFFFF  # stands for a 64-bit size in an extra field
_DESCRIPTOR_SIZES = (12, 16, 20, 24)  # with or without signature, 32- or 64-bit sizes
_REBUILD = "build the wheel again, or fetch it again"


def structural_faults(
    view: memoryview, infos: Sequence[zipfile.ZipInfo], directory: int, limit: int
) -> list[Problem]:
    """Faults of names, members and layout; ``Problem.where`` is the member, "" for the archive.

    Args:
        view: the whole file.
        infos: the central directory's entries.
        directory: where the central directory begins, in bytes.
        limit: most bytes that all members together may declare.
    """
    return [
        *_name_faults(infos),
        *_member_faults(infos, limit),
        *_layout_faults(view, infos, directory),
    ]


def fault(what: str, where: str, expected: str, found: str) -> Problem:
    """A problem of the archive itself."""
    return Problem(what, where, expected, found, _REBUILD)


def local_header(view: memoryview, offset: int) -> tuple[int, ...] | None:
    """The fields of :data:`LOCAL_HEADER` (0 for the signature); None where there is no header."""
    if not 0 <= offset <= len(view) - LOCAL_HEADER.size:
        return None
    signature, *fields = LOCAL_HEADER.unpack_from(view, offset)
    return (0, *fields) if signature == b"PK\x03\x04" else None


def _unsafe(name: str) -> str:
    """Why a member must not be unpacked under this name; "" if it may."""
    parts = name.removesuffix("/").split("/")
    if name.startswith("/") or (len(name) > 1 and name[1] == ":"):
        return "an absolute path"
    if "\\" in name:
        return "a backslash"
    if ".." in parts:
        return "a .. component"
    if "." in parts or "" in parts:
        return "an empty or . component"
    if not name.isprintable():
        return "an unprintable character"
    return ""


def _name_faults(infos: Sequence[zipfile.ZipInfo]) -> Iterator[Problem]:
    files: set[str] = set()
    seen: dict[str, str] = {}
    for info in infos:
        name = info.orig_filename
        if reason := _unsafe(name):
            shown = name.encode("unicode_escape").decode() if not name.isprintable() else name
            yield fault("unsafe member name", shown, "a plain relative path", reason)
        first = seen.setdefault(name.casefold(), name)
        if name in files:
            yield fault("duplicate member", name, "one entry of that name", "two")
        elif first != name:
            yield fault("names differ only by case", name, "distinct names", first)
        files.add(name)
    folders = {
        name[:position]
        for name in files
        for position, character in enumerate(name)
        if character == "/"
    }
    for name in sorted(files & folders):
        yield fault("a file and a folder have one name", name, "one of them", "both")


def _member_faults(infos: Sequence[zipfile.ZipInfo], limit: int) -> Iterator[Problem]:
    for info in infos:
        name, kind = info.filename, stat.S_IFMT(info.external_attr >> 16)
        if info.flag_bits & ENCRYPTED:
            yield fault("the member is encrypted", name, "plain content", "encryption flag")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            found = f"method {info.compress_type}"
            yield fault("unsupported compression", name, "stored or deflated", found)
        if kind == stat.S_IFLNK:
            yield fault("the member is a symbolic link", name, "a regular file", "a link")
        elif kind not in (0, stat.S_IFREG, stat.S_IFDIR):
            yield fault("the member is a special file", name, "a regular file", oct(kind))
        if name.endswith("/") and info.file_size:
            yield fault("a folder entry has content", name, "0 bytes", f"{info.file_size} bytes")
    total = sum(info.file_size for info in infos)
    if total > limit:
        expected = f"at most {limit} bytes in all"
        yield fault("the wheel declares too much content", "", expected, f"{total} bytes")


def _layout_faults(
    view: memoryview, infos: Sequence[zipfile.ZipInfo], directory: int
) -> Iterator[Problem]:
    """Bytes that no entry accounts for, and local headers that say something else."""
    position = 0
    slack: tuple[int, ...] = (0,)
    for info in sorted(infos, key=lambda info: info.header_offset):
        gap = info.header_offset - position
        if gap not in slack:
            yield _gap_fault(info.filename, gap)
        fields = local_header(view, info.header_offset)
        if fields is None:
            expected, found = "a local header", f"none at offset {info.header_offset}"
            yield fault("the archive is damaged", info.filename, expected, found)
            return
        name_start = info.header_offset + LOCAL_HEADER.size
        local_name = bytes(view[name_start : name_start + fields[9]])
        encoding = "utf-8" if info.flag_bits & _UTF8_NAME else "cp437"
        if local_name != info.orig_filename.encode(encoding, "replace"):
            found = repr(local_name)[1:]
            yield fault("two names for one member", info.filename, "the directory's name", found)
        streamed = info.flag_bits & _HAS_DESCRIPTOR
        stated = (info.compress_type, info.CRC, info.compress_size, info.file_size)
        local = (fields[3], *fields[6:9])
        if not streamed and local != stated and _SIZE_64 not in local:
            expected, found = "what the directory says", "another method, CRC or size before it"
            yield fault("two descriptions of one member", info.filename, expected, found)
        position = name_start + fields[9] + fields[10] + info.compress_size
        slack = _DESCRIPTOR_SIZES if streamed else (0,)
    if directory - position not in slack:
        yield _gap_fault("", directory - position)
    end = len(view) - _END_RECORD.size
    if _END_RECORD.unpack_from(view, end)[0] != b"PK\x05\x06":
        expected, found = "the end record last", "a comment or other bytes behind it"
        yield fault("data after the end of the archive", "", expected, found)


def _gap_fault(before: str, gap: int) -> Problem:
    where = f"before {before}" if before else "before the central directory"
    what = "unexplained bytes in the archive" if gap > 0 else "members overlap"
    return Problem(what, "", "members without gaps", f"{gap} bytes {where}", _REBUILD)
