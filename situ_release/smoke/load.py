"""Tier ``load``: the package imports, its runner opens, and answers which tactics it has.

Runs inside a child process. Nothing here launches a kernel, so any NVIDIA device will do; the
runner asks the CUDA runtime for the device it is on, and its answers depend on that device's SM.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from situ_release.errors import HostError, Problem, raise_all
from situ_release.smoke.child import FaultError, Report, raised
from situ_release.smoke.device import open_runtime

_TOO_OLD = re.compile(
    r"version `(?P<wanted>[A-Z]+_[0-9.]+)' not found \(required by (?P<by>[^)]+)\)"
)
_NO_LIBRARY = re.compile(r"(?P<name>lib[^\s:]+): cannot open shared object file")
_UNDEFINED = re.compile(r"undefined symbol: (?P<name>\S+)")


def load(request: Mapping[str, Any], report: Report) -> None:
    """Child task: open the runner and report an event ``tactics`` per contract and token count.

    Args:
        request: ``root`` (folder with the unpacked wheel), ``import_name``, ``ffi_symbols``,
            ``runtime_soname``, ``tvm_ffi`` (installed version), ``contracts`` (as in the recipe)
            and ``tokens`` (list of token counts).
        report: receives ``step`` events, and ``tactics`` events with ``contract``, ``tokens`` and
            ``tactics`` [[tile_n, config]].

    Raises:
        HostError: this host lacks a library, or has too old a one.
        FaultError: import, opening or an answer is wrong.
    """
    # apache-tvm-ffi imports torch where it is installed: seconds, for nothing in this tier.
    sys.modules["torch"] = None  # type: ignore[assignment]
    package = open_package(request, report)
    report("step", {"step": "opening the runner"})
    with _blame("load_raw_module", request["tvm_ffi"]):
        module = package.load_raw_module()
        missing = [name for name in request["ffi_symbols"] if not _has_entry(module, name)]
    raise_all(
        FaultError,
        (
            Problem(
                "the runner lacks an entry point",
                "load_raw_module",
                expected=f"a TVM-FFI function {name}",
                found="none",
                remedy="build the runner from the sources that the recipe names",
            )
            for name in missing
        ),
    )
    for contract in request["contracts"]:
        for tokens in request["tokens"]:
            report("step", {"step": f"tactics of {contract['name']} at {tokens} tokens"})
            pairs = query_tactics(package, contract, tokens, request["tvm_ffi"])
            fields = {"contract": contract["name"], "tokens": tokens, "tactics": pairs}
            report("tactics", fields)


def open_package(request: Mapping[str, Any], report: Report) -> ModuleType:
    """Open the CUDA runtime, import the unpacked wheel's package and let it verify itself."""
    report("step", {"step": "opening the CUDA runtime"})
    open_runtime(request["runtime_soname"])
    report("step", {"step": "importing the package"})
    sys.path.insert(0, request["root"])
    with _blame(f"import {request['import_name']}", request["tvm_ffi"]):
        package = importlib.import_module(request["import_name"])
    report("step", {"step": "verifying the bundle"})
    with _blame("verify_bundle", request["tvm_ffi"]):
        package.verify_bundle()
    return package


def query_tactics(
    package: ModuleType, contract: Mapping[str, Any], tokens: int, tvm_ffi: str
) -> list[list[int]]:
    """The ``[tile_n, config]`` pairs that the runner offers for a contract, in its order.

    Weights are shuffled and K-major (layout 0), without per-token scaling, as the K3 path stores
    them.

    Raises:
        FaultError: the runner raised, answered something else than pairs, or has no tactic at all.
    """
    where = f"get_valid_moe_configs for {contract['name']} at {tokens} tokens"
    with _blame(where, tvm_ffi):
        dtypes, quantization = package.DtypeTrtllmGen, package.Fp8QuantizationType
        scaled = contract["hidden_states_scale"] == "required_mxfp8_block_scale"
        answer = package.get_valid_moe_configs(
            dtype_act=int(dtypes[contract["dtype_activation"].upper()]),
            dtype_weights=int(dtypes[contract["dtype_weight"].upper()]),
            fp8_quantization_type=int(quantization.MXFP8 if scaled else quantization.NONE),
            top_k=contract["top_k"],
            hidden_size=contract["hidden_size"],
            intermediate_size=contract["physical_intermediate_size"],
            num_local_experts=contract["local_num_experts"],
            num_total_experts=contract["num_experts"],
            activation_type=contract["activation_type"],
            use_shuffled_weight=True,
            weight_layout=0,
            use_per_token_scaling=False,
            num_tokens=tokens,
        )
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


def _has_entry(module: object, name: str) -> bool:
    """Whether a TVM-FFI module implements a function."""
    try:
        module.get_function(name)  # type: ignore[attr-defined]
    except AttributeError:
        return False
    return True


@contextmanager
def _blame(where: str, tvm_ffi: str) -> Iterator[None]:
    """Turn whatever the code under test raises into a fault, or into what the host lacks."""
    try:
        yield
    except Exception as error:
        raise _translated(error, where, tvm_ffi) from error


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
