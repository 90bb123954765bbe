"""``checksums.txt``: one ``<sha256>  <path>`` line per file of a pool, cubins and headers alike.

The format is that of ``sha256sum``. Digests are kept by relative path, never by bare file name: two
files of one name in different folders are two files (flashinfer PR #4200 shows what happens else).
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from dataclasses import dataclass

from situ_release.digests import SHA256_HEX, sha256_bytes
from situ_release.errors import InputError, Problem
from situ_release.sources.faults import Faults, shown

FILENAME = "checksums.txt"

MAX_BYTES = 64 << 20
"""Larger files are refused; the largest real one has 1 MB."""

_LINE = re.compile(r"(?P<digest>[^ ]*) [ *](?P<path>.+)")
_NO_NAMES = frozenset(("", ".", ".."))


@dataclass(frozen=True, slots=True)
class Checksums:
    """The digests that a pool states for its files.

    Attributes:
        where: the file they were read from, for messages.
        sha256: digest of ``checksums.txt`` itself.
        digests: stated SHA-256 by relative path, in file order.
        lines: line number by relative path.
    """

    where: str
    sha256: str
    digests: Mapping[str, str]
    lines: Mapping[str, int]

    def __len__(self) -> int:
        return len(self.digests)

    def get(self, path: str) -> str | None:
        """The stated digest of a file, None when no line names exactly this path."""
        return self.digests.get(path)

    def place(self, path: str) -> str:
        """Where a file's line is, as ``checksums.txt:7``."""
        return f"{self.where}:{self.lines[path]}" if path in self.lines else self.where


def read_checksums(data: bytes, where: str) -> Checksums:
    """Read a ``checksums.txt``.

    A path that is named twice with the same digest is accepted as one.

    Args:
        data: the file's bytes.
        where: the name used in errors.

    Raises:
        InputError: every bad line at once, with its number: not ``<digest>  <path>``, a digest that
            is not 64 lower-case hexadecimal digits, an absolute path or one with ``..``, CRLF line
            ends, one path with two digests, bytes that are not UTF-8.
    """
    faults = Faults(where)
    if len(data) > MAX_BYTES:
        raise InputError.of(
            "checksums.txt is too large",
            where,
            expected=f"at most {MAX_BYTES:,} bytes",
            found=f"{len(data):,} bytes",
            remedy="take checksums.txt unchanged from where the pool came from",
        )
    digests: dict[str, str] = {}
    lines: dict[str, int] = {}
    for number, row in enumerate(io.BytesIO(data), 1):
        place = f"{where}:{number}"
        try:
            digest, path = _read_line(row.removesuffix(b"\n"))
        except ValueError as error:
            expected, found = error.args
            faults.add(
                Problem(
                    "malformed checksum line",
                    place,
                    expected,
                    found,
                    "take checksums.txt unchanged from where the pool came from",
                )
            )
            continue
        if digests.setdefault(path, digest) != digest:
            faults.add(
                Problem(
                    "two digests for one file",
                    place,
                    expected=f"{digests[path]} for {shown(path)}, as on line {lines[path]}",
                    found=digest,
                    remedy="keep the line whose digest the file has",
                )
            )
        lines.setdefault(path, number)
    faults.raise_any()
    return Checksums(where, sha256_bytes(data), digests, lines)


def write_checksums(digests: Mapping[str, str]) -> bytes:
    """The bytes of a ``checksums.txt``, sorted by path; :func:`read_checksums` reads them back.

    Args:
        digests: SHA-256 by relative path.

    Raises:
        ValueError: a path or digest that no reader would accept.
    """
    rows = [f"{digest}  {path}\n".encode() for path, digest in sorted(digests.items())]
    for row in rows:
        _read_line(row[:-1])
    return b"".join(rows)


def relative_path_fault(path: str) -> str | None:
    """What keeps ``path`` from being a plain relative POSIX path; None when it is one."""
    if path.startswith("/"):
        return "an absolute path"
    if "\\" in path:
        return "a path with a backslash"
    if not path.isprintable():
        return "a path with control characters"
    if not _NO_NAMES.isdisjoint(path.split("/")):
        return "a path with an empty part, '.' or '..'"
    return None


def _read_line(row: bytes) -> tuple[str, str]:
    """Digest and path of one line; ValueError(expected, found) where it is malformed."""
    if row.endswith(b"\r"):
        raise ValueError("lines that end with a line feed alone", "a carriage return (CRLF)")
    try:
        line = row.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError("UTF-8 text", "other bytes") from None
    match = _LINE.fullmatch(line)
    if match is None:
        raise ValueError("<sha256>  <path>", shown(repr(line), 120))
    digest, path = match["digest"], match["path"]
    if SHA256_HEX.fullmatch(digest) is None:
        raise ValueError(
            f"64 lower-case hexadecimal digits for {shown(path)}",
            shown(repr(digest), 80) if digest else "an empty digest",
        )
    if fault := relative_path_fault(path):
        raise ValueError("a path below the pool's folder", f"{fault}: {shown(path, 120)}")
    return digest, path
