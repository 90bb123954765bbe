"""What the operating system refuses, in the words and with the exit code of an expected failure."""

from __future__ import annotations

import errno

from situ_release.errors import HostError, InputError, SituReleaseError

_EXHAUSTED = {
    errno.ENOSPC: "free space there, or name another place",
    errno.EDQUOT: "free space of your quota there, or name another place",
    errno.EFBIG: "raise the limit on file sizes (ulimit -f)",
    errno.EMFILE: "raise the limit on open files (ulimit -n)",
    errno.ENFILE: "close files elsewhere on this host",
    errno.ENOMEM: "free memory",
    errno.EAGAIN: "raise the limit on processes (ulimit -u)",
}
"""What a host can run out of, and what to do; every other errno is about a path."""


def ran_out(error: OSError) -> bool:
    """Whether this host ran out of something, whatever path it happened at."""
    return error.errno in _EXHAUSTED


def os_fault(error: OSError, where: object, doing: str = "use the path") -> SituReleaseError:
    """The expected failure that an OSError stands for.

    Args:
        error: what was raised.
        where: the path to name.
        doing: what could not be done there, as in "cannot {doing}".

    Returns:
        A HostError where this host ran out of something, else an InputError.
    """
    reason = error.strerror or str(error)
    if remedy := _EXHAUSTED.get(error.errno or 0):
        return HostError.of(f"cannot {doing}", where, "room enough", reason, remedy)
    return InputError.of(
        f"cannot {doing}",
        where,
        expected="a path that exists and that this user may use",
        found=reason,
        remedy="correct the path or its permissions",
    )
