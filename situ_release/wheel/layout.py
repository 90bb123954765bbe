"""The bytes of a wheel as a zip file: every one is accounted for, and said only once.

Zip readers find members by the end record, by a 64-bit record before it, or by the local headers.
All three ways must lead to the same members, so the fields that they use have to agree exactly, and
what gives a second answer (64-bit records, extra fields, comments) is refused: wheels have no use
for it.
"""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Iterator, Sequence
from itertools import islice

from situ_release.errors import Problem

LOCAL_HEADER = struct.Struct("<4s5H3L2H")
"""Signature, version, flags, method, time, date, CRC, packed size, size, name and extra lengths."""

_ENTRY = struct.Struct("<4s6H3L5H2L")
_END_RECORD = struct.Struct("<4s4H2LH")
_END_SIGNATURE = b"PK\x05\x06"
_LOCATOR_64 = struct.Struct("<4sLQL")
_MAX_COMMENT = 1 << 16
_HAS_DESCRIPTOR = 0x8
_REBUILD = "build the wheel again, or fetch it again"


def fault(what: str, where: str, expected: str, found: str) -> Problem:
    """A problem of the archive itself."""
    return Problem(what, where, expected, found, _REBUILD)


def local_header(view: memoryview, offset: int) -> tuple[int, ...] | None:
    """The fields of :data:`LOCAL_HEADER` (0 for the signature); None where there is no header."""
    if not 0 <= offset <= len(view) - LOCAL_HEADER.size:
        return None
    signature, *fields = LOCAL_HEADER.unpack_from(view, offset)
    return (0, *fields) if signature == b"PK\x03\x04" else None


def end_record_faults(view: memoryview) -> list[Problem]:
    """Why the end of the file does not lead to one central directory; empty if it does.

    Then there are at most 65,535 entries, and they fill the bytes from the directory's offset to
    the end record exactly.
    """
    end = _end(view)
    if end < 0:
        found = "a file that is not a zip file" if len(view) else "an empty file"
        return [fault("not a readable zip archive", "", "a wheel (zip)", found)]
    locator = end - _LOCATOR_64.size
    if locator >= 0 and _signed(view, locator, b"PK\x06\x07"):
        return [fault("the archive has a second, 64-bit end record", "", "one end record", "two")]
    _, disk, first_disk, here, count, size, offset, _ = _END_RECORD.unpack_from(view, end)
    what = "the end record does not fit the archive"
    if disk or first_disk or here != count or offset + size != end:
        expected = f"one disk, one count and a directory that ends at byte {end}"
        found = (
            f"disks {disk} and {first_disk}, counts {here} and {count} and a directory of {size} "
            f"bytes at byte {offset}"
        )
        return [fault(what, "", expected, found)]
    ends = [entry_end for _, _, entry_end in islice(_entries(view), count + 1)]
    if len(ends) != count or [offset, *ends][-1] != end:
        return [fault(what, "", f"{count} entries in {size} bytes", "others, or damaged ones")]
    return []


def layout_faults(view: memoryview, infos: Sequence[zipfile.ZipInfo]) -> Iterator[Problem]:
    """Bytes that no entry accounts for, and local headers that say something else.

    Args:
        view: the whole file, whose end record is sound.
        infos: the central directory's entries in its order.
    """
    position = 0
    pairs = zip(infos, _entries(view), strict=True)
    for info, (stated, raw_name, _) in sorted(pairs, key=lambda pair: pair[0].header_offset):
        name = info.filename
        if gap := info.header_offset - position:
            yield _gap_fault(gap, f"before {name}")
        fields = local_header(view, info.header_offset)
        if fields is None:
            expected, found = "a local header", f"none at offset {info.header_offset}"
            yield fault("the archive is damaged", name, expected, found)
            return
        name_start = info.header_offset + LOCAL_HEADER.size
        local_name = bytes(view[name_start : name_start + fields[9]])
        if local_name != raw_name:
            found = repr(local_name)[1:]
            yield fault("two names for one member", name, "the directory's name", found)
        streamed = stated[0] & _HAS_DESCRIPTOR
        local = fields[2:9]
        if local != stated and not (streamed and local == (*stated[:4], 0, 0, 0)):
            expected, found = "what the directory says", "other flags, method, time, CRC or size"
            yield fault("two descriptions of one member", name, expected, found)
        if info.extra or fields[10]:
            found = f"{len(info.extra)} bytes in the directory, {fields[10]} before the member"
            yield fault("the member has extra fields", name, "none", found)
        if info.comment or info.volume:
            expected, found = "no comment and disk 0", f"{len(info.comment)} bytes, {info.volume}"
            yield fault("the member has a comment or a disk number", name, expected, found)
        position = name_start + fields[9] + fields[10] + info.compress_size
        if streamed:
            size = _descriptor_size(view, position, stated[4:])
            if not size:
                expected, found = "CRC and sizes as the directory has them", "other bytes"
                yield fault("the data descriptor does not fit", name, expected, found)
            position += size
    end = _end(view)
    *_, directory, comment = _END_RECORD.unpack_from(view, end)
    if gap := directory - position:
        yield _gap_fault(gap, "before the central directory")
    if comment or end + _END_RECORD.size != len(view):
        expected, found = "the end record last", "a comment or other bytes behind it"
        yield fault("data after the end of the archive", "", expected, found)


def _end(view: memoryview) -> int:
    """Where the last end record begins, before at most 65,536 bytes; -1 if there is none."""
    last = len(view) - _END_RECORD.size
    start = max(last - _MAX_COMMENT, 0)
    found = bytes(view[start : max(last + len(_END_SIGNATURE), 0)]).rfind(_END_SIGNATURE)
    return start + found if last >= 0 and found >= 0 else -1


def _entries(view: memoryview) -> Iterator[tuple[tuple[int, ...], bytes, int]]:
    """The directory's entries up to the end record or the first damaged one.

    Each as flags, method, time, date, CRC, packed size and size; the raw name; the entry's end.
    """
    end = _end(view)
    position = _END_RECORD.unpack_from(view, end)[6]
    while position <= end - _ENTRY.size and _signed(view, position, b"PK\x01\x02"):
        fields = _ENTRY.unpack_from(view, position)
        name_start = position + _ENTRY.size
        position = name_start + sum(fields[10:13])
        yield fields[3:10], bytes(view[name_start : name_start + fields[10]]), position


def _descriptor_size(view: memoryview, position: int, stated: tuple[int, ...]) -> int:
    """Length of the descriptor there, with or without its signature; 0 if there is none."""
    plain = struct.pack("<3L", *stated)
    for descriptor in (b"PK\x07\x08" + plain, plain):
        if _signed(view, position, descriptor):
            return len(descriptor)
    return 0


def _signed(view: memoryview, position: int, signature: bytes) -> bool:
    return bytes(view[position : position + len(signature)]) == signature


def _gap_fault(gap: int, where: str) -> Problem:
    what = "unexplained bytes in the archive" if gap > 0 else "members overlap"
    return fault(what, "", "members without gaps", f"{gap} bytes {where}")
