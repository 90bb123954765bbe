"""Nothing appears in an output place unless it is right: work beside it, check, then rename."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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


def check_writable(target: Path) -> None:
    """Refuse a place where nothing can be written, before any work is done for it.

    Raises:
        InputError: the nearest folder that exists is none, or cannot be written.
    """
    absolute = Path(os.path.abspath(target))
    nearest = next(parent for parent in absolute.parents if parent.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        raise InputError.of(
            "the output cannot be written there",
            target,
            expected="a place below a folder that can be written",
            found=f"{nearest}, {'which cannot' if nearest.is_dir() else 'which is no folder'}",
            remedy="name another output",
        )


@contextmanager
def new_directory(target: Path, made_by: str) -> Iterator[Path]:
    """A temporary sibling folder that becomes ``target`` when the block ends without an error.

    An existing ``target`` is replaced as a whole, never merged into; see
    :func:`check_replaceable`. On any error the temporary folder is removed and everything is as
    before.

    Args:
        target: the folder to create.
        made_by: the command's name, recorded in :data:`OWNER_FILE`.

    Raises:
        InputError: ``target`` may not be replaced, or cannot be written.
    """
    check_replaceable(target)
    with _scratch_beside(target) as scratch:
        fresh = scratch / "new"
        fresh.mkdir(mode=0o755)
        yield fresh
        (fresh / OWNER_FILE).write_text(canonical.dumps({"made_by": made_by}), encoding="utf-8")
        fresh.chmod(0o755)
        # The old folder steps aside first: a folder with content cannot be renamed over.
        if target.exists():
            target.rename(scratch / "old")
        fresh.rename(target)


@contextmanager
def new_file(target: Path) -> Iterator[Path]:
    """A temporary path that replaces ``target`` when the block ends without an error.

    Raises:
        InputError: ``target`` cannot be written.
    """
    with _scratch_beside(target) as scratch:
        fresh = scratch / target.name
        yield fresh
        fresh.chmod(0o644)
        fresh.replace(target)


@contextmanager
def _scratch_beside(target: Path) -> Iterator[Path]:
    """A private folder on the file system of ``target``, removed in any case.

    Parent folders that did not exist are made, and removed again if the block fails.
    """
    made = [parent for parent in (target.parent, *target.parent.parents) if not parent.exists()]
    finished = False
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        scratch = tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
        try:
            yield Path(scratch)
            finished = True
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    except OSError as error:
        raise InputError.of(
            "cannot write the output",
            target,
            expected="a place that can be written, with room enough",
            found=error.strerror or str(error),
            remedy="free space or name another output",
        ) from error
    finally:
        if not finished:
            for parent in made:
                with suppress(OSError):
                    parent.rmdir()
