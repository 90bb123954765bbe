"""The compiled runner module: whether it is the one that belongs to a recipe and a pool."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from situ_release.bundle.recipe import Recipe, RunnerPolicy
from situ_release.bundle.symbols import symbol_problems
from situ_release.errors import InputError, Problem, raise_all
from situ_release.reading import read_regular
from situ_release.sources.runner import Runner, read_runner

MAX_MODULE_BYTES = 1 << 30
"""Larger modules are refused; the largest real one has 9 MB."""


def read_module(path: Path) -> tuple[bytes, Runner]:
    """The module's bytes and what they say.

    Raises:
        InputError: unreadable, too large, not an x86-64 shared object, or damaged.
    """
    data = read_regular(path, "module", MAX_MODULE_BYTES)
    runner = read_runner(data, str(path))
    if not runner.is_x86_64_shared_object:
        raise InputError.of(
            "the module is not a library for this platform",
            path,
            expected="an x86-64 shared object",
            found=f"{runner.machine_name}, ELF type {runner.elf_type}",
            remedy="give the compiled runner, a .so file built for x86-64",
        )
    return data, runner


def check_module(
    runner: Runner, path: Path, recipe: Recipe, metadata_sha256: str, claimed_name: str | None
) -> None:
    """Whether the module can be this recipe's runner.

    Args:
        runner: what the module says.
        path: where it lies; the stem is the module's name.
        recipe: symbols and name rule.
        metadata_sha256: the header that the runner was compiled with, as far as is known.
        claimed_name: the module name that a recovered wheel claims, None for originals.

    Raises:
        InputError: missing symbols, or a name that belongs to another header; all at once.
    """
    problems = list(symbol_problems(runner, recipe.runner, str(path)))
    problems.extend(_name_problems(path, recipe.runner, metadata_sha256, claimed_name))
    raise_all(InputError, problems)


def _name_problems(
    path: Path, policy: RunnerPolicy, metadata_sha256: str, claimed_name: str | None
) -> Iterator[Problem]:
    digits = policy.module_name_hash_digits
    suffix = path.stem.rpartition("_")[2]
    if digits and suffix != metadata_sha256[:digits]:
        yield Problem(
            "the module's name belongs to another metadata header",
            str(path),
            expected=f"a name that ends in _{metadata_sha256[:digits]}.so, the header's SHA-256",
            found=path.name,
            remedy="give the module that was compiled from this pool's header",
        )
    elif claimed_name is not None and path.stem != claimed_name:
        yield Problem(
            "the module has another name than the recovered wheel claims",
            str(path),
            expected=f"{claimed_name}.so",
            found=path.name,
            remedy="give the module that `recover` wrote beside this pool",
        )
