"""Reading ELF files: what is there, and what is said about files that are something else."""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from situ_release.errors import InputError
from situ_release.sources.content_kind import describe_content, is_crlf_mangled
from situ_release.sources.elf import SHT_NOBITS, parse_notes, read_elf
from tests.synth.elf import make_cubin, make_header_only_cubin, make_runner


def found(data: bytes) -> str:
    with pytest.raises(InputError) as caught:
        read_elf(data, "x.so")
    (problem,) = caught.value.problems
    assert problem.where == "x.so"
    assert problem.what
    assert problem.expected
    assert problem.remedy
    return problem.found


def test_sections_and_symbols_of_a_cubin() -> None:
    elf = read_elf(make_cubin("kernel", code_size=640), "k.cubin")
    assert (elf.machine, elf.type, elf.os_abi, elf.abi_version) == (190, 2, 65, 8)
    code = elf.section(".text.kernel")
    assert code is not None
    assert (code.size, len(elf.content(code))) == (640, 640)
    shared = elf.section(".nv.shared.kernel")
    assert shared is not None
    assert (shared.type, shared.size, elf.content(shared)) == (SHT_NOBITS, 1024, b"")
    table = elf.section(".symtab")
    assert table is not None
    assert [symbol.name for symbol in elf.functions(table)] == ["kernel", "kernelGetSmemSize"]


def test_a_header_without_sections_is_an_elf_file() -> None:
    elf = read_elf(make_header_only_cubin(filler=b"abc"), "k.cubin")
    assert elf.sections == ()
    assert elf.section(".text") is None
    assert elf.extent == 64


def test_extent_ends_where_the_image_ends() -> None:
    for data in (make_cubin(), make_runner()):
        assert read_elf(data + b"something else", "x").extent == len(data)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "empty file"),
        (bytes(5000), "nothing but 5,000 zero bytes"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n", "git-LFS pointer"),
        (b"<!DOCTYPE html><html><body>404</body></html>", "HTML page"),
        (b"\n  <HTML><head></head></HTML>", "HTML page"),
        (b'{"error": "not found"}', "JSON text"),
        (b"Not Found\n", "text beginning 'Not Found'"),
        (b"PK\x03\x04" + bytes(60), "zip archive"),
        (b"\x1f\x8b\x08\x00" + bytes(60), "gzip"),
        (b"\x28\xb5\x2f\xfd" + bytes(60), "zstd"),
        (b"\x50\xed\x55\xba\x01\x00\x10\x00" + bytes(60), "fatbin container"),
        (b"//\n.version 9.0\n.target sm_103a\n.address_size 64\n", "PTX"),
        (b"\x7fELF\x02\x01", "the first 6 bytes of an ELF file"),
        (b"\x7fELF\x01\x01\x01" + bytes(100), "32-bit"),
        (b"\x7fELF\x02\x02\x01" + bytes(100), "big-endian"),
        (bytes(range(128, 228)), "100 bytes beginning 80 81"),
    ],
)
def test_what_a_file_is_instead(data: bytes, words: str) -> None:
    assert words in found(data)


def test_a_text_mode_copy_is_recognised() -> None:
    data = make_cubin(seed=3)
    assert data.count(b"\n") >= 2
    assert not is_crlf_mangled(data)
    mangled = data.replace(b"\n", b"\r\n")
    assert is_crlf_mangled(mangled)
    assert "text-mode copy" in found(mangled)


def test_a_host_library_is_named_as_such() -> None:
    assert describe_content(make_runner()).startswith("an ELF shared object for x86-64 (")


@pytest.mark.parametrize("make", [make_cubin, make_runner])
def test_every_truncation_is_an_error_that_says_so(make: object) -> None:
    assert callable(make)
    data = make()
    for length in (*range(0, 400, 7), *range(400, len(data), 97), len(data) - 1):
        assert any(
            word in found(data[:length]) for word in ("first", "ends at byte", "empty", "truncated")
        )


def patched(data: bytes, offset: int, form: str, value: int) -> bytes:
    return data[:offset] + struct.pack(form, value) + data[offset + struct.calcsize(form) :]


SECTION_OFFSET, SECTION_ENTRY_SIZE, SECTION_COUNT, NAMES_INDEX = 40, 58, 60, 62


def test_tables_that_contradict_the_file() -> None:
    data = make_cubin()
    assert "section table" in found(patched(data, SECTION_OFFSET, "<Q", 1 << 62))
    assert "section entries of 63 bytes" in found(patched(data, SECTION_ENTRY_SIZE, "<H", 63))
    assert "section table" in found(patched(data, SECTION_COUNT, "<H", 60000))
    assert "section names in section 999" in found(patched(data, NAMES_INDEX, "<H", 999))
    assert "but no section table" in found(patched(data, SECTION_OFFSET, "<Q", 0))
    program = make_runner()
    assert "program header" in found(patched(program, 32, "<Q", 1 << 40))
    assert "segment" in found(patched(program, 64 + 32, "<Q", 1 << 40))


def with_sections(rows: list[tuple[int, int, int]], content: bytes) -> bytes:
    """A file of ``content`` and sections ``(name offset, offset, size)``, the first holds names."""
    header = bytearray(make_header_only_cubin())
    table = 64 + len(content)
    header[40:48] = struct.pack("<Q", table)
    header[58:64] = struct.pack("<HHH", 64, 0, 1)
    body = bytes(64) + b"".join(
        struct.pack("<IIQQQQIIQQ", name, 1, 0, 0, offset, size, 0, 0, 1, 0)
        for name, offset, size in rows
    )
    # More than 65,279 sections is written into the null section; used for any number here.
    first = struct.pack("<IIQQQQIIQQ", 0, 0, 0, 0, 0, len(rows) + 1, 0, 0, 0, 0)
    return bytes(header) + content + first + body[64:]


def test_more_sections_than_sixteen_bits() -> None:
    rows = [(1, 64, 6)] + [(1, 64, 0)] * 66_000
    elf = read_elf(with_sections(rows, b"\0name\0"), "x")
    assert len(elf.sections) == 66_002
    assert elf.sections[66_001].name == "name"


def test_sections_may_not_multiply_the_file() -> None:
    data = with_sections([(0, 64, 1000)] * 200, bytes(1000))
    assert "sections of 200,000 bytes" in found(data)


def test_names_may_not_multiply_the_file() -> None:
    content = b"x" * 100_000 + b"\0"
    rows = [(0, 64, len(content))] + [(offset, 64, 0) for offset in range(100)]
    assert "overlap beyond reason" in found(with_sections(rows, content))


def test_a_name_without_an_end() -> None:
    assert "does not hold" in found(with_sections([(1, 64, 5)], b"\0nam\0"[:3] + b"xx"))


def test_notes_stop_at_the_first_cut_off_one() -> None:
    note = struct.pack("<III", 4, 3, 7) + b"GNU\0" + b"abc\0"
    assert list(parse_notes(note * 2)) == [("GNU", 7, b"abc")] * 2
    assert list(parse_notes(note + note[:14])) == [("GNU", 7, b"abc")]
    assert list(parse_notes(struct.pack("<III", 4, 1 << 31, 7) + b"GNU\0")) == []


@pytest.mark.skipif(shutil.which("readelf") is None, reason="readelf is not on the PATH")
def test_readelf_accepts_the_synthetic_files(tmp_path: Path) -> None:
    table = [("bmm_a_sm103a", "0" * 64)]
    files = {"k.cubin": make_cubin(), "r.so": make_runner(table=table, undefined=["cuInit"])}
    for name, data in files.items():
        path = tmp_path / name
        path.write_bytes(data)
        result = subprocess.run(
            ["readelf", "--wide", "-h", "-S", "-s", "-l", "-d", "-V", "-n", str(path)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == 0
        assert "Error" not in result.stderr
        if name == "r.so":
            assert result.stderr == ""
            assert "Shared library: [libcuda.so.1]" in result.stdout
