"""Absolute build paths that a compiler left in a binary, and their form for other people's eyes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

# That no path or word character precedes it is looked at afterwards: a pattern that begins with a
# plain byte is found twenty times faster.
_PATH = re.compile(rb"/(?:[\w.~+@%=,-]{1,255}/){1,64}[\w.~+@%=,-]{1,255}")
_CONTINUED = frozenset(
    b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.~+@%=,-/\\"
)

# Paths of every Linux system tell nothing about who built the file.
_SYSTEM = (
    *("/usr/", "/lib/", "/lib64/", "/bin/", "/etc/", "/proc/", "/sys/", "/dev/"),
    *("/run/", "/var/run/", "/var/log/"),
)

# Stray bytes look like "/x/y" now and then, so a path with one directory counts only in these.
_SHORT = ("/home/", "/root/", "/Users/")
_FEWEST_SLASHES = 3

_HOMES = re.compile(r"^/(?:home|Users|export/home|data/home|nfs/home|mnt/home)/([^/]+)")
_MASK = "<user>"


def find_paths(blocks: Iterable[bytes]) -> tuple[str, ...]:
    """The absolute paths in ``blocks``, sorted, each once.

    A path has two directories at least, or lies in a home directory; system directories such as
    ``/usr`` are left out. What remains are folders of the machine that built the file.
    """
    found = {path for block in blocks for path in _paths_in(block)}
    return tuple(
        sorted(
            path
            for path in found
            if not path.startswith(_SYSTEM)
            and (path.count("/") >= _FEWEST_SLASHES or path.startswith(_SHORT))
        )
    )


def mask_paths(paths: Iterable[str]) -> tuple[str, ...]:
    """The paths with every user name in them replaced by ``<user>``.

    User names are taken from home directories (``/home/<name>/…``, ``/Users/<name>/…``) and are
    masked wherever they occur as a whole word, in any of the paths.
    """
    listed = tuple(paths)
    users = {match.group(1) for path in listed if (match := _HOMES.match(path))}
    if not users:
        return listed
    # Longest first, so that one name being the beginning of another leaves no remainder.
    names = "|".join(re.escape(user) for user in sorted(users, key=lambda name: (-len(name), name)))
    word = re.compile(rf"(?<![A-Za-z0-9])(?:{names})(?![A-Za-z0-9])")
    return tuple(word.sub(_MASK, path) for path in listed)


def _paths_in(block: bytes) -> Iterator[str]:
    for match in _PATH.finditer(block):
        start = match.start()
        if start == 0 or block[start - 1] not in _CONTINUED:
            yield match.group().decode("ascii")
