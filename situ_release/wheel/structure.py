"""What may be wrong with a wheel's structure as a zip file, before any content is read.

Installers, indexes and attestations read zip files in different ways. Whatever could show two of
them two different wheels is a fault, and so is whatever an installer must not unpack.
"""

from __future__ import annotations

import stat
import zipfile
from collections.abc import Iterator, Sequence

from situ_release.errors import Problem
from situ_release.wheel.layout import fault, layout_faults

ENCRYPTED = 0x1 | 0x40
"""Flag bits of encrypted members."""

_DOS_FOLDER = 0x10
_SPECIAL_BITS = stat.S_ISUID | stat.S_ISGID | stat.S_ISVTX
_UTF8_NAME = 0x800
# Effort of deflate, data descriptor, UTF-8 name.
_PLAIN_FLAGS = 0x2 | 0x4 | 0x8 | _UTF8_NAME
_MAX_NAME = 1024  # characters; the longest real one has 280


def excess_faults(view: memoryview, infos: Sequence[zipfile.ZipInfo], limit: int) -> list[Problem]:
    """Why no member may be read at all: more content than anybody should unpack.

    Args:
        view: the whole file.
        infos: the central directory's entries.
        limit: most bytes that all members together may declare.
    """
    total = sum(info.file_size for info in infos)
    if total > limit:
        expected = f"at most {limit} bytes in all"
        return [fault("the wheel declares too much content", "", expected, f"{total} bytes")]
    packed = sum(info.compress_size for info in infos)
    if packed > len(view):
        expected, found = f"at most {len(view)} compressed bytes", f"{packed} declared"
        return [fault("members overlap", "", expected, found)]
    return []


def structural_faults(view: memoryview, infos: Sequence[zipfile.ZipInfo]) -> list[Problem]:
    """Faults of names, members and layout; ``Problem.where`` is the member, "" for the archive.

    Args:
        view: the whole file, whose end record is sound.
        infos: the central directory's entries.
    """
    return [*_name_faults(infos), *_member_faults(infos), *layout_faults(view, infos)]


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
    if len(name) > _MAX_NAME:
        return f"more than {_MAX_NAME} characters"
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
    folders = {folder for name in files for folder in _folders(name) if folder in files}
    for name in sorted(folders):
        yield fault("a file and a folder have one name", name, "one of them", "both")


def _folders(name: str) -> Iterator[str]:
    """Every folder above a file; none for names too long to be unpacked."""
    if len(name) <= _MAX_NAME:
        yield from (name[:end] for end, character in enumerate(name) if character == "/")


def _member_faults(infos: Sequence[zipfile.ZipInfo]) -> Iterator[Problem]:
    for info in infos:
        name, mode = info.filename, info.external_attr >> 16
        if info.flag_bits & ENCRYPTED:
            yield fault("the member is encrypted", name, "plain content", "encryption flag")
        elif info.flag_bits & ~_PLAIN_FLAGS:
            found = f"flags {info.flag_bits:#06x}"
            yield fault("unsupported zip features", name, "plain content", found)
        if not info.orig_filename.isascii() and not info.flag_bits & _UTF8_NAME:
            expected, found = "the flag for UTF-8", "bytes that readers decode in their own ways"
            yield fault("the name has no encoding", name, expected, found)
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            found = f"method {info.compress_type}"
            yield fault("unsupported compression", name, "stored or deflated", found)
        if mode & _SPECIAL_BITS:
            expected, found = "no setuid, setgid or sticky bit", oct(mode)
            yield fault("the member has special permissions", name, expected, found)
        yield from _kind_faults(info, name, stat.S_IFMT(mode))


def _kind_faults(info: zipfile.ZipInfo, name: str, kind: int) -> Iterator[Problem]:
    """A member is a folder by its name, its mode and its DOS attribute, or by none of them."""
    if kind == stat.S_IFLNK:
        yield fault("the member is a symbolic link", name, "a regular file", "a link")
    elif kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        yield fault("the member is a special file", name, "a regular file", oct(kind))
    elif name.endswith("/"):
        if kind == stat.S_IFREG:
            yield fault("a folder entry with a file's mode", name, "a folder", oct(kind))
        if info.file_size or info.compress_size:
            found = f"{info.file_size} bytes, {info.compress_size} compressed"
            yield fault("a folder entry has content", name, "0 bytes", found)
    elif kind == stat.S_IFDIR or info.external_attr & _DOS_FOLDER:
        expected, found = "a regular file", f"attributes {info.external_attr:#010x}"
        yield fault("the member is marked as a folder", name, expected, found)
