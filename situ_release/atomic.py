"""Nothing appears in an output place unless it is right: work beside it, check, then rename."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import tempfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from situ_release import canonical
from situ_release.errors import InputError, Problem, raise_all
from situ_release.os_errors import os_fault

OWNER_FILE = ".situ-release.json"
"""Marks a folder that situ-release made, and may therefore replace as a whole."""

_NEW = "new"
_OLD = "old"
_SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)


def check_apart(out: Path, others: Iterable[Path | None]) -> None:
    """Refuse an output that is, holds or lies in another path of the same command.

    Args:
        out: the file or folder to write.
        others: what the command reads, and its other outputs; None for what was not given.

    Raises:
        InputError: every path that is not apart from ``out``.
    """
    with _reported(out):
        place = Path(os.path.realpath(out))
        problems = []
        for other in filter(None, others):
            there = Path(os.path.realpath(other))
            if place == there or (out.exists() and other.exists() and out.samefile(other)):
                found = "that very path"
            elif there in place.parents:
                found = "a place inside it"
            elif place in there.parents:
                found = "a folder that holds it"
            else:
                continue
            problems.append(
                Problem(
                    "the output is not apart from another path of this command",
                    str(out),
                    expected=f"a place apart from {other}",
                    found=found,
                    remedy="name another output",
                )
            )
    raise_all(InputError, problems)


def check_new_file(target: Path, others: Iterable[Path | None] = ()) -> None:
    """Refuse an output file, before any work is done for it, that :func:`new_file` will not write.

    Raises:
        InputError: ``target`` is not apart from ``others``, is there and is no regular file, or
            cannot be written.
    """
    check_apart(target, others)
    check_writable(target)
    with _reported(target):
        regular = not os.path.lexists(target) or stat.S_ISREG(target.lstat().st_mode)
    if not regular:
        raise InputError.of(
            "the output may not be replaced",
            target,
            expected="a new file, or a regular one to replace",
            found="a folder" if target.is_dir() else "a link, pipe or device",
            remedy="name another output",
        )


def check_replaceable(target: Path) -> None:
    """Refuse an output folder that holds anything situ-release did not make.

    A missing folder, an empty folder and a folder with :data:`OWNER_FILE` may be (re)placed; the
    current directory, its parents, a file and a symbolic link never.

    Raises:
        InputError: the folder may not be replaced.
    """
    with _reported(target):
        found = _obstacle(target)
    if found:
        raise InputError.of(
            "the output folder may not be replaced",
            target,
            expected=f"a new or empty folder, or one made by situ-release (with {OWNER_FILE})",
            found=found,
            remedy="name another --out, or remove the folder yourself",
        )


def _obstacle(target: Path) -> str:
    """What stands where the folder should go; empty if nothing does."""
    here = Path.cwd()
    resolved = Path(os.path.realpath(target))
    if resolved == here or resolved in here.parents:
        return "the current directory or one of its parents"
    if target.is_symlink():
        return "a symbolic link"
    if not target.exists():
        return ""
    if not target.is_dir():
        return "a file"
    if (target / OWNER_FILE).is_file() or not any(target.iterdir()):
        return ""
    return "a folder with content that situ-release did not make"


def check_writable(target: Path) -> None:
    """Refuse a place where nothing can be written, before any work is done for it.

    Raises:
        InputError: the nearest folder that exists is none, or cannot be written.
    """
    with _reported(target):
        absolute = Path(os.path.abspath(target))
        nearest = next(parent for parent in absolute.parents if parent.exists())
        usable = nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)
    if not usable:
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
        HostError: there is no room for it.
    """
    check_replaceable(target)
    with _scratch_beside(target) as scratch:
        fresh = scratch / _NEW
        fresh.mkdir(mode=0o755)
        yield fresh
        (fresh / OWNER_FILE).write_text(canonical.dumps({"made_by": made_by}), encoding="utf-8")
        fresh.chmod(0o755)
        with _signals_held():
            _swap(fresh, target, scratch / _OLD)


def _swap(fresh: Path, target: Path, aside: Path) -> None:
    """Put ``fresh`` in the place of ``target``; if that fails, ``target`` is what it was."""
    try:
        # The old folder steps aside first: a folder with content cannot be renamed over.
        if target.exists():
            target.rename(aside)
        fresh.rename(target)
    finally:
        if fresh.exists() and aside.exists():
            _put_back(aside, target)


def _put_back(aside: Path, target: Path) -> None:
    try:
        aside.rename(target)
    except OSError as error:
        raise InputError.of(
            "the output folder could neither be replaced nor put back",
            target,
            expected="nothing in its place",
            found=error.strerror or str(error),
            remedy=f"its content is kept in {aside}; move it back yourself",
        ) from error


@contextmanager
def new_file(target: Path) -> Iterator[Path]:
    """A temporary path that replaces ``target`` when the block ends without an error.

    Raises:
        InputError: ``target`` cannot be written, or is there and is no regular file.
        HostError: there is no room for it.
    """
    check_new_file(target)
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
    with _reported(target, "write the output"):
        made = [parent for parent in (target.parent, *target.parent.parents) if not parent.exists()]
        finished = False
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            # A name of its own: target's, with more around it, could be too long.
            scratch = Path(tempfile.mkdtemp(prefix=".situ-release.", dir=target.parent))
            try:
                yield scratch
                finished = True
            finally:
                with _signals_held():
                    _remove(scratch)
        finally:
            if not finished:
                for parent in made:
                    with suppress(OSError):
                        parent.rmdir()


def _remove(scratch: Path) -> None:
    """Remove a scratch folder, unless it holds the only copy of what was to be replaced."""
    if not ((scratch / _NEW).exists() and (scratch / _OLD).exists()):
        shutil.rmtree(scratch, ignore_errors=True)


@contextmanager
def _signals_held() -> Iterator[None]:
    """Signals that end the process wait until the block is done.

    Their handlers are exchanged, because the kernel may hand a signal to any thread: a blocked mask
    of this one would not hold it. Python runs handlers in the main thread alone.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    caught: list[int] = []
    handlers = {number: signal.getsignal(number) for number in _SIGNALS}
    # None: one that Python did not install, and so could not put back.
    before = {number: found for number, found in handlers.items() if found is not None}
    try:
        for number in before:
            signal.signal(number, lambda which, frame: caught.append(which))
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for which in caught:
            signal.raise_signal(which)


@contextmanager
def _reported(target: Path, doing: str = "use the output") -> Iterator[None]:
    """What the operating system says about an output is an expected failure, with its path."""
    try:
        yield
    except OSError as error:
        raise os_fault(error, target, doing) from error
