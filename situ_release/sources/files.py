"""The files of a source, in a folder or in a zip: listed and read by relative path.

A pool or snapshot may be an unpacked folder or the wheel itself. Either way only regular files
count, only those that are asked for are read, and nothing outside the source is reachable: a
symbolic link that leaves the folder, a FIFO or a folder that is named like a file is listed with
the reason why it was refused, so that a message can give it.
"""

from __future__ import annotations

import os
import stat
import struct
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from situ_release.errors import InputError, SituReleaseError
from situ_release.sources.checksums import relative_path_fault
from situ_release.sources.faults import shown

MAX_FILE_BYTES = 256 << 20
"""Larger files are not read; the largest real one is a metadata header of 9 MB."""

MAX_DEPTH = 64
"""Zip members in deeper folders are refused; real ones have 8."""

_ZIP_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ZIP_ERRORS = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    NotImplementedError,
    RuntimeError,
    ValueError,
)


@dataclass(slots=True)
class Listing:
    """What lies directly in one folder of a source.

    Attributes:
        files: names of regular files.
        folders: names of folders.
        refused: reason by name, for everything else.
    """

    files: set[str] = field(default_factory=set)
    folders: set[str] = field(default_factory=set)
    refused: dict[str, str] = field(default_factory=dict)


class SourceFiles(ABC):
    """Files below one folder, named by relative POSIX path (``""`` is the folder itself).

    Attributes:
        name: the folder's own name.
        where: the folder, for messages.
    """

    name: str
    where: str

    @abstractmethod
    def listing(self, folder: str = "") -> Listing:
        """What lies directly in ``folder``; empty where there is no such folder."""

    @abstractmethod
    def read(self, path: str) -> bytes:
        """The bytes of a file.

        Raises:
            InputError: missing, refused, unreadable, damaged or larger than MAX_FILE_BYTES.
        """

    @abstractmethod
    def head(self, path: str, size: int) -> bytes:
        """At most the first ``size`` bytes of a file; errors as for :meth:`read`."""

    @abstractmethod
    def below(self, folder: str) -> SourceFiles:
        """The source that has ``folder`` as its own folder."""

    def place(self, path: str) -> str:
        """A file's name in messages."""
        return f"{self.where}/{path}" if path else self.where

    def has(self, path: str) -> bool:
        """Whether ``path`` is a regular file here."""
        folder, _, name = path.rpartition("/")
        return name in self.listing(folder).files

    def walk(self, folder: str = "") -> Iterator[tuple[str, Listing]]:
        """Every folder with its listing, this one first, in sorted order."""
        pending = [folder]
        while pending:
            here = pending.pop()
            found = self.listing(here)
            yield here, found
            pending.extend(sorted((join(here, name) for name in found.folders), reverse=True))


class DirectoryFiles(SourceFiles):
    """A folder on disk. Each folder in it is listed once; files are read as they are by then."""

    def __init__(self, root: Path, within: Path | None = None) -> None:
        self.root = root
        self.within = within or root.resolve()
        self.name = root.resolve().name
        self.where = str(root)
        self._listings: dict[str, Listing] = {}
        self._insides: dict[str, bool] = {}

    def listing(self, folder: str = "") -> Listing:
        """See :meth:`SourceFiles.listing`."""
        if folder not in self._listings:
            self._listings[folder] = self._list(folder)
        return self._listings[folder]

    def _list(self, folder: str) -> Listing:
        found = Listing()
        try:
            entries = list(os.scandir(self.root / folder))
        except (FileNotFoundError, NotADirectoryError):
            return found
        except OSError as error:
            raise self._unreadable(folder, error) from error
        for entry in entries:
            name = entry.name
            if fault := relative_path_fault(name) or _not_utf8(name):
                found.refused[shown(name)] = fault
            elif entry.is_symlink():
                self._follow(entry, found)
            elif entry.is_file(follow_symlinks=False):
                found.files.add(name)
            elif entry.is_dir(follow_symlinks=False):
                found.folders.add(name)
            else:
                found.refused[name] = "neither a regular file nor a folder"
        return found

    def _follow(self, entry: os.DirEntry[str], found: Listing) -> None:
        """A link to a file inside the source counts as that file; every other link is refused."""
        try:
            target = Path(entry.path).resolve(strict=True)
        except (OSError, RuntimeError):
            found.refused[entry.name] = "a symbolic link that leads nowhere"
            return
        if not target.is_relative_to(self.within):
            found.refused[entry.name] = "a symbolic link out of the folder"
        elif target.is_file():
            found.files.add(entry.name)
        else:
            found.refused[entry.name] = "a symbolic link to something else than a file"

    def read(self, path: str) -> bytes:
        """See :meth:`SourceFiles.read`."""
        return self.head(path, MAX_FILE_BYTES)

    def head(self, path: str, size: int) -> bytes:
        """See :meth:`SourceFiles.head`."""
        folder, _, name = path.rpartition("/")
        target = self.root / path
        try:
            # Not blocking: a FIFO must not hang the tool. The type is checked on what was opened.
            handle = os.open(target, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            with open(handle, "rb") as stream:
                found = os.fstat(handle)
                if not stat.S_ISREG(found.st_mode) or not self._is_inside(target, folder):
                    reason = self.listing(folder).refused.get(name, "not a regular file")
                    raise _refused(self.place(path), reason)
                if size >= MAX_FILE_BYTES and found.st_size > MAX_FILE_BYTES:
                    raise _refused(self.place(path), f"a file of {found.st_size} bytes")
                return stream.read(min(size, found.st_size))
        except OSError as error:
            raise self._unreadable(path, error) from error

    def _is_inside(self, target: Path, folder: str) -> bool:
        """Whether a file lies in the source, its links and those of its folder followed."""
        if target.is_symlink():
            return target.resolve().is_relative_to(self.within)
        if folder not in self._insides:
            self._insides[folder] = target.parent.resolve().is_relative_to(self.within)
        return self._insides[folder]

    def below(self, folder: str) -> SourceFiles:
        """See :meth:`SourceFiles.below`."""
        return DirectoryFiles(self.root / folder, self.within)

    def _unreadable(self, path: str, error: OSError) -> SituReleaseError:
        return _unreadable(self.place(path), error.strerror or str(error))


class _Archive:
    """An open zip with its members by path and its folders as listings."""

    def __init__(self, path: Path) -> None:
        try:
            self.zip = zipfile.ZipFile(path)
        except OSError as error:
            raise _unreadable(str(path), error.strerror or str(error)) from error
        except _ZIP_ERRORS as error:
            raise _unreadable(str(path), f"no zip file: {error}") from error
        self.members: dict[str, zipfile.ZipInfo] = {}
        self.tree: dict[str, Listing] = {"": Listing()}
        for info in self.zip.infolist():
            self._plant(info)

    def _plant(self, info: zipfile.ZipInfo) -> None:
        path = info.filename.removesuffix("/")
        folder, separator, name = path.rpartition("/")
        # Nearly every member's folder is known, and then sound; the empty one of "/x" is not meant.
        known = folder in self.tree and bool(folder or not separator)
        fault = relative_path_fault(name if known else path)
        if fault or path.count("/") >= MAX_DEPTH:
            self.tree[""].refused[shown(path)] = fault or "a path of too many folders"
            return
        parent = self._folder(folder)
        if info.is_dir():
            self._folder(path)
        elif stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG):
            parent.refused[name] = "a link or device in the zip"
        elif path in self.members:
            parent.files.discard(name)
            parent.refused[name] = "two members of this name in the zip"
        else:
            self.members[path] = info
            parent.files.add(name)

    def _folder(self, path: str) -> Listing:
        """The listing of a folder, entered with those above it where it is new."""
        if path not in self.tree:
            self.tree[path] = Listing()
            above, _, name = path.rpartition("/")
            self._folder(above).folders.add(name)
        return self.tree[path]


class ZipFiles(SourceFiles):
    """A zip file, for example a wheel; members are decompressed only when they are read.

    The file stays open until the last object for a folder of it is gone.

    Args:
        path: the zip on disk.
        folder: the folder in it that is the source's own.
        archive: the zip itself, where it is open already.

    Raises:
        InputError: it cannot be read or is no zip.
    """

    def __init__(self, path: Path, folder: str = "", archive: _Archive | None = None) -> None:
        self.path = path
        self.folder = folder
        self.name = folder.rpartition("/")[2] or path.name
        self.where = f"{path}/{folder}" if folder else str(path)
        self._archive = archive or _Archive(path)

    def listing(self, folder: str = "") -> Listing:
        """See :meth:`SourceFiles.listing`."""
        return self._archive.tree.get(join(self.folder, folder), Listing())

    def read(self, path: str) -> bytes:
        """See :meth:`SourceFiles.read`."""
        return self.head(path, MAX_FILE_BYTES)

    def head(self, path: str, size: int) -> bytes:
        """See :meth:`SourceFiles.head`."""
        place, member = self.place(path), join(self.folder, path)
        info = self._archive.members.get(member)
        folder, _, name = path.rpartition("/")
        if reason := self.listing(folder).refused.get(name):
            raise _refused(place, reason)
        if info is None:
            raise _unreadable(place, "no such member")
        if size >= MAX_FILE_BYTES and info.file_size > MAX_FILE_BYTES:
            raise _refused(place, f"a file of {info.file_size} bytes")
        if info.compress_type not in _ZIP_METHODS:
            raise _refused(
                place, f"compression method {info.compress_type}, which wheels do not use"
            )
        try:
            with self._archive.zip.open(info) as stream:
                return stream.read(size)
        except (*_ZIP_ERRORS, OSError) as error:
            raise _unreadable(place, f"damaged: {error}") from error

    def below(self, folder: str) -> SourceFiles:
        """See :meth:`SourceFiles.below`."""
        return ZipFiles(self.path, join(self.folder, folder), self._archive)


def open_source(root: Path, what: str) -> SourceFiles:
    """The files of a folder, of a zip file, or of a folder in a zip (``x.whl/inner/folder``).

    Args:
        root: the path as the user typed it.
        what: what it should be, for messages ("pool", "snapshot").

    Raises:
        InputError: there is neither, or the zip cannot be read.
    """
    if root.is_dir():
        return DirectoryFiles(root)
    for outer in (root, *root.parents):
        if outer.is_file():
            inner = root.relative_to(outer).as_posix()
            files: SourceFiles = ZipFiles(outer)
            files = files if inner == "." else files.below(inner)
            if files.listing().files or files.listing().folders:
                return files
            break
    raise InputError.of(
        f"no {what} there",
        root,
        expected="a folder, a wheel or zip file, or a folder inside one",
        found="nothing" if not os.path.lexists(root) else "something else",
        remedy="check the path",
    )


def join(folder: str, name: str) -> str:
    """Two relative POSIX paths as one."""
    return f"{folder}/{name}" if folder and name else folder or name


def _not_utf8(name: str) -> str | None:
    """A reason to refuse a name that has no UTF-8 spelling."""
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return "a name that is not UTF-8"
    return None


def _unreadable(place: str, reason: str) -> SituReleaseError:
    return InputError.of(
        "cannot be read",
        place,
        expected="a readable file",
        found=reason,
        remedy="check the path and that the source is complete",
    )


def _refused(place: str, reason: str) -> SituReleaseError:
    return InputError.of(
        "is not read",
        place,
        expected="a regular file inside the source",
        found=reason,
        remedy="put the file itself there",
    )
