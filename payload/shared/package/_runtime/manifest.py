"""``manifest.json`` as far as the runtime needs it.

Keys are those of schema version 1. Further keys are left alone: a later manifest may say more.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from .errors import BundleError

MANIFEST_NAME = "manifest.json"
SCHEMA_VERSION = 1

_T = TypeVar("_T")


@dataclass(frozen=True)
class Cubin:
    """One cubin. ``path`` is relative to the package, ``sha256`` lower-case hexadecimal."""

    filename: str
    path: str
    role: str
    sha256: str


@dataclass(frozen=True)
class Runner:
    """The runner library; ``minimum_glibc`` is "" where the manifest does not tell."""

    path: str
    sha256: str
    ffi_symbols: tuple[str, ...]
    minimum_glibc: str


@dataclass(frozen=True)
class Manifest:
    """One bundle's manifest; read it with :func:`read_manifest`."""

    package_version: str
    architecture: str
    cuda_major: int
    platform: str
    gpu_validated: bool
    runtime_dependencies: Mapping[str, str]
    runner: Runner
    cubins: tuple[Cubin, ...]

    def role_counts(self) -> dict[str, int]:
        """Number of cubins by role, sorted by role."""
        roles = [cubin.role for cubin in self.cubins]
        return {role: roles.count(role) for role in sorted(set(roles))}


def read_manifest(root: Path) -> Manifest:
    """Read the manifest of the package in the folder ``root``.

    Raises:
        BundleError: unreadable, not JSON, another schema version, a key missing or of the wrong
            type, a path that leaves the package, or one cubin file name twice.
    """
    path = root / MANIFEST_NAME
    try:
        document = json.loads(path.read_bytes().decode("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise BundleError(f"{path}: cannot read the manifest: {error}") from error
    reader = _Reader(path, document, "")
    schema = reader.take("schema_version", int)
    if schema != SCHEMA_VERSION:
        raise BundleError(
            f"{path}: unsupported manifest: expected schema_version {SCHEMA_VERSION}, "
            f"found {schema!r}; this package and its manifest are not of one release"
        )
    return Manifest(
        package_version=reader.take("package_version", str),
        architecture=reader.take("architecture", str),
        cuda_major=reader.take("cuda_major", int),
        platform=reader.take("platform", str),
        gpu_validated=reader.take("gpu_validated", bool),
        runtime_dependencies=reader.take("runtime_dependencies", dict),
        runner=_runner(reader.inner("runner")),
        cubins=_cubins(reader),
    )


class _Reader:
    """Typed access to one JSON object of the manifest."""

    def __init__(self, path: Path, value: Any, name: str) -> None:
        if not isinstance(value, dict):
            raise BundleError(f"{path}: {name or 'the document'} must be a JSON object")
        self.path = path
        self._value = value
        self._name = name

    def take(self, key: str, kind: type[_T]) -> _T:
        """The value of ``key``; JSON's true and false are no integers."""
        value = self._value.get(key)
        if type(value) is not kind:
            raise BundleError(
                f"{self.path}: {self._name}{key} must be {kind.__name__}, found {value!r}"
            )
        return value

    def take_or(self, key: str, kind: type[_T], default: _T) -> _T:
        """:meth:`take`, or ``default`` where the key is absent."""
        return self.take(key, kind) if key in self._value else default

    def inner(self, key: str) -> _Reader:
        """The JSON object under ``key``."""
        return _Reader(self.path, self._value.get(key), f"{key}.")

    def relative_path(self, key: str) -> str:
        """A path that stays inside the package."""
        value = self.take(key, str)
        parts = value.split("/")
        if "\\" in value or any(part in ("", ".", "..") for part in parts):
            raise BundleError(
                f"{self.path}: {self._name}{key} must be a path inside the package, found {value!r}"
            )
        return value


def _runner(reader: _Reader) -> Runner:
    versions: dict[str, Any] = reader.take_or("minimum_versions", dict, {})
    return Runner(
        path=reader.relative_path("path"),
        sha256=reader.take("sha256", str).lower(),
        ffi_symbols=tuple(map(str, reader.take("ffi_symbols", list))),
        minimum_glibc=str(versions.get("GLIBC", "")),
    )


def _cubins(reader: _Reader) -> tuple[Cubin, ...]:
    found: dict[str, Cubin] = {}
    for number, value in enumerate(reader.take("cubins", list)):
        entry = _Reader(reader.path, value, f"cubins[{number}].")
        cubin = Cubin(
            filename=entry.take("filename", str),
            path=entry.relative_path("path"),
            role=entry.take("role", str),
            sha256=entry.take("sha256", str).lower(),
        )
        # The runner asks by file name alone, so a name must mean one file.
        if cubin.filename in found:
            raise BundleError(f"{reader.path}: two cubins are named {cubin.filename}")
        if cubin.path.rpartition("/")[2] != cubin.filename:
            raise BundleError(f"{reader.path}: {cubin.path} is not a file {cubin.filename}")
        found[cubin.filename] = cubin
    return tuple(found.values())
