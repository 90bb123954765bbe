"""RECORD: the list of a wheel's files with digest and size, read, compared and written.

Installers trust it and the index refuses wheels where it does not fit the archive, so after any
change to a wheel it is written anew and compared in full.
"""

from __future__ import annotations

import base64
import binascii
import csv
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from situ_release.errors import Problem
from situ_release.wheel.archive import MemberContent

RECORD = "RECORD"
_ALGORITHM = "sha256"
_SIGNATURES = ("RECORD.jws", "RECORD.p7s")
_REMEDY = "build or repair the wheel again; nothing may change a wheel after RECORD is written"


@dataclass(frozen=True, slots=True)
class RecordRow:
    """One line of RECORD, as it is spelled; empty strings where it says nothing.

    Attributes:
        path: the file, relative to the wheel's root.
        digest: ``sha256=<urlsafe base64 without padding>``.
        size: bytes, in decimal digits.
    """

    path: str
    digest: str
    size: str


def parse_record(data: bytes, where: str) -> tuple[list[RecordRow], list[Problem]]:
    """The rows of a RECORD, and what is wrong with its form.

    Args:
        data: the file's bytes.
        where: the member's name, used in problems.
    """
    try:
        lines = list(csv.reader(io.StringIO(data.decode("utf-8"), newline=""), strict=True))
    except (UnicodeDecodeError, csv.Error) as error:
        return [], [_problem("RECORD is not valid", where, "UTF-8 CSV", str(error))]
    rows, problems = [], []
    for number, line in enumerate(lines, 1):
        if len(line) == 3:
            rows.append(RecordRow(*line))
        elif line:
            place, found = f"{where}:{number}", f"{len(line)} columns"
            problems.append(_problem("malformed row in RECORD", place, "3 columns", found))
    return rows, problems


def record_problems(contents: Mapping[str, MemberContent], dist_info: str) -> list[Problem]:
    """Everything in which RECORD and the archive differ.

    Args:
        contents: a scan of all files; RECORD's bytes must have been kept.
        dist_info: name of the dist-info folder.

    Returns:
        Problems with a member's name as ``where``: changed bytes, wrong size, member without row,
        row without member, duplicate row, no or another digest than SHA-256, RECORD missing.
        Members that cannot be read are the archive's fault, not RECORD's, and left out.
    """
    own = f"{dist_info}/{RECORD}"
    record = contents.get(own)
    if record is None:
        return [_problem("the wheel has no RECORD", own, "a list of all files", "none")]
    if record.data is None:
        return []
    rows, problems = parse_record(record.data, own)
    signatures = {f"{dist_info}/{name}" for name in _SIGNATURES}
    by_path: dict[str, RecordRow] = {}
    for row in rows:
        if by_path.setdefault(row.path, row) is not row:
            problems.append(_problem("listed twice in RECORD", row.path, "one row", "two"))
    for path, row in by_path.items():
        if path not in contents:
            found = "no such member"
            problems.append(_problem("listed in RECORD and missing", path, "a member", found))
        elif path == own:
            if row.digest or row.size:
                found = f"{row.digest},{row.size}"
                problems.append(_problem("RECORD digests itself", path, "an empty row", found))
        elif path not in signatures:
            problems.extend(_row_problems(row, contents[path]))
    problems.extend(
        _problem("not listed in RECORD", path, "a row with digest and size", "none")
        for path in contents
        if path not in by_path and path not in signatures
    )
    return problems


def write_record(contents: Mapping[str, tuple[str, int]], dist_info: str) -> bytes:
    """RECORD for the given files, in their order, its own row last.

    Args:
        contents: name -> (hexadecimal SHA-256, bytes), RECORD aside.
        dist_info: name of the dist-info folder.
    """
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    for name, (sha256, size) in contents.items():
        writer.writerow((name, f"{_ALGORITHM}={_spell(sha256)}", size))
    writer.writerow((f"{dist_info}/{RECORD}", "", ""))
    return text.getvalue().encode("utf-8")


def _row_problems(row: RecordRow, content: MemberContent) -> Iterator[Problem]:
    if content.fault:
        return
    algorithm, _, digest = row.digest.partition("=")
    if algorithm != _ALGORITHM:
        found = algorithm or "no digest"
        yield _problem("not recorded with SHA-256", row.path, "sha256=…", found)
    elif digest.rstrip("=") != _spell(content.sha256):
        expected = f"SHA-256 {_hexadecimal(digest)} as recorded"
        yield _problem("the bytes differ from RECORD", row.path, expected, content.sha256)
    if row.size != str(content.size):
        expected = f"{row.size} bytes as recorded" if row.size else "a recorded size"
        yield _problem("the size differs from RECORD", row.path, expected, f"{content.size} bytes")


def _spell(sha256: str) -> str:
    return base64.urlsafe_b64encode(bytes.fromhex(sha256)).rstrip(b"=").decode()


def _hexadecimal(digest: str) -> str:
    try:
        return base64.urlsafe_b64decode(digest + "=" * (-len(digest) % 4)).hex()
    except (binascii.Error, ValueError):
        return repr(digest[:80])


def _problem(what: str, where: str, expected: str, found: str) -> Problem:
    return Problem(what, where, expected, found, _REMEDY)
