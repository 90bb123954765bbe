"""Zip files that two readers would read in two ways, written byte by byte."""

from __future__ import annotations

import os
import resource
import struct
import threading
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from situ_release.errors import InputError
from situ_release.wheel import archive as archive_module
from situ_release.wheel.archive import archive_faults, examine_wheel
from tests.synth.wheel import make_wheel

NAME = b"a/x.py"
DATA = b"print('hello')\n" * 9
STREAMED = 0x808


def fields(**changed: int | bytes) -> dict[str, int | bytes]:
    """What both headers say of the one member."""
    packed = deflated(DATA)
    return {
        "flags": 0,
        "method": 8,
        "time": 0,
        "date": 0x5021,
        "crc": zlib.crc32(DATA),
        "packed": len(packed),
        "size": len(DATA),
        "name": NAME,
        "extra": b"",
        "comment": b"",
        "disk": 0,
        "attributes": 0o100644 << 16,
        **changed,
    }


def deflated(data: bytes) -> bytes:
    stream = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    return stream.compress(data) + stream.flush()


def wheel(
    *,
    local: Mapping[str, int | bytes] | None = None,
    central: Mapping[str, int | bytes] | None = None,
    content: bytes | None = None,
    descriptor: bytes = b"",
    before_end: bytes = b"",
    end: Mapping[str, int] | None = None,
    repeat: int = 1,
) -> bytes:
    """A zip of one member (listed ``repeat`` times), with every field to choose."""
    first, second = fields(**(local or {})), fields(**(central or {}))
    order = ("flags", "method", "time", "date", "crc", "packed", "size")
    name, extra = (bytes(first[key]) for key in ("name", "extra"))
    body = struct.pack(
        "<4s5H3L2H",
        b"PK\3\4",
        20,
        *(first[key] for key in order),
        len(name),
        len(extra),
    )
    body += name + extra + (deflated(DATA) if content is None else content) + descriptor
    parts = [bytes(second[key]) for key in ("name", "extra", "comment")]
    directory = struct.pack(
        "<4s6H3L5H2L",
        b"PK\1\2",
        3 << 8 | 20,
        20,
        *(second[key] for key in order),
        *map(len, parts),
        second["disk"],
        0,
        second["attributes"],
        0,
    )
    directory = (directory + b"".join(parts)) * repeat
    stated = {
        "disk": 0,
        "first_disk": 0,
        "here": repeat,
        "count": repeat,
        "size": len(directory),
        "offset": len(body),
        "comment": 0,
        **(end or {}),
    }
    return body + directory + before_end + struct.pack("<4s4H2LH", b"PK\5\6", *stated.values())


def faults(path: Path, data: bytes) -> list[str]:
    path.write_bytes(data)
    archive = examine_wheel(path)
    return [str(fault) for fault in archive_faults(archive, archive.scan(lambda name: True))]


def test_the_plain_form_is_sound(tmp_path: Path) -> None:
    assert faults(tmp_path / "x.whl", wheel()) == []


@pytest.mark.parametrize(
    "end",
    [
        {"here": 3, "count": 3},
        {"here": 0, "count": 0},
        {"here": 0},
        {"disk": 7},
        {"first_disk": 9},
        {"size": 0xFFFFFFF0},
        {"size": 0xFFFFFFFF},
        {"size": 1},
        {"offset": 1000},
        {"offset": 0xFFFFFFFF},
    ],
)
def test_an_end_record_that_does_not_fit(tmp_path: Path, end: dict[str, int]) -> None:
    (fault,) = faults(tmp_path / "x.whl", wheel(end=end))
    assert fault.startswith("the end record does not fit the archive: expected ")


def test_a_comment_that_is_not_there(tmp_path: Path) -> None:
    (fault,) = faults(tmp_path / "x.whl", wheel(end={"comment": 1}))
    assert fault.startswith("data after the end of the archive")


def test_bytes_between_directory_and_end_record(tmp_path: Path) -> None:
    (fault,) = faults(tmp_path / "x.whl", wheel(before_end=b"hidden"))
    assert fault.startswith("the end record does not fit the archive")


@pytest.mark.parametrize("decoy", [False, True])
def test_a_64_bit_end_record_may_point_elsewhere(tmp_path: Path, decoy: bool) -> None:
    """Some readers follow the locator, others the end record: two wheels in one file."""
    plain = wheel()
    offset, size = struct.unpack_from("<LL", plain, len(plain) - 10)[::-1]
    record = struct.pack(
        "<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, 1, 1, size, 0 if decoy else offset
    )
    tail = record + struct.pack("<4sLQL", b"PK\6\7", 0, offset + size, 1)
    for end in ({}, {"here": 0xFFFF, "count": 0xFFFF, "size": 0xFFFFFFFF, "offset": 0xFFFFFFFF}):
        (fault,) = faults(tmp_path / "x.whl", wheel(before_end=tail, end=end))
        assert fault.startswith("the archive has a second, 64-bit end record")


@pytest.mark.parametrize(
    ("identifier", "value"),
    [
        (0x0001, struct.pack("<QQ", len(DATA), 5)),
        (0x7075, struct.pack("<BL", 1, zlib.crc32(NAME)) + b"a/evil.py"),
        (0xCAFE, b"PK\3\4" * 100),
    ],
)
@pytest.mark.parametrize("header", ["local", "central"])
def test_extra_fields(tmp_path: Path, identifier: int, value: bytes, header: str) -> None:
    extra = struct.pack("<HH", identifier, len(value)) + value
    data = wheel(local={"extra": extra}) if header == "local" else wheel(central={"extra": extra})
    # From Python 3.13 on zipfile itself takes the name out of the extra field 0x7075.
    names = ("a/x.py", "a/evil.py") if identifier == 0x7075 else ("a/x.py",)
    assert any(
        fault.startswith(tuple(f"{name}: the member has extra fields" for name in names))
        for fault in faults(tmp_path / "x.whl", data)
    )


@pytest.mark.parametrize("changed", [{"comment": b"x" * 1000}, {"disk": 3}])
def test_comments_and_disks_of_members(tmp_path: Path, changed: dict[str, int | bytes]) -> None:
    (fault,) = faults(tmp_path / "x.whl", wheel(central=changed))
    assert fault.startswith("a/x.py: the member has a comment or a disk number")


@pytest.mark.parametrize(
    "local",
    [
        {"flags": 0x1},
        {"flags": STREAMED},
        {"flags": 0x8, "crc": 0, "packed": 0, "size": 0},
        {"method": 0},
        {"time": 1},
        {"crc": 0xFFFFFFFF, "method": 0, "packed": 5, "size": 5},
        {"packed": 0xFFFFFFFF, "size": 0xFFFFFFFF},
        {"size": 7},
    ],
)
def test_a_local_header_that_says_something_else(tmp_path: Path, local: dict[str, int]) -> None:
    (fault,) = faults(tmp_path / "x.whl", wheel(local=local))
    assert fault.startswith("a/x.py: two descriptions of one member")


def streamed(descriptor: bytes, **local: int) -> bytes:
    zeros = {"flags": STREAMED, "crc": 0, "packed": 0, "size": 0}
    return wheel(local=zeros | local, central={"flags": STREAMED}, descriptor=descriptor)


def test_both_forms_of_data_descriptors(tmp_path: Path) -> None:
    plain = struct.pack("<3L", zlib.crc32(DATA), len(deflated(DATA)), len(DATA))
    for descriptor in (plain, b"PK\7\x08" + plain):
        assert faults(tmp_path / "x.whl", streamed(descriptor)) == []


@pytest.mark.parametrize(
    "descriptor",
    [
        b"",
        b"#!/bin/sh\nrm -rf /\n".ljust(24),
        struct.pack("<4s3L", b"PK\7\x08", 1, 2, 3),
        struct.pack("<4sL2Q", b"PK\7\x08", zlib.crc32(DATA), len(deflated(DATA)), len(DATA)),
    ],
)
def test_data_descriptors_that_do_not_fit(tmp_path: Path, descriptor: bytes) -> None:
    listed = faults(tmp_path / "x.whl", streamed(descriptor))
    assert listed[0].startswith("a/x.py: ") or listed[0].startswith("unexplained bytes")
    if b"PK" not in descriptor or len(descriptor) == 16:
        assert "the data descriptor does not fit" in listed[0]


def test_slack_behind_a_data_descriptor(tmp_path: Path) -> None:
    plain = struct.pack("<3L", zlib.crc32(DATA), len(deflated(DATA)), len(DATA))
    (fault,) = faults(tmp_path / "x.whl", streamed(plain + b"EVIL"))
    assert fault.startswith("unexplained bytes in the archive")


@pytest.mark.parametrize(
    ("attributes", "what"),
    [
        (0o104755 << 16, "the member has special permissions"),
        (0o102755 << 16, "the member has special permissions"),
        (0o101755 << 16, "the member has special permissions"),
        (0o100644 << 16 | 0x10, "the member is marked as a folder"),
        (0o040755 << 16, "the member is marked as a folder"),
    ],
)
def test_modes_that_files_of_a_wheel_never_have(tmp_path: Path, attributes: int, what: str) -> None:
    (fault,) = faults(tmp_path / "x.whl", wheel(central={"attributes": attributes}))
    assert fault.startswith(f"a/x.py: {what}")


def test_hidden_content_of_a_folder(tmp_path: Path) -> None:
    folder: dict[str, int | bytes] = {
        "name": b"a/zz/",
        "method": 0,
        "size": 0,
        "crc": 0,
        "packed": 4000,
    }
    attributes: dict[str, int | bytes] = {"attributes": 0o40755 << 16 | 0x10}
    data = wheel(local=folder, central=folder | attributes, content=b"EVIL" * 1000)
    (fault,) = faults(tmp_path / "x.whl", data)
    assert fault.startswith("a/zz/: a folder entry has content: expected 0 bytes, found 0 bytes,")


def test_a_folder_with_a_file_mode(tmp_path: Path) -> None:
    folder: dict[str, int | bytes] = {
        "name": b"a/zz/",
        "method": 0,
        "size": 0,
        "crc": 0,
        "packed": 0,
    }
    (fault,) = faults(tmp_path / "x.whl", wheel(local=folder, central=folder, content=b""))
    assert fault.startswith("a/zz/: a folder entry with a file's mode")


def test_a_name_without_an_encoding(tmp_path: Path) -> None:
    name: dict[str, int | bytes] = {"name": "a/é.py".encode()}
    (fault,) = faults(tmp_path / "x.whl", wheel(local=name, central=name))
    assert "the name has no encoding" in fault
    named: dict[str, int | bytes] = {**name, "flags": 0x800}
    assert faults(tmp_path / "x.whl", wheel(local=named, central=named)) == []


def test_flags_that_readers_treat_differently(tmp_path: Path) -> None:
    flags = {"flags": 0x20}
    (fault,) = faults(tmp_path / "x.whl", wheel(local=flags, central=flags))
    assert fault.startswith("a/x.py: unsupported zip features")


def test_names_longer_than_any_path(tmp_path: Path) -> None:
    name: dict[str, int | bytes] = {"name": b"a/" * 30_000 + b"x"}
    (fault,) = faults(tmp_path / "x.whl", wheel(local=name, central=name))
    assert "unsafe member name: expected a plain relative path, found more than 1024" in fault


def test_too_much_content_is_neither_kept_nor_inflated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive_module, "MAX_CONTENT_BYTES", len(DATA) - 1)
    path = tmp_path / "x.whl"
    (fault,) = faults(path, wheel())
    assert fault.startswith("the wheel declares too much content")
    archive = examine_wheel(path)
    assert archive.members == ()
    assert archive.scan(lambda name: True) == {}


def test_one_content_under_many_names_is_not_inflated(tmp_path: Path) -> None:
    path = tmp_path / "x.whl"
    (fault,) = faults(path, wheel(repeat=1000, central={"packed": 200}))
    assert fault.startswith("members overlap: expected at most")
    assert examine_wheel(path).members == ()


def _fifo(path: Path) -> Path:
    os.mkfifo(path)
    return path


@pytest.mark.parametrize(
    ("make", "found"),
    [
        (_fifo, "a FIFO, device or socket"),
        (lambda path: Path("/dev/zero"), "a FIFO, device or socket"),
        (lambda path: path.parent, "a folder"),
        (lambda path: Path("a\0b"), "embedded null"),
    ],
)
def test_only_regular_files_are_read(
    tmp_path: Path, make: Callable[[Path], Path], found: str
) -> None:
    path = make(tmp_path / "x.whl")
    errors: list[InputError] = []

    def read() -> None:
        with pytest.raises(InputError) as caught:
            examine_wheel(path)
        errors.append(caught.value)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    reader.join(10)
    assert errors, "reading does not come to an end"
    assert found in str(errors[0])


def test_a_file_larger_than_any_wheel(tmp_path: Path) -> None:
    path = tmp_path / "x.whl"
    with path.open("wb") as stream:
        stream.truncate(archive_module.MAX_WHEEL_BYTES + 1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(InputError, match="cannot read the wheel: expected at most 1073741824"):
        examine_wheel(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000


def test_a_wheel_that_is_cut_off_while_it_is_used(tmp_path: Path) -> None:
    path = make_wheel(tmp_path)
    archive = examine_wheel(path)
    os.truncate(path, 0)
    assert archive_faults(archive, archive.scan(lambda name: True)) == ()
