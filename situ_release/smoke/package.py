"""The wheel's own package inside a child process: opened, asked, and blamed for what it raises."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from situ_release.errors import HostError, Problem
from situ_release.smoke.child import FaultError, Report, raised
from situ_release.smoke.device import open_runtime
from situ_release.smoke.ffi import config_arguments

_TOO_OLD = re.compile(
    r"version `(?P<wanted>[A-Z]+_[0-9.]+)' not found \(required by (?P<by>[^)]+)\)"
)
_NO_LIBRARY = re.compile(r"(?P<name>lib[^\s:]+): cannot open shared object file")
_UNDEFINED = re.compile(r"undefined symbol: (?P<name>\S+)")


def open_package(request: Mapping[str, Any], report: Report) -> ModuleType:
    """Open the CUDA runtime, import the unpacked wheel's package and let it verify itself.

    Args:
        request: ``root`` (folder with the unpacked wheel), ``import_name``, ``runtime_soname`` and
            ``tvm_ffi`` (installed version).
        report: receives ``step`` events.

    Raises:
        HostError: this host lacks a library, or has too old a one.
        FaultError: the package cannot be imported, or finds itself damaged.
    """
    report("step", {"step": "opening the CUDA runtime"})
    open_runtime(request["runtime_soname"])
    report("step", {"step": "importing the package"})
    sys.path.insert(0, request["root"])
    with blame(f"import {request['import_name']}", request["tvm_ffi"]):
        package = importlib.import_module(request["import_name"])
    report("step", {"step": "verifying the bundle"})
    with blame("verify_bundle", request["tvm_ffi"]):
        package.verify_bundle()
    return package


def open_runner(package: ModuleType, request: Mapping[str, Any], report: Report) -> Any:
    """Open the runner as a TVM-FFI module.

    Args:
        package: from :func:`open_package`.
        request: ``ffi_symbols`` and ``tvm_ffi``.
        report: receives a ``step`` event.

    Raises:
        HostError: this host lacks a library, or has too old a one.
        FaultError: it cannot be opened, or lacks entry points; each is named.
    """
    report("step", {"step": "opening the runner"})
    with blame("load_raw_module", request["tvm_ffi"]):
        module = package.load_raw_module()
        missing = [name for name in request["ffi_symbols"] if not _has_entry(module, name)]
    problems = [
        Problem(
            "the runner lacks an entry point",
            "load_raw_module",
            expected=f"a TVM-FFI function {name}",
            found="none",
            remedy="build the runner from the sources that the recipe names",
        )
        for name in missing
    ]
    if problems:
        raise FaultError(*problems)
    return module


def query_tactics(
    module: Any, request: Mapping[str, Any], contract: Mapping[str, Any], tokens: int
) -> list[list[int]]:
    """The ``[tile_n, config]`` pairs that the runner offers for a contract, in its order.

    Args:
        module: the runner as a TVM-FFI module.
        request: ``ffi_symbols``, ``experts`` and ``tvm_ffi``.
        contract: as in the recipe.
        tokens: number of tokens.

    Raises:
        FaultError: the runner raised, answered something else than pairs, or has no tactic at all.
    """
    where = f"get_valid_moe_configs for {contract['name']} at {tokens} tokens"
    entry = next(name for name in request["ffi_symbols"] if "valid_moe_configs" in name)
    with blame(where, request["tvm_ffi"]):
        arguments = config_arguments(contract, tokens, request["experts"])
        answer = module.get_function(entry)(*arguments)
        pairs = [[int(tile), int(config)] for tile, config in answer]
    if not pairs:
        raise FaultError.of(
            "the runner has no tactic for a supported contract",
            where,
            expected="at least one (tile_n, config) pair",
            found="none",
            remedy="compile the runner with the kernels of the contract",
        )
    return pairs


@contextmanager
def blame(where: str, tvm_ffi: str) -> Iterator[None]:
    """Turn whatever the code under test raises into a fault, or into what the host lacks."""
    try:
        yield
    except Exception as error:
        raise _translated(error, where, tvm_ffi) from error


def _has_entry(module: Any, name: str) -> bool:
    """Whether a TVM-FFI module implements a function."""
    try:
        module.get_function(name)
    except AttributeError:
        return False
    return True


def _translated(error: BaseException, where: str, tvm_ffi: str) -> HostError | FaultError:
    text = "\n".join(str(link) for link in _chain(error))
    if found := _TOO_OLD.search(text):
        return HostError(
            Problem(
                "a library of this host is too old for the runner",
                where,
                expected=found["wanted"],
                found=f"{found['by']} asks for it and the host does not have it",
                remedy="run gpu-smoke on a newer distribution",
            )
        )
    if found := _NO_LIBRARY.search(text):
        return HostError(
            Problem(
                "a library that the runner needs is missing",
                where,
                expected=found["name"],
                found="no such file on the loader's path",
                remedy="install the package that provides it",
            )
        )
    if found := _UNDEFINED.search(text):
        return FaultError(
            Problem(
                "the runner refers to a symbol that nothing defines",
                where,
                expected="every symbol defined by the runner, its libraries or apache-tvm-ffi",
                found=f"undefined symbol {found['name']} (apache-tvm-ffi {tvm_ffi} is installed)",
                remedy="install the apache-tvm-ffi that the runner was built for, "
                "or build the runner again",
            )
        )
    return FaultError(raised(error, where))


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
