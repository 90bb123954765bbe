"""Who defines the symbols that a runner leaves undefined and names no version for.

The loader binds functions at their first call: a runner with an undefined function opens without a
word and takes the process down later. So every such symbol must have a provider before release.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from situ_release.bundle.recipe import Recipe
from situ_release.errors import InputError
from situ_release.sources.dynamic import read_dynamic
from situ_release.sources.elf import read_elf
from situ_release.sources.runner import Runner, UndefinedSymbol

# CUDA's libraries need not be on this host; their names are reserved to them. The driver has no
# symbol versions, and the runtime has none where the module was linked against a stub.
_RESERVED = {
    "libcuda.so": re.compile(r"cu[A-Z]"),
    "libcudart.so": re.compile(r"(?:__)?cuda[A-Z]"),
}


def without_provider(runner: Runner, recipe: Recipe) -> Iterator[tuple[UndefinedSymbol, str]]:
    """Undefined symbols that nobody defines, each with where it was looked for."""
    reserved = [
        pattern
        for stem, pattern in _RESERVED.items()
        if any(library == stem or library.startswith(f"{stem}.") for library in runner.needed)
    ]
    for symbol in runner.undefined:
        if symbol.weak or any(pattern.match(symbol.name) for pattern in reserved):
            continue
        if symbol.library is not None:
            if symbol.library not in runner.needed:
                yield symbol, f"{symbol.library}, which the runner does not need"
            continue
        owners = [
            owner
            for pattern, owner in recipe.runner.provided_symbols.items()
            if fnmatchcase(symbol.name, pattern)
        ]
        if not owners:
            yield symbol, "the libraries it needs, and the recipe names no other provider"
        for owner in owners:
            provider = _provider(owner)
            if not provider.defines(symbol.name):
                yield symbol, f"{owner} {provider.version}"


class _Provider:
    """An installed distribution; its libraries are read one by one until a symbol is found."""

    def __init__(self, version: str, libraries: Iterator[frozenset[str]]) -> None:
        self.version = version
        self._unread = libraries
        self._exports: set[str] = set()

    def defines(self, name: str) -> bool:
        """Whether one of its libraries exports a symbol of that name."""
        while name not in self._exports:
            library = next(self._unread, None)
            if library is None:
                return False
            self._exports |= library
        return True


@cache
def _provider(name: str) -> _Provider:
    try:
        package = distribution(name)
    except PackageNotFoundError:
        return _Provider("(not installed beside situ-release)", iter(()))
    paths = [
        Path(str(package.locate_file(file)))
        for file in package.files or ()
        if file.name.startswith("lib") and file.name.endswith(".so")
    ]
    return _Provider(package.version, map(_exports, paths))


def _exports(library: Path) -> frozenset[str]:
    try:
        dynamic = read_dynamic(read_elf(library.read_bytes(), str(library)))
    except (InputError, OSError):
        return frozenset()
    return frozenset(symbol.name for symbol in dynamic.symbols if symbol.section)
