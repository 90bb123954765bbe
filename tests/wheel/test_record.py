"""A13: RECORD and contents must agree, both ways."""

from __future__ import annotations

from pathlib import Path

import pytest

from situ_release.wheel.archive import open_wheel
from situ_release.wheel.record import parse_record, record_problems, write_record
from tests.synth.wheel import DIST_INFO, MANIFEST, RUNNER, Files, make_wheel

RECORD = f"{DIST_INFO}/RECORD"


def problems(path: Path) -> list[str]:
    contents = open_wheel(path).scan(lambda name: name == RECORD)
    return [str(problem) for problem in record_problems(contents, DIST_INFO)]


def replace_in_record(old: bytes, new: bytes):
    def tamper(files: Files) -> None:
        assert old in files[RECORD]
        files[RECORD] = files[RECORD].replace(old, new)

    return tamper


def row(files: Files, name: str) -> bytes:
    return next(line for line in files[RECORD].splitlines() if line.startswith(name.encode()))


def test_a_sound_record_has_no_problems(tmp_path: Path) -> None:
    assert problems(make_wheel(tmp_path)) == []


def test_the_published_one_is_sound(published_wheel: Path) -> None:
    contents = open_wheel(published_wheel).scan(lambda name: name.endswith("/RECORD"))
    assert record_problems(contents, DIST_INFO) == []


def test_changed_bytes(tmp_path: Path) -> None:
    def tamper(files: Files) -> None:
        files[MANIFEST] = files[MANIFEST].replace(b"sm103a", b"sm104a", 1)

    (problem,) = problems(make_wheel(tmp_path, tamper=tamper))
    assert problem.startswith(f"{MANIFEST}: the bytes differ from RECORD: expected SHA-256 ")
    assert "as recorded, found" in problem


def test_wrong_size(tmp_path: Path) -> None:
    def tamper(files: Files) -> None:
        old = row(files, RUNNER)
        files[RECORD] = files[RECORD].replace(old, old.rpartition(b",")[0] + b",1")

    (problem,) = problems(make_wheel(tmp_path, tamper=tamper))
    assert problem.startswith(
        f"{RUNNER}: the size differs from RECORD: expected 1 bytes as recorded"
    )


def test_member_without_row(tmp_path: Path) -> None:
    def tamper(files: Files) -> None:
        files["tokenspeed_situ/extra.py"] = b"1\n"

    (problem,) = problems(make_wheel(tmp_path, tamper=tamper))
    assert problem.startswith("tokenspeed_situ/extra.py: not listed in RECORD")


def test_row_without_member(tmp_path: Path) -> None:
    (problem,) = problems(make_wheel(tmp_path, tamper=lambda files: files.pop(RUNNER)))
    assert problem.startswith(f"{RUNNER}: listed in RECORD and missing")


def test_missing_record(tmp_path: Path) -> None:
    (problem,) = problems(make_wheel(tmp_path, tamper=lambda files: files.pop(RECORD)))
    assert problem.startswith(f"{RECORD}: the wheel has no RECORD")


def test_duplicate_row(tmp_path: Path) -> None:
    def tamper(files: Files) -> None:
        files[RECORD] += row(files, RUNNER) + b"\n"

    (problem,) = problems(make_wheel(tmp_path, tamper=tamper))
    assert problem.startswith(f"{RUNNER}: listed twice in RECORD")


@pytest.mark.parametrize(
    ("digest", "found"), [(b"md5=1234", "md5"), (b"", "no digest"), (b"sha512=1", "sha512")]
)
def test_no_or_another_digest(tmp_path: Path, digest: bytes, found: str) -> None:
    def tamper(files: Files) -> None:
        old = row(files, RUNNER)
        path, _, size = old.split(b",")
        files[RECORD] = files[RECORD].replace(old, b",".join((path, digest, size)))

    (problem,) = problems(make_wheel(tmp_path, tamper=tamper))
    assert f"not recorded with SHA-256: expected sha256=…, found {found}" in problem


def test_a_digest_that_is_not_base64(tmp_path: Path) -> None:
    def tamper(files: Files) -> None:
        old = row(files, RUNNER)
        path, _, size = old.split(b",")
        files[RECORD] = files[RECORD].replace(old, b",".join((path, b"sha256=%", size)))

    (problem,) = problems(make_wheel(tmp_path, tamper=tamper))
    assert "the bytes differ from RECORD" in problem


def test_signature_files_need_no_row(tmp_path: Path) -> None:
    def tamper(files: Files) -> None:
        files[f"{DIST_INFO}/RECORD.jws"] = b"{}"
        files[f"{DIST_INFO}/RECORD.p7s"] = b"x"
        files["tokenspeed_situ/RECORD.jws"] = b"smuggled"

    (problem,) = problems(make_wheel(tmp_path, tamper=tamper))
    assert problem.startswith("tokenspeed_situ/RECORD.jws: not listed in RECORD")


def test_record_lists_itself_without_digest(tmp_path: Path) -> None:
    own = f"{RECORD},,".encode()
    path = make_wheel(tmp_path, tamper=replace_in_record(own, own[:-2] + b",sha256=x,3"))
    assert problems(path)[0].startswith(f"{RECORD}: RECORD digests itself")
    path = make_wheel(tmp_path, tamper=replace_in_record(own + b"\n", b""))
    assert problems(path)[0].startswith(f"{RECORD}: not listed in RECORD")


@pytest.mark.parametrize("data", [b"\xff\xfe", b'"unclosed'])
def test_unreadable_record(tmp_path: Path, data: bytes) -> None:
    path = make_wheel(tmp_path, tamper=lambda files: files.update({RECORD: data}))
    assert problems(path)[0].startswith(f"{RECORD}: RECORD is not valid: expected UTF-8 CSV")


def test_malformed_row_has_its_line_number(tmp_path: Path) -> None:
    def tamper(files: Files) -> None:
        files[RECORD] = b"two,columns\n\n" + files[RECORD]

    (problem,) = problems(make_wheel(tmp_path, tamper=tamper))
    assert problem.startswith(f"{RECORD}:1: malformed row in RECORD: expected 3 columns, found 2")


def test_all_problems_at_once(tmp_path: Path) -> None:
    def tamper(files: Files) -> None:
        files["tokenspeed_situ/extra.py"] = b"1\n"
        files[MANIFEST] += b"\n"
        del files[RUNNER]

    listed = problems(make_wheel(tmp_path, tamper=tamper))
    assert len(listed) == 4  # bytes and size of the manifest, the runner, the extra file


def test_a_written_record_is_read_back() -> None:
    odd = 'a/with,comma and "quotes".txt'
    data = write_record({"a/x": ("00" * 32, 5), odd: ("ff" * 32, 0)}, DIST_INFO)
    rows, faults = parse_record(data, RECORD)
    assert faults == []
    assert [row.path for row in rows] == ["a/x", odd, RECORD]
    assert [row.size for row in rows] == ["5", "0", ""]
    assert b"\r" not in data
