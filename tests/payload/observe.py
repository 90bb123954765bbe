"""Observes a ``tokenspeed_situ`` package from outside, for comparing two; prints one JSON object.

``python -m tests.payload.observe FOLDER`` imports the package from FOLDER. Nothing native is
opened: a fake takes its place.
"""

from __future__ import annotations

import importlib
import inspect
import json
import sys
from collections.abc import Callable
from enum import IntEnum
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.payload import bad_calls
from tests.payload.fakes import FakeRunner, Tensor, k3_arguments, replace_native

GOOD_CALLS: dict[str, dict[str, Any]] = {
    "tp8": k3_arguments(),
    "tp8 mxfp8": k3_arguments(hidden_states_scale=Tensor(4, 112), enable_pdl=True),
    "ep8": k3_arguments(
        7,
        local_num_experts=112,
        local_expert_offset=784,
        intermediate_size=3072,
        tactic=[16, 3],
    ),
    "no tokens": k3_arguments(0),
    "folded weights": k3_arguments(**{name: Tensor(896) for name in bad_calls.WEIGHTS}),
}
GOOD_QUERIES: dict[str, dict[str, Any]] = {
    "tp8": {"num_tokens": 1},
    "tp8 mxfp8": {"num_tokens": 128, "mxfp8_act": True},
    "ep8": {"num_tokens": 4096, "intermediate_size": 3072, "local_num_experts": 112},
}


def outcome(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The value, or the name of the exception's type."""
    try:
        return function(*args, **kwargs)
    except Exception as error:
        return f"raises {type(error).__name__}"


def observe(folder: Path) -> dict[str, Any]:
    sys.path.insert(0, str(folder))
    package = importlib.import_module("tokenspeed_situ")
    importlib.import_module("tokenspeed_situ.loader")
    runner = FakeRunner()
    with pytest.MonkeyPatch.context() as monkeypatch:
        replace_native(runner, monkeypatch)
        return {
            "names": sorted(package.__all__),
            "version": package.__version__,
            "signatures": _signatures(package),
            "enums": _enums(package),
            "constants": {
                name: getattr(package, name) for name in package.__all__ if name.isupper()
            },
            "info": outcome(package.bundle_info),
            "verify": outcome(package.verify_bundle),
            "bad calls": {
                name: outcome(call) for name, (call, _) in bad_calls.calls(package).items()
            },
            "opened by bad calls": len(runner.opened),
            "unchecked calls": {
                str(value): outcome(package.get_valid_moe_configs, value, *range(12))
                for value in ("a", None, "7", 7.9, True)
            },
            "opened": isinstance(outcome(package.load_raw_module), FakeRunner),
            "good calls": _good_calls(package, runner),
            "requests": _requests(package, runner, folder) if runner.opened else None,
        }


def _signatures(package: ModuleType) -> dict[str, Any]:
    functions = {name: getattr(package, name) for name in package.__all__}
    functions["clear_callback_error"] = package.loader.clear_callback_error
    return {
        name: [
            (parameter.name, parameter.kind.name, repr(parameter.default))
            for parameter in inspect.signature(function).parameters.values()
        ]
        for name, function in functions.items()
        if inspect.isfunction(function)
    }


def _enums(package: ModuleType) -> dict[str, dict[str, int]]:
    values = {name: getattr(package, name) for name in package.__all__}
    return {
        name: {member.name: int(member) for member in value}
        for name, value in values.items()
        if isinstance(value, type) and issubclass(value, IntEnum)
    }


def _good_calls(package: ModuleType, runner: FakeRunner) -> dict[str, Any]:
    calls: dict[str, Any] = {}
    for name, keywords in GOOD_CALLS.items():
        runner.calls.clear()
        same = outcome(package.mxfp4_situ_routed_moe, **keywords) is keywords["output"]
        calls[f"moe {name}"] = [same, *map(_plain, runner.calls)]
    for name, keywords in GOOD_QUERIES.items():
        runner.calls.clear()
        answer = outcome(package.get_valid_k3_situ_configs, **keywords)
        calls[f"configs {name}"] = [answer, *map(_plain, runner.calls)]
    return calls


def _plain(call: tuple[str, tuple[Any, ...]]) -> list[Any]:
    name, arguments = call
    plain = [
        int(argument) if isinstance(argument, int) and not isinstance(argument, bool) else argument
        for argument in arguments
    ]
    return [name, *map(repr, plain)]


def _requests(package: ModuleType, runner: FakeRunner, folder: Path) -> dict[str, Any]:
    """What cubin requests are answered, made inside a call."""
    manifest = json.loads((folder / "tokenspeed_situ" / "manifest.json").read_text())
    first = manifest["cubins"][0]
    name, digest = first["filename"], first["sha256"]
    requests = {
        "right": (f"/somewhere/{name}", digest),
        "absent": ("/somewhere/Bmm_absent.cubin", digest),
        "right again": (name, digest),
        "other digest": (name, "0" * 64),
        "no digest": (name, ""),
        "lower case": (name.lower(), digest),
    }
    answers: dict[str, Any] = {}
    for label, request in requests.items():
        runner.behaviour = lambda *args, request=request: len(runner.ask(*request))
        answers[label] = outcome(package.trtllm_fp4_block_scale_moe_raw)
    answers["left over"] = outcome(package.raise_last_callback_error)
    return answers


if __name__ == "__main__":
    sys.stdout.write(json.dumps(observe(Path(sys.argv[1]).resolve())))
