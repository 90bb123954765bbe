"""The inside of a rehearsal: make the runner answer and launch, and report what it did.

Runs inside a child process (:mod:`situ_release.smoke.child`). Judging is the parent's part
(:mod:`situ_release.smoke.rehearsal.judge`).
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from situ_release.smoke.child import Report, raised
from situ_release.smoke.package import open_package, open_runner, query_tactics
from situ_release.smoke.rehearsal.arguments import GEMM_WEIGHTS, OUTPUT, ProblemTensors
from situ_release.smoke.rehearsal.dlpack import EnvironmentAllocator
from situ_release.smoke.rehearsal.fake_cuda import FakeCuda, Launch
from situ_release.smoke.rehearsal.memory import DeviceMemory
from situ_release.smoke.rehearsal.parameters import EmbeddedCode
from situ_release.smoke.rehearsal.stubs import Stubs


def rehearse(request: Mapping[str, Any], report: Report) -> None:
    """Child task: report an event ``tactics`` per problem and an event ``call`` per call.

    Args:
        request: what :mod:`situ_release.smoke.package` asks for, and ``runner`` (path), ``driver``
            and ``runtime`` (paths of the stubs), ``sm`` and ``multiprocessors`` (what the device
            claims to be) and ``problems`` [{``contract``, ``tokens``, ``tactics``}].
        report: receives ``step`` events; ``callback`` with ``logs``, whether the package logs the
            requests that its callback answers; ``tactics`` with ``contract``, ``tokens`` and
            ``tactics``; and ``call`` with ``contract``, ``tokens``, ``tactic``, ``finalize`` and
            what :func:`_done` gives.

    Raises:
        HostError: this host lacks a library, or the runner does what cannot be imitated.
        FaultError: the runner cannot be opened, or has no tactics.
    """
    # As in the load tier: apache-tvm-ffi would import torch.
    sys.modules["torch"] = None  # type: ignore[assignment]
    runner = Path(request["runner"])
    memory = DeviceMemory()
    embedded = EmbeddedCode(runner.read_bytes(), runner.name, request["sm"])
    cuda = FakeCuda(memory, embedded, request["sm"], request["multiprocessors"])
    cuda.install(Stubs(Path(request["driver"]), Path(request["runtime"])))
    package = open_package(request, report)
    requests = _listen(f"{request['import_name']}._runtime.callback")
    report("callback", {"logs": requests is not None})
    module = open_runner(package, request, report)
    allocator = EnvironmentAllocator(memory)
    allocator.install()
    session = _Session(package, cuda, allocator, requests)
    for problem in request["problems"]:
        contract, tokens = problem["contract"], problem["tokens"]
        named = {"contract": contract["name"], "tokens": tokens}
        report("step", {"step": f"tactics of {contract['name']} at {tokens} tokens"})
        pairs = query_tactics(module, request, contract, tokens)
        report("tactics", {**named, "tactics": pairs})
        tensors = ProblemTensors(memory, contract, tokens)
        for tile, config in problem["tactics"]:
            for finalize in (True, False):
                where = call_name(contract["name"], tokens, (tile, config), finalize=finalize)
                report("step", {"step": where})
                done = session.call(tensors, (tile, config), finalize, where)
                report("call", {**named, "tactic": [tile, config], "finalize": finalize, **done})
        tensors.free()


def call_name(contract: str, tokens: int, tactic: tuple[int, int], *, finalize: bool) -> str:
    """A call in words, for steps and problems."""
    chosen = "default tactic" if tactic[0] < 0 else f"tactic {tactic}"
    return f"{contract} at {tokens} tokens, {chosen}, finalize {'on' if finalize else 'off'}"


class _Requests(logging.Handler):
    """File names of the cubins that the package's callback served: its log's first argument."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if isinstance(record.args, tuple) and record.args:
            self.names.append(str(record.args[0]))


def _listen(callback: str) -> _Requests | None:
    """Take down what the package's callback logs; ``None`` for a package with another loader."""
    if callback not in sys.modules:
        return None
    requests = _Requests()
    logger = logging.getLogger(callback)
    logger.addHandler(requests)
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    return requests


@dataclass(frozen=True, slots=True)
class _Session:
    package: ModuleType
    cuda: FakeCuda
    allocator: EnvironmentAllocator
    requests: _Requests | None

    def call(
        self, tensors: ProblemTensors, tactic: tuple[int, int], finalize: bool, where: str
    ) -> dict[str, Any]:
        """One whole call of the runner."""
        self.cuda.restart()
        self.allocator.count = 0
        error = None
        try:
            self.package.trtllm_fp4_block_scale_moe_raw(
                *tensors.arguments(tactic, finalize=finalize)
            )
        except Exception as failure:  # noqa: BLE001 - whatever the code under test raises
            error = raised(failure, where).as_dict()
        if self.cuda.failure is not None:
            raise self.cuda.failure
        done = _done(self.cuda, tensors)
        requests = [] if self.requests is None else list(self.requests.names)
        if self.requests is not None:
            self.requests.names.clear()
        return {**done, "allocations": self.allocator.count, "requests": requests, "error": error}


def _done(cuda: FakeCuda, tensors: ProblemTensors) -> dict[str, Any]:
    """What a call did, as JSON.

    Returns:
        ``launches``, ``pointers`` (numbers); ``kernels`` [{``kernel``, ``sha256``, ``weights``}],
        those of cubins, in order, with the names of the weights that each was given; ``unused``,
        inputs that no launch was given; ``writes_output``, whether one was given the output; and
        ``outside``, device addresses that are not inside a live allocation, in words.
    """
    reached = frozenset[str]().union(*(launch.owners for launch in cuda.launches))
    return {
        "launches": len(cuda.launches),
        "pointers": sum(launch.pointers for launch in cuda.launches),
        "kernels": [
            {
                "kernel": launch.kernel,
                "sha256": launch.cubin_sha256,
                "weights": [name for name in GEMM_WEIGHTS if name in launch.owners],
            }
            for launch in cuda.launches
            if launch.cubin_sha256 is not None
        ],
        "unused": [name for name in tensors.inputs if name not in reached],
        "writes_output": OUTPUT in reached,
        "outside": [*cuda.outside, *_outside(cuda.launches)],
    }


def _outside(launches: list[Launch]) -> list[str]:
    return [f"{launch.kernel}, {text}" for launch in launches for text in launch.outside]
