"""Facts of a wheel, with or without a manifest, and of a staged payload."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path

from situ_release.bundle.manifest import MANIFEST_NAME, read_manifest
from situ_release.errors import InputError, Problem
from situ_release.inspection.facts.bundle import (
    Binaries,
    Binary,
    ContainedFile,
    ManifestFacts,
    contained_file,
    manifest_or_problems,
    read_binary,
    sorted_binaries,
)
from situ_release.sources.files import SourceFiles, join
from situ_release.sources.kernel_name import FILE_SUFFIX
from situ_release.sources.pool import open_pools
from situ_release.wheel.archive import (
    Member,
    MemberContent,
    WheelArchive,
    examine_wheel,
    on_all_cores,
)
from situ_release.wheel.contents import package_folder, payload_problems
from situ_release.wheel.dist_info import DIST_INFO, parse_wheel_name

_BYTECODE = "__pycache__"
_REMEDY = "see situ-release verify"


@dataclass(frozen=True, slots=True)
class PoolOutline:
    """A pool inside a wheel, unread: inspect ``x.whl/<folder>`` to have it read."""

    folder: str
    cubins: int
    bytes: int


@dataclass(frozen=True, slots=True)
class WheelFacts:
    """What a wheel says about itself.

    Attributes:
        size: bytes of the file.
        distribution: from the file name; "" where that is no wheel's.
        version: from the file name.
        tag: from the file name.
        metadata: the fields of METADATA in order, the description left out.
        description: METADATA's text.
        headers: the fields of WHEEL, in order.
        package: the import package with the manifest; None without one.
        manifest: None where there is none or it cannot be read.
        files: every file, in the archive's order. Files of pools are not read.
        binaries: the binaries outside of pools.
        pools: the pools inside.
        problems: structural faults of the archive and damaged members, what is wrong with the
            manifest, and in what files and manifest differ.
    """

    size: int
    sha256: str
    distribution: str
    version: str
    tag: str
    metadata: tuple[tuple[str, str], ...]
    description: str
    headers: tuple[tuple[str, str], ...]
    package: str | None
    manifest: ManifestFacts | None
    files: tuple[ContainedFile, ...]
    binaries: Binaries
    pools: tuple[PoolOutline, ...]
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class PayloadFacts:
    """What a staged payload, or an unpacked wheel, says about itself.

    Attributes:
        package: the import package with the manifest.
        manifest: None where it cannot be read.
        files: every file, sorted.
        binaries: the binaries among them.
        problems: files that cannot be read, and in what files and manifest differ.
    """

    package: str
    manifest: ManifestFacts | None
    files: tuple[ContainedFile, ...]
    binaries: Binaries
    problems: tuple[Problem, ...]


MAX_LISTED_BYTES = 16 << 30
"""Content that a listed wheel may declare: those of public pools have gigabytes, left unread."""


def wheel_facts(path: Path) -> WheelFacts:
    """Facts of a wheel; every file of it is read, those of pools aside.

    Raises:
        InputError: the file cannot be read.
    """
    archive = examine_wheel(path, content_limit=MAX_LISTED_BYTES)
    pools = _pools(path, archive)
    folders = tuple(f"{pool.folder}/" for pool in pools)

    def look(member: Member) -> _Look:
        unread = ContainedFile(member.name, member.size, None)
        if member.name.startswith(folders):
            return _Look(unread)
        content = archive.content(member, keep=True)
        if content.data is None:
            return _Look(unread, problem=content.fault)
        return _look(member.name, content.data)

    looked = on_all_cores(look, archive.files)
    files = tuple(look.file for look in looked if look.file is not None)
    texts = {name: _text(archive, name) for name in ("METADATA", "WHEEL")}
    metadata, description = _headers(texts["METADATA"])
    distribution, version, tag = _name(path.name)
    package, doubts = _package([file.path for file in files])
    manifest_path = join(package or "", MANIFEST_NAME)
    data = _content(archive, manifest_path) if package else None
    manifest, problems = manifest_or_problems(data, manifest_path)
    return WheelFacts(
        size=archive.size,
        sha256=archive.sha256,
        distribution=distribution,
        version=version,
        tag=tag,
        metadata=metadata,
        description=description,
        headers=_headers(texts["WHEEL"])[0],
        package=package,
        manifest=manifest,
        files=files,
        binaries=sorted_binaries(look.binary for look in looked if look.binary is not None),
        pools=pools,
        problems=(
            *archive.faults,
            *(look.problem for look in looked if look.problem is not None),
            *doubts,
            *problems,
            *_contradictions(package, data if manifest else None, files),
        ),
    )


def payload_facts(files: SourceFiles) -> PayloadFacts:
    """Facts of a staged payload; every file of it is read.

    Raises:
        InputError: no manifest, or several.
    """
    names = payload_names(files)
    package = package_folder(names, files.where)

    def look(name: str) -> _Look:
        try:
            return _look(name, files.read(name))
        except InputError as error:
            return _Look(None, problem=error.problems[0])

    looked = on_all_cores(look, names)
    found = tuple(look.file for look in looked if look.file is not None)
    data = files.read(join(package, MANIFEST_NAME))
    manifest, problems = manifest_or_problems(data, join(package, MANIFEST_NAME))
    return PayloadFacts(
        package=package,
        manifest=manifest,
        files=found,
        binaries=sorted_binaries(look.binary for look in looked if look.binary is not None),
        problems=(
            *(look.problem for look in looked if look.problem is not None),
            *problems,
            *_contradictions(package, data if manifest else None, found),
        ),
    )


def payload_names(files: SourceFiles) -> list[str]:
    """The files of a payload, sorted; what Python leaves behind on an import is none of it."""
    return sorted(
        join(folder, name)
        for folder, listing in files.walk()
        if _BYTECODE not in folder.split("/")
        for name in listing.files
    )


@dataclass(frozen=True, slots=True)
class _Look:
    """One file: read or why not, and what it says where it is a binary."""

    file: ContainedFile | None
    binary: Binary | None = None
    problem: Problem | None = None


def _look(path: str, data: bytes) -> _Look:
    return _Look(contained_file(path, data), read_binary(path, data))


def _pools(path: Path, archive: WheelArchive) -> tuple[PoolOutline, ...]:
    try:
        pools = open_pools(path)
    except InputError:
        return ()  # a damaged zip; the archive's faults say so
    sizes = {member.name: member.size for member in archive.files}
    outlines = []
    for pool in pools:
        folder = pool.where.removeprefix(f"{path}/")
        inside = [n for n in sizes if n.startswith(f"{folder}/") and n.endswith(FILE_SUFFIX)]
        outlines.append(PoolOutline(folder, len(inside), sum(sizes[name] for name in inside)))
    return tuple(outlines)


def _contradictions(
    package: str | None, manifest: bytes | None, files: tuple[ContainedFile, ...]
) -> list[Problem]:
    if package is None or manifest is None:
        return []
    contents = {
        file.path: MemberContent(file.size, file.sha256)
        for file in files
        if file.sha256 is not None
    }
    return payload_problems(package, read_manifest(manifest, package), contents, _REMEDY)


def _package(names: list[str]) -> tuple[str | None, tuple[Problem, ...]]:
    """The import package; why it is not known, where there is a manifest and still no answer."""
    if not any(name.endswith(f"/{MANIFEST_NAME}") and name.count("/") == 1 for name in names):
        return None, ()
    try:
        return package_folder(names, ""), ()
    except InputError as error:
        return None, error.problems


def _name(filename: str) -> tuple[str, str, str]:
    try:
        name = parse_wheel_name(filename)
    except InputError:
        return "", "", ""
    return name.distribution, str(name.version), name.tag


def _text(archive: WheelArchive, name: str) -> str:
    for member in archive.files:
        folder, _, base = member.name.partition("/")
        if folder.endswith(DIST_INFO) and base == name:
            return (_content(archive, member.name) or b"").decode("utf-8", "backslashreplace")
    return ""


def _content(archive: WheelArchive, name: str) -> bytes | None:
    try:
        return archive.read(name)
    except InputError:
        return None  # a damaged member; its fault is among the problems


def _headers(text: str) -> tuple[tuple[tuple[str, str], ...], str]:
    """Fields and body of a text in the form of e-mail headers."""
    message = HeaderParser().parsestr(text)
    fields = tuple((key, str(value).strip()) for key, value in message.items())
    return fields, str(message.get_payload())


def metadata_values(facts: WheelFacts, key: str) -> tuple[str, ...]:
    """The values of a field of METADATA, in order."""
    return tuple(value for name, value in facts.metadata if name.lower() == key.lower())


def header_fields(text: str) -> Mapping[str, list[str]]:
    """The values of every field of METADATA or WHEEL, by field and in order."""
    grouped: dict[str, list[str]] = {}
    for key, value in _headers(text)[0]:
        grouped.setdefault(key, []).append(value)
    return grouped
