"""The package's files are those the manifest names, byte for byte."""

from __future__ import annotations

import hashlib
from pathlib import Path

from .errors import BundleError
from .manifest import Cubin, Manifest, Runner


def read_checked(path: Path, sha256: str) -> bytes:
    """The bytes of ``path``, which must have the SHA-256 ``sha256``.

    Raises:
        BundleError: the file is missing, unreadable, or another one.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BundleError(f"{path}: cannot read: {error.strerror or error}") from error
    found = hashlib.sha256(data).hexdigest()
    if found != sha256:
        raise BundleError(
            f"{path}: not the file of the manifest: expected SHA-256 {sha256}, "
            f"found {found} ({len(data)} bytes)"
        )
    return data


def verify_files(root: Path, manifest: Manifest) -> None:
    """Hash the runner and every cubin.

    Raises:
        BundleError: names every file that is missing or differs.
    """
    files: list[Runner | Cubin] = [manifest.runner, *manifest.cubins]
    damages = [_damage(root / file.path, file.sha256) for file in files]
    problems = [damage for damage in damages if damage]
    if problems:
        count = f"{len(problems)} of {len(files)} files"
        raise BundleError(
            "\n".join([f"the bundle is damaged ({count}); reinstall the package", *problems])
        )


def _damage(path: Path, sha256: str) -> str:
    try:
        read_checked(path, sha256)
    except BundleError as error:
        return str(error)
    return ""


def read_cubin(root: Path, manifest: Manifest, requested: str, sha256: str) -> bytes:
    """The cubin that the runner asks for.

    Args:
        root: the package's folder.
        manifest: its manifest.
        requested: the path compiled into the runner; only the file name counts.
        sha256: the digest compiled into the runner, which must be the manifest's and the file's.

    Raises:
        BundleError: no such cubin, another digest, or a damaged file; names the file.
    """
    filename = requested.rpartition("/")[2] or "(no name)"
    entry = next((cubin for cubin in manifest.cubins if cubin.filename == filename), None)
    if entry is None:
        raise BundleError(
            f"{filename}: the runner asks for a cubin that this bundle does not have "
            f"(it has {len(manifest.cubins)} for {manifest.architecture})"
        )
    if sha256.lower() != entry.sha256:
        raise BundleError(
            f"{filename}: the runner was compiled for another cubin: it expects SHA-256 "
            f"{sha256 or '(none)'}, the manifest has {entry.sha256}"
        )
    return read_checked(root / entry.path, entry.sha256)
