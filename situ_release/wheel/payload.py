"""A payload project on disk: what of it belongs into a wheel, read and copied in one pass.

The backend never sees the folder itself but a fresh copy of exactly the files that were hashed. So
nothing stale (an old ``build/``, a cubin that was taken off the manifest) can reach a wheel,
nothing that changes meanwhile either, and the payload is never written to.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from situ_release.atomic import OWNER_FILE
from situ_release.bundle.manifest import MANIFEST_NAME, Manifest, read_manifest
from situ_release.errors import InputError, Problem, raise_all
from situ_release.os_errors import os_fault, ran_out
from situ_release.wheel.archive import MemberContent, on_all_cores
from situ_release.wheel.contents import package_folder, payload_problems

SBOM_SUFFIX = ".cdx.json"

_BYTECODE = "__pycache__"
_REMEDY = "stage the payload again with situ-release stage-assets"


@dataclass(frozen=True, slots=True)
class Payload:
    """A payload project whose files are those of its manifest.

    Attributes:
        root: the project's folder.
        package: the import package's folder in it.
        manifest: the package's manifest.
        files: content (without bytes) of every file of the package, by name relative to ``root``.
        sboms: digest of every bill of materials beside the package, by file name.
    """

    root: Path
    package: str
    manifest: Manifest
    files: Mapping[str, MemberContent]
    sboms: Mapping[str, str]


def copy_payload(root: Path, destination: Path) -> Payload:
    """Copy a project's own files and its package, and prove that they fit the manifest both ways.

    Copied are the files beside the package and everything below it. Bytecode caches, which appear
    when someone imports the staged package, and other folders beside it are left behind.

    Args:
        root: the payload project.
        destination: an empty folder.

    Raises:
        InputError: no such folder, no manifest, or files that are missing, extra, changed, links or
            unreadable; all of them at once, each by its name.
        HostError: there is no room for the copy.
    """
    if not root.is_dir():
        raise InputError.of(
            "there is no payload",
            root,
            expected="a folder that situ-release stage-assets made",
            found="a file" if root.exists() else "nothing",
            remedy="run situ-release stage-assets, or name the folder with --payload",
        )
    try:
        top = sorted(entry.name for entry in os.scandir(root) if not entry.is_dir())
        package = package_folder(
            (f"{path.parent.name}/{path.name}" for path in root.glob(f"*/{MANIFEST_NAME}")),
            str(root),
        )
        names = [*(name for name in top if name != OWNER_FILE), *_walk(root, package)]
        for folder in {(destination / name).parent for name in names}:
            folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(_unreadable(str(error.filename or root), error)) from error

    def copy(name: str) -> MemberContent | Problem:
        return _copy(root / name, destination / name)

    copied = dict(zip(names, on_all_cores(copy, names), strict=True))
    raise_all(InputError, [item for item in copied.values() if isinstance(item, Problem)])
    files = {
        name: item
        for name, item in copied.items()
        if isinstance(item, MemberContent) and name.startswith(f"{package}/")
    }
    sboms = {
        name: item.sha256
        for name, item in copied.items()
        if isinstance(item, MemberContent) and "/" not in name and name.endswith(SBOM_SUFFIX)
    }
    member = f"{package}/{MANIFEST_NAME}"
    manifest = read_manifest((destination / member).read_bytes(), str(root / member))
    problems = payload_problems(package, manifest, files, _REMEDY)
    raise_all(InputError, _below(root, problems))
    return Payload(root, package, manifest, files, sboms)


def _walk(root: Path, package: str) -> Iterator[str]:
    """Names of all files below the package, relative to ``root``; links are not followed."""
    pending = [package]
    while pending:
        folder = pending.pop()
        entries = sorted(os.scandir(root / folder), key=lambda entry: entry.name)
        for entry in entries:
            name = f"{folder}/{entry.name}"
            if not entry.is_dir(follow_symlinks=False):
                yield name
            elif entry.name != _BYTECODE:
                pending.append(name)


def _copy(source: Path, target: Path) -> MemberContent | Problem:
    digest = hashlib.sha256()
    size = 0
    try:
        # Not through links, and without waiting for a writer if it is a pipe.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with open(os.open(source, flags), "rb") as stream, target.open("wb") as copy:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                return _not_regular(source)
            while block := stream.read(1 << 20):
                digest.update(block)
                size += copy.write(block)
        target.chmod(0o644)
    except OSError as error:
        if ran_out(error):
            raise os_fault(error, target.parent, "copy the payload") from error
        return _not_regular(source) if source.is_symlink() else _unreadable(str(source), error)
    return MemberContent(size, digest.hexdigest())


def _not_regular(path: Path) -> Problem:
    kind = "a symbolic link" if path.is_symlink() else "something else"
    return Problem("not a regular file", str(path), "a regular file", kind, _REMEDY)


def _unreadable(where: str, error: OSError) -> Problem:
    found = error.strerror or str(error)
    return Problem("cannot read the payload", where, "a readable file", found, _REMEDY)


def _below(root: Path, problems: list[Problem]) -> list[Problem]:
    return [
        Problem(item.what, str(root / item.where), item.expected, item.found, item.remedy)
        for item in problems
    ]
