"""What a path is: told by content, never by its name alone."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from situ_release.bundle.manifest import MANIFEST_NAME
from situ_release.errors import InputError, Problem
from situ_release.sources import metadata_header
from situ_release.sources.content_kind import describe_content
from situ_release.sources.elf import EM_CUDA
from situ_release.sources.files import DirectoryFiles, SourceFiles, ZipFiles, join
from situ_release.sources.pool import open_pools
from situ_release.sources.snapshot import BUILD_META, VERSION_FILE
from situ_release.wheel.dist_info import DIST_INFO

Kind = Literal[
    "cubin", "runner", "metadata-header", "manifest", "pool", "wheel", "payload", "snapshot"
]

ELF = b"\x7fELF"
_ZIP = b"PK"
_MACHINE = slice(18, 20)
_HEADER_HEAD = 1 << 16
_HEADER_SIGNS = (
    b"#define TLLM_GEN_EXPORT_VERSION",
    b"struct TllmGenFmhaKernelMetaInfo",
    b"ListLen = ",
)
_KNOWN = (
    "a cubin, a runner library, a metadata header, a manifest.json, a wheel, a pool, "
    "a staged payload or a snapshot"
)


@dataclass(frozen=True)
class Identified:
    """A path and what it is.

    Attributes:
        kind: what it is.
        path: as the user gave it.
        files: the files of a folder, of a zip, or of a folder in a zip; None for a single file.
        data: the content of a single file, empty for the others.
    """

    kind: Kind
    path: Path
    files: SourceFiles | None = None
    data: bytes = b""


def identify(path: Path) -> Identified:
    """What ``path`` is: a file, a folder, or something inside a wheel or zip (``x.whl/inner``).

    Raises:
        InputError: it is missing, unreadable, or nothing that this tool knows; the problem's
            ``found`` says what it is instead.
    """
    if path.is_dir():
        return _folder(path, DirectoryFiles(path))
    if path.is_file():
        target = path.resolve()
        return _file(path, _read(DirectoryFiles(target.parent), target.name))
    for outer in path.parents:
        if outer.is_file():
            inner, archive = path.relative_to(outer).as_posix(), ZipFiles(outer)
            if archive.has(inner):
                return _single_file(path, archive.read(inner))
            listing = archive.listing(inner)
            if listing.files or listing.folders:
                return _folder(path, archive.below(inner))
            break
    exists = os.path.lexists(path)
    raise InputError.of(
        "cannot be read" if exists else "there is nothing of that name",
        path,
        expected="a file, a folder, or a file or folder inside a wheel",
        found="neither a regular file nor a folder" if exists else "nothing",
        remedy="check the path",
    )


def is_cubin(data: bytes) -> bool:
    """Whether ``data`` is an ELF file for a GPU."""
    return data.startswith(ELF) and int.from_bytes(data[_MACHINE], "little") == EM_CUDA


def _file(path: Path, data: bytes) -> Identified:
    if not data.startswith(_ZIP):
        return _single_file(path, data)
    archive = ZipFiles(path)
    if any(name.endswith(DIST_INFO) for name in archive.listing().folders):
        return Identified("wheel", path, archive)
    if open_pools(path):
        return Identified("pool", path, archive)
    raise unknown(path, "a zip file that is no wheel and holds no pool")


def _single_file(path: Path, data: bytes) -> Identified:
    if data.startswith(ELF):
        return Identified("cubin" if is_cubin(data) else "runner", path, data=data)
    if path.name == MANIFEST_NAME:
        return Identified("manifest", path, data=data)
    named = path.name in metadata_header.FILENAMES
    if named or any(sign in data[:_HEADER_HEAD] for sign in _HEADER_SIGNS):
        return Identified("metadata-header", path, data=data)
    raise unknown(path, describe_content(data))


def _folder(path: Path, files: SourceFiles) -> Identified:
    top = files.listing()
    if any(files.has(join(folder, MANIFEST_NAME)) for folder in top.folders):
        return Identified("payload", path, files)
    pools = open_pools(path)
    if VERSION_FILE in top.files and files.where not in (pool.where for pool in pools):
        return Identified("snapshot", path, files)
    if pools:
        return Identified("pool", path, files)
    states_version = (
        files.has(join(folder, name)) for folder in top.folders for name in ("METADATA", BUILD_META)
    )
    if any(states_version):
        return Identified("snapshot", path, files)
    if MANIFEST_NAME in top.files:
        raise unknown(path, "the import package of a bundle", "name the folder around it")
    entries = len(top.files) + len(top.folders) + len(top.refused)
    raise unknown(
        path,
        f"a folder with {entries} entries" if entries else "an empty folder",
        "name one of the things in it" if entries else "name another folder",
    )


def _read(files: SourceFiles, name: str) -> bytes:
    head = files.head(name, len(_ZIP))
    # A wheel is read by its own reader, member by member.
    return head if head.startswith(_ZIP) else files.read(name)


def unknown(
    path: Path, found: str, remedy: str = "fetch the file again if it should be one of these"
) -> InputError:
    """The error for a path that is nothing this tool knows."""
    return InputError(
        Problem(
            "nothing that situ-release knows",
            str(path),
            expected=_KNOWN,
            found=found,
            remedy=remedy,
        )
    )
