"""What a runner must export, and who defines the symbols that it leaves undefined.

The loader binds functions at their first call: a runner with an undefined function opens without a
word and takes the process down later. So every such symbol must have a provider before release.
"""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from situ_release.bundle.recipe import RunnerPolicy
from situ_release.errors import InputError, Problem
from situ_release.sources.dynamic import read_dynamic
from situ_release.sources.elf import read_elf
from situ_release.sources.runner import FFI_PREFIX, Runner, UndefinedSymbol

_REMEDY = "build the runner again from the snapshot and stage the payload with it"


def symbol_problems(runner: Runner, policy: RunnerPolicy, where: str) -> Iterator[Problem]:
    """Every wanted symbol that is not exported, every undefined one that nobody brings.

    Args:
        runner: what the library says.
        policy: the recipe's exports and providers.
        where: the library, used in the problems.
    """
    for name in (*(f"{FFI_PREFIX}{name}" for name in policy.ffi_symbols), *policy.c_symbols):
        if name not in runner.exports:
            yield Problem(
                f"the runner does not export {name}",
                where,
                expected="every symbol that the recipe names",
                found=f"{len(runner.exports)} other exports",
                remedy=_REMEDY,
            )
    for symbol in runner.undefined:
        looked_in = None if symbol.weak else _without_provider(symbol, runner, policy)
        if looked_in is not None:
            when = (
                "the process dies at the first call of it"
                if symbol.kind == "function"
                else "the runner cannot be opened"
            )
            yield Problem(
                f"nobody defines the {symbol.kind} {symbol.name}, so {when}",
                where,
                expected="a provider",
                found=f"none in {looked_in}",
                remedy=_REMEDY,
            )


def _without_provider(symbol: UndefinedSymbol, runner: Runner, policy: RunnerPolicy) -> str | None:
    """Where a symbol was looked for in vain; None for one that somebody defines."""
    if symbol.library is not None:
        if symbol.library in runner.needed:
            return None
        return f"{symbol.library}, which the runner does not need"
    owners = [
        owner
        for pattern, owner in policy.provided_symbols.items()
        if fnmatchcase(symbol.name, pattern)
    ]
    looked_in = []
    for owner in owners:
        # CUDA's libraries need not be on this host: that the runner asks for one must do.
        if ".so" in owner:
            if owner in runner.needed:
                return None
            looked_in.append(f"{owner}, which the runner does not need")
        else:
            provider = _provider(owner)
            if provider.defines(symbol.name):
                return None
            looked_in.append(f"{owner} {provider.version}")
    return " or ".join(looked_in) or "the libraries it needs, and the recipe names no provider"


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
    from importlib.metadata import PackageNotFoundError, distribution

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
