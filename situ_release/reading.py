"""Reading a single file that the user names: a regular one of a sane size, or a clear refusal."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from situ_release.errors import InputError, Problem

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def read_regular(path: Path, what: str, limit: int) -> bytes:
    """The bytes of a regular file; links are followed.

    Args:
        path: the file.
        what: what it should be ("recipe"), used in errors.
        limit: the most bytes it may have; a larger one is refused before it is read.

    Raises:
        InputError: missing, unreadable, too large, or no regular file (a FIFO never blocks).
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        raise _refused(path, what, limit, _reason(error)) from error
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            kind = _KINDS.get(stat.S_IFMT(found.st_mode), "something else")
            raise _refused(path, what, limit, kind)
        if found.st_size > limit:
            raise _refused(path, what, limit, f"a file of {found.st_size:,} bytes")
        with open(handle, "rb", closefd=False) as stream:
            data = stream.read(limit + 1)
    except OSError as error:
        raise _refused(path, what, limit, _reason(error)) from error
    finally:
        os.close(handle)
    if len(data) > limit:
        raise _refused(path, what, limit, f"more than {limit:,} bytes")
    return data


def _refused(path: Path, what: str, limit: int, found: str) -> InputError:
    return InputError(
        Problem(
            f"cannot read the {what}",
            str(path),
            expected=f"a readable regular file of at most {limit:,} bytes",
            found=found,
            remedy="check the path",
        )
    )


def _reason(error: OSError | ValueError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
