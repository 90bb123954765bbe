"""A bundle wheel that agrees with itself: archive, RECORD, manifest and files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import canonicalize_name

from situ_release.bundle.manifest import MANIFEST_NAME, Manifest, read_manifest
from situ_release.errors import InputError, Problem, raise_all
from situ_release.wheel.archive import (
    MemberContent,
    WheelArchive,
    archive_faults,
    in_wheel,
    open_wheel,
)
from situ_release.wheel.contents import foreign_files, package_folder, payload_problems
from situ_release.wheel.dist_info import (
    WheelName,
    dist_info_folder,
    parse_wheel_name,
    read_metadata,
)
from situ_release.wheel.record import RECORD, record_problems

_PARSED = (f"/{RECORD}", f"/{MANIFEST_NAME}")
_REMEDY = "build the wheel again, or fetch it again from where it was published"


@dataclass(frozen=True, slots=True)
class ProvenWheel:
    """A bundle wheel whose parts agree with each other.

    Attributes:
        archive: the opened file.
        name: its file name, taken apart.
        dist_info: name of the dist-info folder.
        package: name of the import package.
        manifest: the package's manifest.
        contents: every file by member name.
    """

    archive: WheelArchive
    name: WheelName
    dist_info: str
    package: str
    manifest: Manifest
    contents: Mapping[str, MemberContent]

    @property
    def runner_member(self) -> str:
        """The runner's member name."""
        return f"{self.package}/{self.manifest.runner.path}"

    def data(self, member: str) -> bytes:
        """The bytes of a file of the wheel."""
        kept = self.contents[member].data
        return self.archive.read(member) if kept is None else kept


def prove_wheel(path: Path, *, keep_all: bool = False) -> ProvenWheel:
    """Read a bundle wheel completely and prove that it agrees with itself.

    Args:
        path: the wheel.
        keep_all: keep the bytes of all files, for a caller who needs most of them.

    Raises:
        InputError: the file is no sound wheel, or RECORD, manifest and files contradict each other;
            all contradictions at once.
    """
    archive = open_wheel(path)
    name = parse_wheel_name(path.name)
    contents = archive.scan(lambda member: keep_all or member.endswith(_PARSED))
    raise_all(InputError, in_wheel(path, archive_faults(archive, contents)))
    dist_info = dist_info_folder(contents, str(path))
    package = package_folder(contents, str(path))
    member = f"{package}/{MANIFEST_NAME}"
    manifest = read_manifest(contents[member].data or b"", f"{path}: {member}")
    problems = [
        *_name_problems(archive, name, dist_info),
        *record_problems(contents, dist_info),
        *payload_problems(package, manifest, contents, _REMEDY),
        *(
            Problem("neither in the package nor in dist-info", file, f"{package}/…", file, _REMEDY)
            for file in foreign_files(package, contents)
        ),
    ]
    raise_all(InputError, in_wheel(path, problems))
    return ProvenWheel(archive, name, dist_info, package, manifest, contents)


def _name_problems(archive: WheelArchive, name: WheelName, dist_info: str) -> Iterator[Problem]:
    """Where the file name, which later names are made from, is not what METADATA says."""
    member = f"{dist_info}/METADATA"
    metadata = read_metadata(archive.read(member), f"{archive.path}: {member}")
    stated = (canonicalize_name(metadata.name), metadata.version)
    if stated != (name.distribution, name.version):
        found = f"{name.distribution} {name.version}"
        expected = f"{stated[0]} {stated[1]}, as METADATA says"
        yield Problem("the file name is not the wheel's", "", expected, found, _REMEDY)
