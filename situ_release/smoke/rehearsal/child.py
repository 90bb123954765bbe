"""The inside of a rehearsal: make the runner answer and launch, and report what it did.

Runs inside a child process (:mod:`situ_release.smoke.child`). Judging is the parent's part
(:mod:`situ_release.smoke.rehearsal.judge`).
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from situ_release.errors import SituReleaseError
from situ_release.smoke.child import Report, raised
from situ_release.smoke.load import open_package, query_tactics
from situ_release.smoke.rehearsal.arguments import MoeArguments
from situ_release.smoke.rehearsal.dlpack import EnvironmentAllocator
from situ_release.smoke.rehearsal.fake_cuda import FakeCuda
from situ_release.smoke.rehearsal.memory import DeviceMemory
from situ_release.smoke.rehearsal.parameters import EmbeddedCode
from situ_release.smoke.rehearsal.stubs import Stubs


class _Requests(logging.Handler):
    """File names of the cubins that the package's own callback served."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if isinstance(record.args, tuple) and record.args:
            self.names.append(str(record.args[0]))


def rehearse(request: Mapping[str, Any], report: Report) -> None:
    """Child task: report an event ``tactics`` per problem and an event ``call`` per call.

    Args:
        request: as for :func:`situ_release.smoke.load.load`, with ``problems`` [{``contract``,
            ``tokens``, ``calls`` [[tile_n, config]]}] for ``contracts`` and ``tokens``; and
            ``runner`` (path), ``driver`` and ``runtime`` (paths of the stubs), ``sm`` and
            ``multiprocessors`` (what the device claims to be).
        report: receives ``step``, ``tactics`` and ``call`` events; a call has ``contract``,
            ``tokens``, ``tactic``, ``finalize``, ``allocations``, ``launches`` [{``kernel``,
            ``cubin_sha256``, ``pointers``}], ``requests`` (file names), ``outside`` (words),
            ``unused`` (inputs that no launch received), ``output_used`` and ``error`` (the
            exception's problem, or null).

    Raises:
        HostError: this host lacks a library.
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
    allocator = EnvironmentAllocator(memory)
    allocator.install()
    requests = _listen(request["import_name"])
    session = _Session(package, memory, cuda, allocator, requests)
    for problem in request["problems"]:
        contract, tokens = problem["contract"], problem["tokens"]
        where = f"{contract['name']} at {tokens} tokens"
        report("step", {"step": f"tactics of {where}"})
        pairs = query_tactics(package, contract, tokens, request["tvm_ffi"])
        named = {"contract": contract["name"], "tokens": tokens}
        report("tactics", {**named, "tactics": pairs})
        arguments = MoeArguments(memory, contract, tokens)
        for tile, config in problem["calls"]:
            for finalize in (True, False):
                step = f"tactic ({tile}, {config}) of {where}, finalize {'on' if finalize else 'off'}"
                report("step", {"step": step})
                done = session.call(arguments, (tile, config), finalize, step)
                report("call", {**named, "tactic": [tile, config], "finalize": finalize, **done})
        arguments.free()


class _Session:
    def __init__(
        self,
        package: ModuleType,
        memory: DeviceMemory,
        cuda: FakeCuda,
        allocator: EnvironmentAllocator,
        requests: _Requests,
    ) -> None:
        self._package = package
        self._memory = memory
        self._cuda = cuda
        self._allocator = allocator
        self._requests = requests

    def call(
        self, arguments: MoeArguments, tactic: tuple[int, int], finalize: bool, where: str
    ) -> dict[str, Any]:
        """One whole call of the runner; what it did, as JSON."""
        self._cuda.restart()
        self._allocator.restart()
        self._requests.names.clear()
        error = None
        try:
            self._package.trtllm_fp4_block_scale_moe_raw(
                *arguments.in_order(tactic, finalize=finalize)
            )
        except Exception as failure:  # noqa: BLE001 - whatever the code under test raises
            error = raised(failure, where).as_dict()
        if self._cuda.failure is not None:
            raise self._cuda.failure
        launches = self._cuda.launches
        reached = frozenset().union(*(launch.owners for launch in launches))
        return {
            "allocations": self._allocator.count,
            "launches": [
                {
                    "kernel": launch.kernel,
                    "cubin_sha256": launch.cubin_sha256,
                    "pointers": launch.pointers,
                    "owners": sorted(launch.owners),
                }
                for launch in launches
            ],
            "requests": list(self._requests.names),
            "outside": [
                *self._cuda.outside,
                *(f"{launch.kernel}: {text}" for launch in launches for text in launch.outside),
            ],
            "unused": [name for name in arguments.inputs if name not in reached],
            "output_used": "output" in reached,
            "error": error,
        }


def _listen(import_name: str) -> _Requests:
    requests = _Requests()
    logger = logging.getLogger(f"{import_name}._runtime.callback")
    logger.addHandler(requests)
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    return requests
