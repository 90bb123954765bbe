"""``RECOVERED.json``: what marks a pool or a snapshot as recovered from a published wheel.

A wheel tells which binaries it has, and its manifest *claims* where they came from. The marker
keeps the two apart: claims are used only where a marker says that they are claims, and what is
staged from such a source says ``recovered_from``. Nothing recovered may pass for an original.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from situ_release import canonical
from situ_release.errors import InputError, Problem
from situ_release.sources.files import DirectoryFiles, SourceFiles

FILENAME = "RECOVERED.json"

_Text = Annotated[str, StringConstraints(min_length=1, pattern=r"^[^\x00-\x1f\x7f]*$")]
_Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
_Count = Annotated[int, Field(ge=0, strict=True)]


class _Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)


class RecoveredClaims(_Closed):
    """What the wheel's manifest says of the originals; None where it says nothing.

    Attributes:
        metadata_sha256: the original pool's metadata header.
        config_sha256: the original pool's ``config.json``.
        pool_name: the original pool's name.
        pool_cubin_count: cubins in the original pool.
        branches: source branches, by the manifest's key (``flashinfer_branch``, ...).
        flashinfer_version: version of the original snapshot.
        source_module_name: file stem of the original runner module.
        build_mode: how the runner was compiled.
        generated_at: the manifest's time stamp, ISO 8601.
        package_version: version of the wheel's distribution.
    """

    metadata_sha256: _Sha256 | None = None
    config_sha256: _Sha256 | None = None
    pool_name: _Text | None = None
    pool_cubin_count: _Count | None = None
    branches: dict[str, _Text] = {}
    flashinfer_version: _Text | None = None
    source_module_name: _Text | None = None
    build_mode: _Text | None = None
    generated_at: _Text | None = None
    package_version: _Text | None = None


class RecoveredMarker(_Closed):
    """The wheel that a pool or snapshot was recovered from.

    Attributes:
        wheel: its file name.
        wheel_sha256: its SHA-256.
        claims: what its manifest claims of the originals.
    """

    wheel: _Text
    wheel_sha256: _Sha256
    claims: RecoveredClaims


def parse_marker(data: bytes, where: str) -> RecoveredMarker:
    """Read a marker's bytes.

    Raises:
        InputError: not strict JSON, or keys and values that do not fit; all of them at once.
    """
    document = canonical.loads(data, where)
    try:
        return RecoveredMarker.model_validate(document)
    except ValidationError as error:
        problems = [
            Problem(
                "invalid recovery marker",
                where,
                expected=fault["msg"],
                found=f"{'.'.join(map(str, fault['loc'])) or 'the document'}: {fault['type']}",
                remedy="recover the wheel again; the marker is not edited by hand",
            )
            for fault in error.errors(include_url=False, include_input=False)
        ]
        raise InputError(*problems) from error


def find_marker(files: SourceFiles) -> RecoveredMarker | None:
    """The marker among a source's files, None where there is none.

    Raises:
        InputError: the marker cannot be read or is malformed.
    """
    listing = files.listing()
    if FILENAME not in {*listing.files, *listing.folders, *listing.refused}:
        return None
    return parse_marker(files.read(FILENAME), files.place(FILENAME))


def read_marker(root: Path) -> RecoveredMarker | None:
    """:func:`find_marker` in a folder on disk."""
    return find_marker(DirectoryFiles(root))


def write_marker(root: Path, marker: RecoveredMarker) -> None:
    """Write the marker into a folder, as canonical JSON."""
    text = canonical.dumps(marker.model_dump(mode="json", exclude_none=True))
    (root / FILENAME).write_text(text, encoding="utf-8")
