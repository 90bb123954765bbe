"""A cubin pool: a folder (on disk or in a wheel) with cubins, their checksums and their table.

``checksums.txt``, ``include/flashinferMetaInfo.h`` (two spellings exist), cubins anywhere below,
and in private pools a ``config.json``. Only what is asked for is read and hashed: the public pools
have thousands of files beside the few hundred that go into a bundle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from situ_release.digests import sha256_bytes
from situ_release.errors import InputError, Problem, raise_all
from situ_release.sources import checksums, metadata_header
from situ_release.sources.checksums import Checksums, read_checksums
from situ_release.sources.files import SourceFiles, join, open_source
from situ_release.sources.kernel_name import FILE_SUFFIX, cubin_filename
from situ_release.sources.metadata_header import MetadataHeader, read_header

if TYPE_CHECKING:
    from situ_release.sources.marker import RecoveredMarker

INCLUDE = "include"
CONFIG = "config.json"

_HEAD_BYTES = 1 << 16
_REMEDY_COMPLETE = "give the pool's folder, complete, as --pool-root"


class Pool:
    """One pool. Files are read when they are asked for; header and checksums once.

    Attributes:
        files: the pool's files.
        name: the folder's name, which is what manifests call the pool.
        where: the folder, for messages.
        header_path: the metadata header's relative path, None where there is none.
    """

    def __init__(self, files: SourceFiles) -> None:
        self.files = files
        self.name = files.name
        self.where = files.where
        included = files.listing(INCLUDE).files
        self.header_path = next(
            (join(INCLUDE, name) for name in metadata_header.FILENAMES if name in included), None
        )

    @cached_property
    def header(self) -> MetadataHeader:
        """The metadata header.

        Raises:
            InputError: there is none, or it is malformed.
        """
        path = self.header_path or join(INCLUDE, metadata_header.FILENAMES[0])
        return read_header(self.files.read(path), self.files.place(path))

    @cached_property
    def checksums(self) -> Checksums:
        """The stated digests.

        Raises:
            InputError: there is no ``checksums.txt``, or it is malformed.
        """
        path = checksums.FILENAME
        return read_checksums(self.files.read(path), self.files.place(path))

    @cached_property
    def config_sha256(self) -> str | None:
        """SHA-256 of ``config.json``; None where the pool has none, as public ones."""
        return sha256_bytes(self.files.read(CONFIG)) if self.files.has(CONFIG) else None

    @cached_property
    def marker(self) -> RecoveredMarker | None:
        """What the pool was recovered from; None for an original."""
        from situ_release.sources import marker

        return marker.find_marker(self.files)

    @property
    def cubin_count(self) -> int:
        """Cubin files in the pool, selected or not."""
        return sum(map(len, self._cubins.values()))

    @cached_property
    def _cubins(self) -> Mapping[str, list[str]]:
        """Paths of all cubins by case-folded file name, each list sorted."""
        return _by_folded_name(
            join(folder, name)
            for folder, found in self.files.walk()
            for name in found.files
            if name.lower().endswith(FILE_SUFFIX)
        )

    @cached_property
    def _refused(self) -> Mapping[str, str]:
        """Why something that is named like a cubin does not count as one, by file name."""
        return {
            name: reason
            for _, found in self.files.walk()
            for name, reason in (*found.refused.items(), *((n, "a folder") for n in found.folders))
            if name.endswith(FILE_SUFFIX)
        }

    def find(self, kernel: str) -> str:
        """The relative path of a kernel's cubin.

        Loader and runner look cubins up by file name alone, so the name must be unique: the same
        file in two folders counts once if the bytes are equal (the first path in sorted order),
        and names that differ only by case would become one file on some disks.

        Args:
            kernel: the name as the metadata header spells it (``bmm_x`` for ``Bmm_x.cubin``).

        Raises:
            InputError: no such file, several with different bytes, or another name of equal
                letters.
        """
        filename = cubin_filename(kernel)
        paths = self._cubins.get(filename.lower(), [])
        names = sorted({path.rpartition("/")[2] for path in paths})
        if filename not in names:
            found = self._refused.get(filename) or (f"only {', '.join(names)}" if names else "")
            raise InputError.of(
                "no cubin for a kernel",
                self.where,
                expected=f"a file {filename}",
                found=found or "no such file",
                remedy="complete the pool, or use the header that belongs to it",
            )
        if len(names) > 1:
            raise InputError.of(
                "cubin names that differ only by case",
                self.where,
                expected=f"only {filename}",
                found=", ".join(paths),
                remedy="remove the file that does not belong to the pool",
            )
        if len(paths) > 1 and len({self.files.read(path) for path in paths}) > 1:
            raise InputError.of(
                "one cubin name, several contents",
                self.where,
                expected=f"one {filename}, since cubins are looked up by file name",
                found=", ".join(paths),
                remedy="give the one pool that the runner was compiled for",
            )
        return paths[0]

    def find_all(self, kernels: Iterable[str]) -> dict[str, str]:
        """:meth:`find` for many kernels, by kernel and in their order.

        Raises:
            InputError: every kernel whose file is missing or ambiguous, at once.
        """
        paths: dict[str, str] = {}
        problems: list[Problem] = []
        for kernel in kernels:
            try:
                paths[kernel] = self.find(kernel)
            except InputError as error:
                problems.extend(error.problems)
        raise_all(InputError, problems)
        return paths

    def read(self, path: str) -> bytes:
        """The bytes of a file of the pool.

        Raises:
            InputError: it is missing, no regular file, or unreadable.
        """
        return self.files.read(path)

    def verify_includes(self) -> None:
        """Compare everything in the pool's ``include`` folder with ``checksums.txt``, both ways.

        Raises:
            InputError: every header that is missing, not listed, or has another digest.
        """
        self._verify(INCLUDE, lambda name: True)

    def verify_all(self) -> None:
        """Compare all cubins and everything in ``include`` with ``checksums.txt``, both ways.

        Raises:
            InputError: every file that is missing, not listed, or has another digest.
        """
        self._verify("", lambda name: name.endswith(FILE_SUFFIX))
        self.verify_includes()

    def _verify(self, folder: str, counts: Callable[[str], bool]) -> None:
        stated = {
            path: digest
            for path, digest in self.checksums.digests.items()
            if path.startswith(f"{folder}/" if folder else "") and counts(path)
        }
        present = {
            join(place, name)
            for place, found in self.files.walk(folder)
            for name in found.files
            if counts(name)
        }
        problems = [
            self._disagreement(path, "a line in checksums.txt", "none")
            for path in sorted(present - stated.keys())
        ]
        for path, digest in sorted(stated.items()):
            if path not in present:
                problems.append(self._disagreement(path, f"SHA-256 {digest}", "no such file"))
            elif (found := self._sha256(path)) != digest:
                expected = f"SHA-256 {digest} as in checksums.txt"
                problems.append(self._disagreement(path, expected, found))
        raise_all(InputError, problems)

    def _sha256(self, path: str) -> str:
        # The metadata header is by far the largest file and is read in any case.
        if path == self.header_path:
            return self.header.sha256
        return sha256_bytes(self.files.read(path))

    def _disagreement(self, path: str, expected: str, found: str) -> Problem:
        remedy = "take headers, checksums.txt and cubins from one and the same pool"
        what = "file and checksums.txt disagree"
        return Problem(what, self.files.place(path), expected, found, remedy)


def open_pools(root: Path) -> tuple[Pool, ...]:
    """All pools in a folder, wheel or zip, in sorted order.

    Every folder with checksums or a metadata header is one.

    Raises:
        InputError: ``root`` is nothing of the kind.
    """
    files = open_source(root, "pool")
    if _is_pool(files):
        return (Pool(files),)
    found = [folder for folder, _ in files.walk() if _is_pool(files.below(folder))]
    nested = tuple(f"{folder}/" for folder in found)
    return tuple(Pool(files.below(folder)) for folder in found if not folder.startswith(nested))


def open_pool(root: Path) -> Pool:
    """The pool of batched-GEMM kernels in a folder, a wheel or zip, or a folder inside one.

    Args:
        root: the pool, or something in which exactly one folder is one.

    Raises:
        InputError: there is none, there are several, or checksums or metadata header are missing.
    """
    pools = open_pools(root)
    if len(pools) > 1:
        pools = tuple(pool for pool in pools if _holds_batched_gemm(pool)) or pools
    if len(pools) != 1:
        raise InputError.of(
            "several pools" if pools else "no pool",
            root,
            expected=f"one folder with {checksums.FILENAME} and {INCLUDE}/"
            f"{metadata_header.FILENAMES[0]}",
            found=", ".join(pool.where for pool in pools) or "none",
            remedy="give that folder as --pool-root (also x.whl/folder)",
        )
    (pool,) = pools
    missing = [] if pool.files.has(checksums.FILENAME) else [checksums.FILENAME]
    if pool.header_path is None:
        missing.append(join(INCLUDE, metadata_header.FILENAMES[0]))
    raise_all(
        InputError,
        (
            Problem(
                "incomplete pool",
                pool.where,
                expected=f"a file {name}",
                found=pool.files.listing(name.rpartition("/")[0]).refused.get(
                    name.rpartition("/")[2], "no such file"
                ),
                remedy=_REMEDY_COMPLETE,
            )
            for name in missing
        ),
    )
    return pool


def _is_pool(files: SourceFiles) -> bool:
    included = files.listing(INCLUDE).files
    return checksums.FILENAME in files.listing().files or not included.isdisjoint(
        metadata_header.FILENAMES
    )


def _holds_batched_gemm(pool: Pool) -> bool:
    if pool.header_path is None:
        return False
    head = pool.files.head(pool.header_path, _HEAD_BYTES)
    return f"{metadata_header.LIST_NAME}List[]".encode() in head


def _by_folded_name(paths: Iterable[str]) -> dict[str, list[str]]:
    index: dict[str, list[str]] = {}
    for path in sorted(paths):
        index.setdefault(path.rpartition("/")[2].lower(), []).append(path)
    return index
