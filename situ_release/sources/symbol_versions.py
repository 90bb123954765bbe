"""Symbol versions: which a library needs at least, and which symbol makes it so."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

_NUMBERED = re.compile(r"([A-Z]+)_(\d+(?:\.\d+)*)")

TRACKED = ("GLIBC", "GLIBCXX", "CXXABI")
"""The version names that decide on which hosts a library can be opened."""


@dataclass(frozen=True, slots=True)
class VersionDemand:
    """A needed symbol version and who needs it.

    Attributes:
        version: "GLIBC_2.38".
        library: the needed library that must define it ("libc.so.6").
        symbols: the undefined symbols that carry it, sorted; empty where only the version table
            does, which the loader checks all the same.
    """

    version: str
    library: str
    symbols: tuple[str, ...]


def version_key(number: str) -> tuple[int, ...]:
    """An order for dotted numbers: "2.4" before "2.38"."""
    return tuple(int(part) for part in number.split("."))


def minimum_versions(versions: Iterable[str]) -> Mapping[str, str]:
    """The highest number of GLIBC, GLIBCXX and CXXABI among ``versions`` ("2.38"), by name.

    Versions without a number (``GLIBC_PRIVATE``, ``GLIBC_ABI_DT_RELR``) and other names are left
    out.
    """
    highest: dict[str, str] = {}
    for version in versions:
        match = _NUMBERED.fullmatch(version)
        if match and match.group(1) in TRACKED:
            name, number = match.groups()
            highest[name] = max(highest.get(name, "0"), number, key=version_key)
    return {name: highest[name] for name in TRACKED if name in highest}
