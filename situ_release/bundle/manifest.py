"""``manifest.json``: what a bundle says about itself.

Schema version 1 is the published one; situ-release keeps each of its keys and meanings and adds
keys at the top level and inside the objects of ``cubins`` and ``runner`` only. Every added key is
optional here, because published wheels do not have it. Sizes are bytes, digests lower-case
hexadecimal SHA-256.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
)

from situ_release import canonical
from situ_release.bundle.model_faults import validation_problems
from situ_release.bundle.recipe import (
    Arch,
    Blankable,
    FileName,
    RelativePath,
    Text,
    VersionText,
)
from situ_release.errors import InputError

MANIFEST_NAME = "manifest.json"
SCHEMA_VERSION = 1

Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Commit = Annotated[str, StringConstraints(pattern=r"^([0-9a-f]{40}|[0-9a-f]{64})$")]
"""A git object name: SHA-1 or SHA-256."""


def _is_time(text: str) -> str:
    if _TIME.fullmatch(text) is None:
        raise ValueError("not an ISO 8601 time with an offset")
    datetime.fromisoformat(text.replace("Z", "+00:00"))
    return text


# Spelled as every supported Python reads it.
_TIME = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{3}([0-9]{3})?)?"
    r"(Z|[+-][0-9]{2}:[0-9]{2})"
)
Time = Annotated[str, AfterValidator(_is_time)]
Bytes = Annotated[int, Field(ge=0)]


class _Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)


class ToolchainEntry(_Closed):
    """The program that produced a cubin, as the cubin's own note says; "" where it is silent."""

    producer: Blankable
    version: Blankable
    options: str


class CubinEntry(_Closed):
    """One cubin: its file, and what its name and ELF say."""

    filename: FileName
    path: RelativePath
    role: Text
    sha256: Sha256
    size: Bytes
    kernel: Text | None = None
    family: Text | None = None
    arch: Arch | None = None
    toolchain: ToolchainEntry | None = None
    registers: int | None = None
    shared_memory_bytes: Bytes | None = None
    device_code_sha256: Sha256 | None = None


DeviceCodeKind = Literal["cubin", "ptx", "lto-ir", "other"]


class DeviceModule(_Closed):
    """Device code embedded in the runner, grouped: ``count`` modules of one kind for one target."""

    arch: Text
    kind: DeviceCodeKind
    count: Annotated[int, Field(ge=1)]


class KernelTableEntry(_Closed):
    """Size and digest of the (name, SHA-256) table compiled into the runner."""

    count: Annotated[int, Field(ge=0)]
    sha256: Sha256


class RunnerEntry(_Closed):
    """The compiled runner library."""

    path: RelativePath
    sha256: Sha256
    size: Bytes
    build_mode: Text
    ffi_symbols: list[Text]
    source_metadata_sha256: Sha256
    source_module_name: Text
    needed: list[Text] | None = None
    minimum_versions: dict[Text, Text] | None = None
    device_code: list[DeviceModule] | None = None
    build_id: Text | None = None
    compiler: list[str] | None = None
    kernel_table: KernelTableEntry | None = None
    embedded_path_count: Annotated[int, Field(ge=0)] | None = None


class RuntimeDependencies(_Closed):
    """What the host brings."""

    apache_tvm_ffi: Text
    cuda_driver_soname: Text
    cuda_runtime_soname: Text
    python: Text


class RecipeEntry(_Closed):
    """The recipe the bundle was staged from."""

    name: Text
    sha256: Sha256


class SnapshotEntry(_Closed):
    """The source snapshot; null where it does not tell (no git, or recovered from a wheel)."""

    version: Text
    kind: Literal["git", "files", "recovered"]
    commit: Commit | None
    tree: Commit | None
    dirty: bool | None
    branch: Text | None


class PoolEntry(_Closed):
    """The cubin pool as it was read, the recovered header's own hash included."""

    name: Text
    config_sha256: Sha256 | None
    metadata_sha256: Sha256
    cubin_count: Annotated[int, Field(ge=0)]
    export_version: Text | None


class RecoveredFrom(_Closed):
    """The wheel that pool and snapshot were recovered from: none of it is an original."""

    wheel: Text
    sha256: Sha256


class Tools(_Closed):
    """Versions that decide the manifest's content."""

    situ_release: VersionText


class Manifest(_Closed):
    """The whole document. Read with :func:`read_manifest`, write with :meth:`canonical`."""

    schema_version: Literal[1]
    artifact_kind: Text
    package_version: Text
    architecture: Arch
    cuda_major: int
    platform: Text
    generated_at: Time
    gpu_validated: bool
    limitations: list[Text]
    cubins: list[CubinEntry]
    runner: RunnerEntry
    runtime_dependencies: RuntimeDependencies
    source_provenance: dict[str, str | int | None]
    supported_contracts: list[dict[str, Any]]
    tactic_policy: dict[str, Any]
    expert_parallel: dict[str, Any]
    recipe: RecipeEntry | None = None
    snapshot: SnapshotEntry | None = None
    pool: PoolEntry | None = None
    recovered_from: RecoveredFrom | None = None
    tools: Tools | None = None

    def canonical(self) -> str:
        """Canonical JSON. A key that is not set is left out; a fact that is unknown is null."""
        return canonical.dumps(self.model_dump(mode="json", exclude_unset=True))


def read_manifest(data: bytes, where: str) -> Manifest:
    """Parse and validate a manifest.

    Args:
        data: the file's bytes.
        where: file or archive member, used in errors.

    Raises:
        InputError: not strict JSON, an unsupported schema version, or keys that do not fit.
    """
    document = canonical.loads(data, where)
    stated = document.get("schema_version") if isinstance(document, dict) else SCHEMA_VERSION
    # True and 1.0 equal 1 in Python, not in JSON.
    if type(stated) is not int or stated != SCHEMA_VERSION:
        raise InputError.of(
            "unsupported manifest schema",
            where,
            expected=f"schema_version {SCHEMA_VERSION}",
            found=f"schema_version {stated!r}"[:120],
            remedy="use the situ-release version that wrote the wheel",
        )
    try:
        return Manifest.model_validate(document)
    except ValidationError as error:
        raise InputError(*validation_problems(error, where, "manifest")) from error
