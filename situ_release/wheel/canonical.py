"""The last pass over a wheel: one content has one file, whatever tool wrote the archive before.

Order, times, modes, compression and RECORD are decided here alone. What remains is the content and
the zlib that compressed it: two hosts with one zlib version make byte-identical wheels.
"""

from __future__ import annotations

import hashlib
import os
import struct
import zipfile
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from situ_release.bundle.provenance import source_date_epoch
from situ_release.errors import InputError, raise_all
from situ_release.wheel.archive import Member, WheelArchive, in_wheel, on_all_cores
from situ_release.wheel.record import RECORD, write_record

EPOCH_VARIABLE = "SOURCE_DATE_EPOCH"
_ZIP_TIMES = range(315532800, 4354819200)  # the years 1980 to 2107
# On the first bundle, 7 and 7 save 52 KB against zlib's defaults (level 6, memory level 8; the
# published wheel has these) for half as much time again: more, smaller blocks suit binaries of many
# parts. Level 8 saves 32 KB more and takes twice as long.
_LEVEL = 7
_MEMORY_LEVEL = 7
_MODE = 0o100644
_MAX_MEMBERS = 0xFFFF
_LOCAL = struct.Struct("<4s5H3L2H")
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_END = struct.Struct("<4s4H2LH")
_UNIX_VERSION_20 = 3 << 8 | 20
_VERSION_20 = 20
_UTF8_NAME = 0x800


@dataclass(frozen=True, slots=True)
class _Packed:
    """A member ready to be written; sizes in bytes."""

    name: str
    sha256: str
    size: int
    crc: int
    method: int
    data: bytes


def archive_epoch(generated_at: str, where: str) -> int:
    """The time of every member: SOURCE_DATE_EPOCH, else the manifest's ``generated_at``.

    Args:
        generated_at: ISO 8601 with offset.
        where: the manifest, used in errors.

    Returns:
        Seconds since 1970-01-01 UTC, within the years that a zip archive can express.

    Raises:
        UsageError: SOURCE_DATE_EPOCH is no such number.
        InputError: ``generated_at`` is no such time.
    """
    stated = source_date_epoch(os.environ)
    if stated is not None:
        return stated
    try:
        moment = datetime.fromisoformat(generated_at.replace("Z", "+00:00"))
    except ValueError:
        moment = None
    seconds = int(moment.timestamp()) if moment is not None and moment.tzinfo else -1
    if seconds not in _ZIP_TIMES:
        raise InputError.of(
            "generated_at is not a usable time stamp",
            where,
            expected="ISO 8601 with an offset, 1980 to 2107",
            found=repr(generated_at[:80]),
            remedy=f"stage the payload again, or set {EPOCH_VARIABLE}",
        )
    return seconds


def write_canonical(
    source: WheelArchive,
    target: Path,
    *,
    dist_info: str,
    epoch: int,
    replaced: Mapping[str, bytes],
) -> None:
    """Write the files of a wheel anew: sorted, dated, 0644, without folder entries, new RECORD.

    The dist-info folder comes last and RECORD at its end, as installers like it. All members are
    inflated and deflated on all cores; memory is bounded by the compressed wheel and one
    uncompressed member for each core.

    Args:
        source: the wheel as a tool left it.
        target: the file to write.
        dist_info: name of the dist-info folder.
        epoch: time of every member, seconds since 1970 UTC.
        replaced: new content of members, by name.

    Raises:
        InputError: a member is damaged, or there are more than a zip without extensions can hold.
    """
    record = f"{dist_info}/{RECORD}"
    rewritten = {record, *replaced}
    members = [member for member in source.files if member.name not in rewritten]
    if len(members) >= _MAX_MEMBERS:
        raise InputError.of(
            "too many files for a wheel",
            source.path,
            expected=f"fewer than {_MAX_MEMBERS}",
            found=str(len(members)),
            remedy="split the bundle",
        )
    order = sorted(members, key=lambda member: -member.size)
    packed = on_all_cores(lambda member: _repack(source, member), order)
    packed.extend(_pack(name, data) for name, data in replaced.items())
    packed.sort(key=lambda item: (item.name.startswith(f"{dist_info}/"), item.name))
    digests = {item.name: (item.sha256, item.size) for item in packed}
    packed.append(_pack(record, write_record(digests, dist_info)))
    _write_zip(target, packed, epoch)


def deflated_here(archive: WheelArchive, names: Collection[str]) -> bool:
    """Whether this zlib makes the compressed bytes of the named members again, exactly.

    Raises:
        InputError: one of the members is damaged.
    """
    members = [member for member in archive.files if member.name in names]
    return all(_repack(archive, member).data == archive.packed(member) for member in members)


def _repack(source: WheelArchive, member: Member) -> _Packed:
    content = source.content(member, keep=True)
    raise_all(InputError, in_wheel(source.path, [content.fault] if content.fault else []))
    return _pack(member.name, content.data or b"", content.sha256)


def _pack(name: str, data: bytes, sha256: str | None = None) -> _Packed:
    stream = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS, _MEMORY_LEVEL)
    deflated = stream.compress(data) + stream.flush()
    smaller = len(deflated) < len(data)
    return _Packed(
        name=name,
        sha256=sha256 or hashlib.sha256(data).hexdigest(),
        size=len(data),
        crc=zlib.crc32(data),
        method=zipfile.ZIP_DEFLATED if smaller else zipfile.ZIP_STORED,
        data=deflated if smaller else data,
    )


def _write_zip(target: Path, packed: Sequence[_Packed], epoch: int) -> None:
    """A zip with nothing optional in it: no extra fields, descriptors, comments or 64-bit sizes."""
    time, date = _dos_time(epoch)
    directory = bytearray()
    with target.open("wb") as stream:
        for item in packed:
            name = item.name.encode("utf-8")
            flags = 0 if item.name.isascii() else _UTF8_NAME
            common = (
                flags,
                item.method,
                time,
                date,
                item.crc,
                len(item.data),
                item.size,
                len(name),
            )
            offset = stream.tell()
            directory += _CENTRAL.pack(
                b"PK\x01\x02",
                _UNIX_VERSION_20,
                _VERSION_20,
                *common,
                0,
                0,
                0,
                0,
                _MODE << 16,
                offset,
            )
            directory += name
            stream.write(_LOCAL.pack(b"PK\x03\x04", _VERSION_20, *common, 0))
            stream.write(name)
            stream.write(item.data)
        offset, count = stream.tell(), len(packed)
        stream.write(directory)
        stream.write(_END.pack(b"PK\x05\x06", 0, 0, count, count, len(directory), offset, 0))


def _dos_time(epoch: int) -> tuple[int, int]:
    """Time and date as a zip has them, in UTC; seconds are even there."""
    moment = datetime.fromtimestamp(epoch, timezone.utc)
    time = moment.hour << 11 | moment.minute << 5 | moment.second // 2
    return time, (moment.year - 1980) << 9 | moment.month << 5 | moment.day
