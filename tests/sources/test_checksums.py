"""checksums.txt: keyed by path, every bad line named (CASES A1, A2)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from situ_release.digests import sha256_bytes
from situ_release.errors import InputError
from situ_release.sources import checksums
from situ_release.sources.checksums import read_checksums, relative_path_fault, write_checksums
from tests.sources.attempt import attempt, is_complete

ONE, TWO = "1" * 64, "2" * 64


def test_digests_are_keyed_by_path_not_by_file_name() -> None:
    data = f"{ONE}  a/Bmm_x.cubin\n{TWO}  b/Bmm_x.cubin\n".encode()
    read = read_checksums(data, "checksums.txt")
    assert read.get("a/Bmm_x.cubin") == ONE
    assert read.get("b/Bmm_x.cubin") == TWO
    assert read.get("Bmm_x.cubin") is None
    assert len(read) == 2
    assert read.sha256 == sha256_bytes(data)
    assert read.place("b/Bmm_x.cubin") == "checksums.txt:2"
    assert read.place("none") == "checksums.txt"


def test_the_last_line_needs_no_newline_and_a_binary_mark_is_accepted() -> None:
    read = read_checksums(f"{ONE} *a\n{TWO}  b c".encode(), "c")
    assert dict(read.digests) == {"a": ONE, "b c": TWO}


def test_an_empty_file_has_no_digests() -> None:
    assert len(read_checksums(b"", "c")) == 0


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (b"  a", "an empty digest"),
        (b"  ", "'  '"),
        (b"", "''"),
        (ONE.encode(), ONE),
        (b"abc  a", "'abc'"),
        (b"g" * 64 + b"  a", "'ggg"),
        (b"A" * 64 + b"  a", "'AAA"),
        (ONE.encode() + b"1  a", "'111"),
        (ONE.encode() + b" a", "a'"),
        (ONE.encode() + b"\ta", "a'"),
        (ONE.encode() + b"  a\r", "CRLF"),
        (ONE.encode() + b"  /a", "an absolute path"),
        (ONE.encode() + b"  ../a", "'..'"),
        (ONE.encode() + b"  a/../b", "'..'"),
        (ONE.encode() + b"  a//b", "an empty part"),
        (ONE.encode() + b"  ./a", "'.'"),
        (ONE.encode() + b"  a\\b", "a backslash"),
        (ONE.encode() + b"  a\x00b", "control characters"),
        (ONE.encode() + b"  \xff", "other bytes"),
        (b"<html>Not Found</html>", "<html>"),
    ],
)
def test_a_malformed_line_is_named_with_its_number(line: bytes, found: str) -> None:
    with pytest.raises(InputError) as caught:
        read_checksums(f"{ONE}  good\n".encode() + line + f"\n{TWO}  fine\n".encode(), "pool/c.txt")
    (problem,) = caught.value.problems
    assert problem.where == "pool/c.txt:2"
    assert found in problem.found
    assert problem.expected
    assert problem.remedy


def test_one_path_with_two_digests_names_both_lines() -> None:
    with pytest.raises(InputError) as caught:
        read_checksums(f"{ONE}  a\n{TWO}  b\n{TWO}  a\n".encode(), "c")
    (problem,) = caught.value.problems
    assert problem.where == "c:3"
    assert "line 1" in problem.expected
    assert ONE in problem.expected
    assert problem.found == TWO


def test_the_same_line_twice_is_one() -> None:
    assert len(read_checksums(f"{ONE}  a\n{ONE}  a\n".encode(), "c")) == 1


def test_all_bad_lines_are_listed_and_a_flood_ends_the_reading() -> None:
    with pytest.raises(InputError) as caught:
        read_checksums(b"x\n" * 5, "c")
    assert [problem.where for problem in caught.value.problems] == [f"c:{n}" for n in range(1, 6)]
    with pytest.raises(InputError) as caught:
        read_checksums(b"x\n" * 5000, "c")
    assert len(caught.value.problems) == 101
    assert caught.value.problems[-1].what == "too many faults"
    assert is_complete(caught.value)


@given(st.binary())
def test_arbitrary_bytes_are_read_or_refused(data: bytes) -> None:
    read, refusal = attempt(lambda: read_checksums(data, "c"))
    if read is None:
        assert refusal is not None
        assert is_complete(refusal)
    else:
        again = read_checksums(write_checksums(read.digests), "c")
        assert again.digests == dict(sorted(read.digests.items()))


@given(st.dictionaries(st.text(min_size=1), st.binary().map(sha256_bytes)))
def test_what_is_written_is_read_back(digests: dict[str, str]) -> None:
    if any(relative_path_fault(path) for path in digests):
        with pytest.raises(ValueError):
            write_checksums(digests)
    else:
        assert read_checksums(write_checksums(digests), "c").digests == digests


def test_a_giant_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checksums, "MAX_BYTES", 100)
    with pytest.raises(InputError, match="too large"):
        read_checksums(bytes(101), "checksums.txt")
