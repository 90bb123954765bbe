"""Facts of a bundle: an import package with a manifest, its cubins and its libraries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Union

from situ_release import canonical
from situ_release.bundle.manifest import read_manifest
from situ_release.digests import sha256_bytes
from situ_release.errors import InputError, Problem
from situ_release.inspection.facts.census import (
    Census,
    CubinFile,
    UnreadableFile,
    census,
    read_cubin_data,
    unreadable_file,
)
from situ_release.inspection.facts.runner import RunnerFacts, runner_facts
from situ_release.inspection.identify import ELF, is_cubin
from situ_release.sources.kernel_name import FILE_SUFFIX


@dataclass(frozen=True, slots=True)
class ManifestFacts:
    """A bundle's manifest.

    Attributes:
        size: bytes.
        document: the whole document.
    """

    size: int
    sha256: str
    document: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class LibraryFile:
    """A host library by its path."""

    path: str
    library: RunnerFacts


@dataclass(frozen=True, slots=True)
class ContainedFile:
    """One file of a wheel or payload.

    Attributes:
        path: relative to its root.
        size: bytes.
        sha256: None where it was not read.
    """

    path: str
    size: int
    sha256: str | None


Binary = Union[CubinFile, LibraryFile, UnreadableFile]  # noqa: UP007 - evaluated on Python 3.10


@dataclass(frozen=True, slots=True)
class Binaries:
    """The binaries among files.

    Attributes:
        cubins: what the cubins say.
        libraries: the host libraries, by path.
        unreadable: host libraries that cannot be read; damaged cubins are the census'.
    """

    cubins: Census
    libraries: tuple[LibraryFile, ...]
    unreadable: tuple[UnreadableFile, ...]


def manifest_facts(data: bytes, where: str) -> ManifestFacts:
    """Facts of a manifest.

    Raises:
        InputError: not strict JSON, or not a manifest of a schema version that is known.
    """
    read_manifest(data, where)
    return ManifestFacts(len(data), sha256_bytes(data), canonical.loads(data, where))


def contained_file(path: str, data: bytes) -> ContainedFile:
    """One file that was read."""
    return ContainedFile(path, len(data), sha256_bytes(data))


def sorted_binaries(found: Iterable[Binary]) -> Binaries:
    """The binaries by what they are."""
    cubins: list[CubinFile | UnreadableFile] = []
    libraries: list[LibraryFile] = []
    unreadable: list[UnreadableFile] = []
    for binary in found:
        if isinstance(binary, LibraryFile):
            libraries.append(binary)
        elif isinstance(binary, CubinFile) or binary.path.endswith(FILE_SUFFIX):
            cubins.append(binary)
        else:
            unreadable.append(binary)
    return Binaries(
        cubins=census(cubins),
        libraries=tuple(sorted(libraries, key=lambda file: file.path)),
        unreadable=tuple(sorted(unreadable, key=lambda file: file.path)),
    )


def read_binary(path: str, data: bytes) -> Binary | None:
    """What a file says that is an ELF file or named like a cubin; None for any other."""
    if path.endswith(FILE_SUFFIX) or is_cubin(data):
        return read_cubin_data(data, path)
    if not data.startswith(ELF):
        return None
    try:
        return LibraryFile(path, runner_facts(data, path))
    except InputError as error:
        return unreadable_file(path, error)


def manifest_or_problems(
    data: bytes | None, where: str
) -> tuple[ManifestFacts | None, tuple[Problem, ...]]:
    """A manifest's facts, or why it cannot be read; neither where there is no such file."""
    if data is None:
        return None, ()
    try:
        return manifest_facts(data, where), ()
    except InputError as error:
        return None, error.problems
