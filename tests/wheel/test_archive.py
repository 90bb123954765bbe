from __future__ import annotations

import hashlib
import struct
import zipfile
import zlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from situ_release.errors import InputError
from situ_release.wheel import archive as archive_module
from situ_release.wheel.archive import archive_faults, examine_wheel, open_wheel
from tests.synth.wheel import MANIFEST, RUNNER, make_wheel

CENTRAL = b"PK\x01\x02"
LOCAL = b"PK\x03\x04"


def faults(path: Path) -> list[str]:
    """Everything wrong with a file, structure and content."""
    archive = examine_wheel(path)
    return [str(fault) for fault in archive_faults(archive, archive.scan(lambda name: False))]


def small(path: Path, members: dict[str, bytes] | None = None, **info: object) -> Path:
    """A zip of a few members; ``info`` sets attributes of every ZipInfo."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in (members or {"a/x": b"x" * 100, "a/y": b"y" * 100}).items():
            entry = zipfile.ZipInfo(name)
            entry.compress_type = zipfile.ZIP_DEFLATED
            for key, value in info.items():
                setattr(entry, key, value)
            archive.writestr(entry, data)
    return path


def patch(path: Path, old: bytes, new: bytes, count: int = -1) -> Path:
    data = path.read_bytes()
    assert old in data
    path.write_bytes(data.replace(old, new, count))
    return path


def poke(path: Path, signature: bytes, offset: int, value: bytes) -> Path:
    """Overwrite bytes of the first header with a signature."""
    data = bytearray(path.read_bytes())
    start = data.index(signature) + offset
    data[start : start + len(value)] = value
    path.write_bytes(data)
    return path


def test_scan_reads_what_zipfile_reads(tmp_path: Path) -> None:
    path = make_wheel(tmp_path)
    archive = open_wheel(path)
    contents = archive.scan(lambda name: name.endswith(".json"))
    with zipfile.ZipFile(path) as reference:
        assert list(contents) == reference.namelist()
        for name in reference.namelist():
            data = reference.read(name)
            assert contents[name].sha256 == hashlib.sha256(data).hexdigest()
            assert contents[name].size == len(data)
            assert contents[name].data == (data if name == MANIFEST else None)
            assert archive.read(name) == data
    assert archive_faults(archive, contents) == ()


def test_scan_of_the_published_wheel(published_wheel: Path) -> None:
    archive = open_wheel(published_wheel)
    contents = archive.scan(lambda name: False)
    assert len(contents) == 280
    cubins = [item.size for name, item in contents.items() if name.endswith(".cubin")]
    assert (len(cubins), sum(cubins)) == (267, 23_063_768)
    assert archive_faults(archive, contents) == ()


def test_members_have_what_the_directory_says(tmp_path: Path) -> None:
    path = small(tmp_path / "x.whl", external_attr=0o100755 << 16, date_time=(2026, 7, 27, 1, 2, 4))
    first = open_wheel(path).members[0]
    assert (first.name, first.size, first.mode, first.is_dir) == ("a/x", 100, 0o100755, False)
    assert first.date == (2026, 7, 27, 1, 2, 4)
    assert first.crc == zlib.crc32(b"x" * 100)


def test_blocks_larger_than_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_module, "_BLOCK_BYTES", 10)
    data = bytes(range(256)) * 3
    for method in (zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED):
        path = small(tmp_path / "x.whl", {"a/x": data}, compress_type=method)
        assert open_wheel(path).read("a/x") == data


def test_missing_file_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read the wheel: expected a readable file, found"):
        examine_wheel(tmp_path / "nothing.whl")
    with pytest.raises(InputError, match="expected a regular file, found a folder"):
        examine_wheel(tmp_path)


def test_missing_member_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such member: expected a/z"):
        open_wheel(small(tmp_path / "x.whl")).read("a/z")


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"", "an empty file"),
        (b"version https://git-lfs.github.com/spec/v1\n", "not a zip file"),
        (b"PK\x03\x04" + bytes(100), "not a zip file"),
    ],
)
def test_not_a_zip(tmp_path: Path, content: bytes, found: str) -> None:
    path = tmp_path / "x.whl"
    path.write_bytes(content)
    (fault,) = faults(path)
    assert fault.startswith("not a readable zip archive: expected a wheel (zip), found")
    assert found in fault
    with pytest.raises(InputError, match=r"x\.whl: not a readable zip"):
        open_wheel(path)


def test_truncated_anywhere(tmp_path: Path) -> None:
    whole = make_wheel(tmp_path).read_bytes()
    path = tmp_path / "cut.whl"
    for size in range(0, len(whole), 997):
        path.write_bytes(whole[:size])
        assert faults(path), f"{size} of {len(whole)} bytes pass as a wheel"


def test_one_changed_bit_anywhere(tmp_path: Path) -> None:
    """Every byte of a wheel is either checked or declared meaningless by nobody."""
    path = small(tmp_path / "x.whl")
    whole = bytearray(path.read_bytes())
    sound = open_wheel(path)
    reference = {name: item.sha256 for name, item in sound.scan(lambda name: False).items()}
    for position in range(len(whole)):
        whole[position] ^= 1
        path.write_bytes(whole)
        archive = examine_wheel(path)
        contents = archive.scan(lambda name: False)
        if not archive_faults(archive, contents):
            # Times, versions and attributes may differ; names and content may not.
            assert {name: item.sha256 for name, item in contents.items()} == reference
        whole[position] ^= 1


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("/etc/passwd", "an absolute path"),
        ("C:/x", "an absolute path"),
        ("a/../../x", "a .. component"),
        ("a\\x", "a backslash"),
        ("a//x", "an empty or . component"),
        ("", "an empty or . component"),
        ("./x", "an empty or . component"),
        ("a/x\ny", "an unprintable character"),
    ],
)
def test_unsafe_names(tmp_path: Path, name: str, reason: str) -> None:
    harmless = "Q" * len(name)
    path = small(tmp_path / "x.whl", {harmless: b"x"})
    patch(path, harmless.encode(), name.encode())
    wanted = f"unsafe member name: expected a plain relative path, found {reason}"
    assert any(wanted in fault for fault in faults(path))


def test_nul_in_a_name_is_not_cut_off(tmp_path: Path) -> None:
    path = patch(small(tmp_path / "x.whl", {"a/xQy.py": b"x"}), b"a/xQy.py", b"a/x\0y.py")
    assert any("a/x\\x00y.py: unsafe member name" in fault for fault in faults(path))


def test_duplicate_member(tmp_path: Path) -> None:
    path = patch(small(tmp_path / "x.whl"), b"a/y", b"a/x")
    assert [fault for fault in faults(path) if "a/x: duplicate member" in fault]


def test_names_that_differ_only_by_case(tmp_path: Path) -> None:
    path = small(tmp_path / "x.whl", {"a/Bmm_x.cubin": b"1", "a/bmm_x.cubin": b"2"})
    (fault,) = faults(path)
    assert fault.startswith("a/bmm_x.cubin: names differ only by case")
    assert "a/Bmm_x.cubin" in fault


def test_file_and_folder_of_one_name(tmp_path: Path) -> None:
    path = small(tmp_path / "x.whl", {"a": b"1", "a/b": b"2"})
    assert faults(path)[0].startswith("a: a file and a folder have one name")


def test_folders_are_fine_and_content_in_them_is_not(tmp_path: Path) -> None:
    path = small(tmp_path / "x.whl", {"a/": b"", "a/b": b"2"}, compress_type=zipfile.ZIP_STORED)
    assert faults(path) == []
    assert list(open_wheel(path).scan(lambda name: False)) == ["a/b"]
    path = small(tmp_path / "y.whl", {"a/": b"boo"})
    assert faults(path)[0].startswith("a/: a folder entry has content")


def test_symbolic_link_and_device(tmp_path: Path) -> None:
    path = small(tmp_path / "x.whl", {"a/x": b"/etc/passwd"}, external_attr=0o120777 << 16)
    assert faults(path)[0].startswith("a/x: the member is a symbolic link")
    path = small(tmp_path / "y.whl", {"a/x": b""}, external_attr=0o020666 << 16)
    assert faults(path)[0].startswith("a/x: the member is a special file")


def test_encrypted(tmp_path: Path) -> None:
    path = poke(small(tmp_path / "x.whl", {"a/x": b"x" * 50}), CENTRAL, 8, b"\x01\x00")
    assert any(fault.startswith("a/x: the member is encrypted") for fault in faults(path))


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_unsupported_compression(tmp_path: Path, method: int) -> None:
    path = small(tmp_path / "x.whl", compress_type=method)
    listed = faults(path)
    assert (
        f"a/x: unsupported compression: expected stored or deflated, found method {method}"
        in (listed[0])
    )
    with pytest.raises(InputError, match="unsupported compression"):
        open_wheel(path)


def test_bytes_that_nobody_accounts_for(tmp_path: Path) -> None:
    whole = small(tmp_path / "x.whl").read_bytes()
    path = tmp_path / "y.whl"
    path.write_bytes(b"#!/bin/sh\n" + whole)
    assert faults(path)[0].startswith("the end record does not fit the archive")
    blob = bytearray(path.read_bytes())
    central = blob.index(CENTRAL)
    for start in (central, blob.index(CENTRAL, central + 1)):
        shifted = struct.unpack_from("<L", blob, start + 42)[0] + 10
        struct.pack_into("<L", blob, start + 42, shifted)
    struct.pack_into("<L", blob, len(blob) - 6, central)
    path.write_bytes(blob)
    assert "10 bytes before a/x" in faults(path)[0]
    path.write_bytes(whole + b"more")
    assert faults(path)[0].startswith("data after the end of the archive")
    with zipfile.ZipFile(tmp_path / "x.whl", "a") as archive:
        archive.comment = b"hidden"
    assert faults(tmp_path / "x.whl")[0].startswith("data after the end of the archive")


def test_a_member_that_the_directory_hides(tmp_path: Path) -> None:
    """Streaming readers would see it, installers would not."""
    path = tmp_path / "x.whl"
    one, two = small(tmp_path / "1", {"a/x": b"x"}), small(tmp_path / "2", {"a/y": b"y"})
    hidden = two.read_bytes()[: two.read_bytes().index(CENTRAL)]
    body, tail = one.read_bytes().split(CENTRAL, 1)
    end = bytearray(CENTRAL + tail)
    struct.pack_into("<L", end, len(end) - 6, len(body) + len(hidden))
    path.write_bytes(body + hidden + end)
    (fault,) = faults(path)
    assert fault.startswith("unexplained bytes in the archive")
    assert "before the central directory" in fault


def test_overlapping_members(tmp_path: Path) -> None:
    path = small(tmp_path / "x.whl", {"a/x": b"x" * 9, "b/x": b"x" * 9})
    data = bytearray(path.read_bytes())
    second = data.index(CENTRAL, data.index(CENTRAL) + 1)
    struct.pack_into("<L", data, second + 42, 0)
    path.write_bytes(data)
    listed = faults(path)
    assert any("members overlap" in fault for fault in listed)
    assert any("b/x: two names for one member" in fault for fault in listed)


def test_local_header_with_another_name(tmp_path: Path) -> None:
    path = patch(small(tmp_path / "x.whl"), b"a/y", b"a/z", 1)
    assert faults(path)[0].startswith("a/y: two names for one member")


def test_local_header_with_another_size(tmp_path: Path) -> None:
    path = poke(small(tmp_path / "x.whl"), LOCAL, 22, struct.pack("<L", 7))
    assert faults(path)[0].startswith("a/x: two descriptions of one member")


def test_data_descriptors_are_read(tmp_path: Path) -> None:
    class Pipe:
        """A stream that cannot seek makes zipfile write sizes behind the data."""

        def __init__(self, path: Path) -> None:
            self.stream = path.open("wb")

        def write(self, data: bytes) -> int:
            return self.stream.write(data)

        def flush(self) -> None:
            self.stream.flush()

    pipe = Pipe(tmp_path / "x.whl")
    with zipfile.ZipFile(pipe, "w", zipfile.ZIP_DEFLATED) as archive:  # type: ignore[arg-type]
        archive.writestr("a/x", b"x" * 100)
        archive.writestr("a/y", b"y" * 100)
    pipe.stream.close()
    assert open_wheel(tmp_path / "x.whl").members[0].flags & 8
    assert faults(tmp_path / "x.whl") == []


def test_wrong_checksum_and_damaged_data(tmp_path: Path) -> None:
    path = poke(small(tmp_path / "x.whl"), CENTRAL, 16, b"\0\0\0\0")
    assert faults(path)[-1].startswith("a/x: the member is damaged: expected CRC-32 00000000")
    with pytest.raises(InputError, match="a/x: the member is damaged"):
        examine_wheel(path).read("a/x")
    path = small(tmp_path / "y.whl", compress_type=zipfile.ZIP_STORED)
    patch(path, b"x" * 100, b"x" * 99 + b"y")
    assert faults(path)[0].startswith("a/x: the member is damaged: expected CRC-32")


@pytest.mark.parametrize(("declared", "found"), [(5, "more than that"), (500, "100 bytes")])
def test_declared_size_is_a_limit(tmp_path: Path, declared: int, found: str) -> None:
    path = poke(small(tmp_path / "x.whl"), CENTRAL, 24, struct.pack("<L", declared))
    wanted = f"a/x: the member is damaged: expected {declared} bytes, found {found}"
    assert faults(path)[-1].startswith(wanted)


def test_a_bomb_is_not_inflated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = small(tmp_path / "x.whl", {"a/x": bytes(50_000_000)})
    poke(path, CENTRAL, 24, struct.pack("<L", 1000))
    content = examine_wheel(path).scan(lambda name: True)["a/x"]
    assert content.size == 1001
    assert content.data is None
    monkeypatch.setattr(archive_module, "MAX_CONTENT_BYTES", 150)
    (fault,) = faults(small(tmp_path / "y.whl"))
    wanted = "the wheel declares too much content: expected at most 150 bytes in all, found 200"
    assert fault.startswith(wanted)


def test_trailing_bytes_in_a_member(tmp_path: Path) -> None:
    """Compressed bytes behind the end of the deflate stream hide data from every reader."""
    stream = zlib.compressobj(6, zlib.DEFLATED, -15)
    packed = stream.compress(b"x") + stream.flush() + b"hidden"
    path = small(tmp_path / "x.whl", {"a/x": packed}, compress_type=zipfile.ZIP_STORED)
    for signature, shift in ((LOCAL, 0), (CENTRAL, 2)):
        poke(path, signature, 8 + shift, struct.pack("<H", zipfile.ZIP_DEFLATED))
        poke(path, signature, 14 + shift, struct.pack("<L", zlib.crc32(b"x")))
        poke(path, signature, 22 + shift, struct.pack("<L", 1))
    (fault,) = faults(path)
    assert "expected one deflate stream, found 6 bytes behind it" in fault


def test_every_fault_names_what_to_do(tmp_path: Path) -> None:
    path = patch(make_wheel(tmp_path), RUNNER.encode(), RUNNER.upper().encode())
    for fault in examine_wheel(path).faults:
        assert fault.what
        assert fault.expected
        assert fault.found
        assert fault.remedy


@settings(
    max_examples=100,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_arbitrary_damage_is_survived(tmp_path: Path, data: st.DataObject) -> None:
    path = small(tmp_path / "x.whl", {"a/x": b"x" * 300, "b-1.dist-info/RECORD": b"r,,\n" * 9})
    whole = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 6))):
        position = data.draw(st.integers(0, len(whole) - 1))
        whole[position : position + data.draw(st.integers(0, 4))] = data.draw(st.binary(max_size=4))
    path.write_bytes(whole)
    faults(path)


@settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(content=st.binary(max_size=400))
def test_arbitrary_bytes_are_survived(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.whl"
    path.write_bytes(content + b"PK\x05\x06" + content[:18])
    faults(path)
