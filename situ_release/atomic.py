"""Nothing appears in an output place unless it is right: work beside it, check, then rename."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from situ_release import canonical
from situ_release.errors import InputError

OWNER_FILE = ".situ-release.json"
"""Marks a folder that situ-release made, and may therefore replace as a whole."""


def check_replaceable(target: Path) -> None:
    """Refuse an output folder that holds anything situ-release did not make.

    A missing folder, an empty folder and a folder with :data:`OWNER_FILE` may be (re)placed; the
    current directory, its parents, a file and a symbolic link never.

    Raises:
        InputError: the folder may not be replaced.
    """
    here = Path.cwd()
    resolved = target.resolve()
    if resolved == here or resolved in here.parents:
        found = "the current directory or one of its parents"
    elif target.is_symlink():
        found = "a symbolic link"
    elif not target.exists():
        return
    elif not target.is_dir():
        found = "a file"
    elif (target / OWNER_FILE).is_file() or not any(target.iterdir()):
        return
    else:
        found = "a folder with content that situ-release did not make"
    raise InputError.of(
        "the output folder may not be replaced",
        target,
        expected=f"a new or empty folder, or one made by situ-release (with {OWNER_FILE})",
        found=found,
        remedy="name another --out, or remove the folder yourself",
    )


@contextmanager
def new_directory(target: Path, made_by: str) -> Iterator[Path]:
    """A temporary sibling folder that becomes ``target`` when the block ends without an error.

    An existing ``target`` is replaced as a whole, never merged into; see
    :func:`check_replaceable`. On any error the temporary folder is removed and ``target`` is as
    before.

    Args:
        target: the folder to create.
        made_by: the command's name, recorded in :data:`OWNER_FILE`.
    """
    check_replaceable(target)
    target = Path(os.path.abspath(target))
    target.parent.mkdir(parents=True, exist_ok=True)
    with scratch_beside(target) as scratch:
        fresh = scratch / "new"
        fresh.mkdir(mode=0o755)
        yield fresh
        (fresh / OWNER_FILE).write_text(canonical.dumps({"made_by": made_by}), encoding="utf-8")
        os.chmod(fresh, 0o755)
        if target.exists():
            os.rename(target, scratch / "old")
        os.rename(fresh, target)


@contextmanager
def new_file(target: Path) -> Iterator[Path]:
    """A temporary path that replaces ``target`` when the block ends without an error."""
    target = Path(os.path.abspath(target))
    target.parent.mkdir(parents=True, exist_ok=True)
    with scratch_beside(target) as scratch:
        fresh = scratch / target.name
        yield fresh
        os.chmod(fresh, 0o644)
        os.replace(fresh, target)


@contextmanager
def scratch_beside(target: Path) -> Iterator[Path]:
    """A private folder on the same file system as ``target``, removed in any case."""
    scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent))
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
