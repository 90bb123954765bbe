"""A child process with the package open and a device ready for torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch  # noqa: TID253 - holds tensors

from situ_release.bundle.recipe import Contract
from situ_release.errors import HostError, Problem
from situ_release.smoke.cases import Tactic
from situ_release.smoke.child import Report, case_event
from situ_release.smoke.cubin_reads import CubinReads
from situ_release.smoke.inputs import Inputs
from situ_release.smoke.package import blame, open_package, open_runner


class Moe(Protocol):
    """Runs the layer."""

    def __call__(
        self,
        inputs: Inputs,
        output: torch.Tensor,
        tactic: Tactic,
        *,
        finalize: bool = True,
        foreign: bool = False,
    ) -> Any:
        """Call the runner on the current stream.

        Args:
            inputs: what it reads.
            output: what it writes, with ``finalize``.
            tactic: ``(tile_n, config)``.
            finalize: weight and sum the slots.
            foreign: hide that the tensors are torch's. Then TVM-FFI uses its environment's
                allocator and stream instead of torch's.

        Returns:
            What the entry point returns.
        """


@dataclass(frozen=True, slots=True)
class Session:
    """What the torch tiers work with.

    Attributes:
        report: sends events to the parent.
        device: where tensors live, "cuda:0".
        moe: runs the layer.
        fetched: kernels whose cubins were fetched since the last call.
        tvm_ffi: the installed apache-tvm-ffi's version, for messages.
    """

    report: Report
    device: str
    moe: Moe
    fetched: Callable[[], Sequence[str]]
    tvm_ffi: str

    def step(self, text: str) -> None:
        """Say what is done next."""
        self.report("step", {"step": text})

    def call(self, inputs: Inputs, output: torch.Tensor, tactic: Tactic) -> None:
        """Run the layer and wait for it.

        Raises:
            FaultError: the package or the device raised.
        """
        tokens = len(inputs.problem.tokens.values)
        with blame(f"{inputs.contract.name} at {tokens} tokens, tactic {tactic}", self.tvm_ffi):
            self.moe(inputs, output, tactic)
            self.synchronize()

    def synchronize(self) -> None:
        """Wait for the device; an error of a kernel shows here."""
        if self.device != "cpu":
            torch.cuda.synchronize(self.device)

    def case(
        self,
        contract: Contract,
        tokens: int,
        subject: str,
        problems: Sequence[Problem],
        figures: Mapping[str, float],
        **more: Any,
    ) -> None:
        """Report a case of a contract; it failed if there are problems."""
        where = {"contract": contract.name, "tokens": tokens}
        case_event(self.report, subject, problems, figures, **where, **more)


@contextmanager
def open_session(request: Mapping[str, Any], report: Report) -> Iterator[Session]:
    """Open the package and make the device torch's current one; at the end report the memory used.

    Args:
        request: what :mod:`situ_release.smoke.package` asks for, and ``device``.
        report: receives ``step`` events.

    Raises:
        HostError: torch does not see the device, it has too little free memory, or the host lacks
            a library.
        FaultError: the package or the runner cannot be opened.
    """
    device = request["device"]
    report("step", {"step": "opening the device with torch"})
    if device != "cpu":
        if not torch.cuda.is_available():
            raise HostError.of(
                "torch does not see the GPU",
                f"torch {torch.__version__}",
                expected="a torch that is built for CUDA, and a driver that it accepts",
                found=f"CUDA {torch.version.cuda or 'not built in'}, no device",
                remedy="install the torch for this CUDA version",
            )
        torch.cuda.set_device(device)
    package = open_package(request, report)
    reads = CubinReads(Path(request["root"]))
    open_runner(package, request, report)
    reads.take()  # verifying the bundle reads every cubin

    def moe(
        inputs: Inputs,
        output: torch.Tensor,
        tactic: Tactic,
        *,
        finalize: bool = True,
        foreign: bool = False,
    ) -> Any:
        arguments = inputs.arguments(output, tactic, finalize=finalize)
        if foreign:
            arguments = [hidden(argument) for argument in arguments]
        return package.trtllm_fp4_block_scale_moe_raw(*arguments)

    try:
        yield Session(report, device, moe, reads.take, request["tvm_ffi"])
    except torch.OutOfMemoryError as error:
        raise HostError.of(
            "the GPU has too little free memory",
            device,
            expected="room for the weights of a shard, twice, and for the reference",
            found=" ".join(str(error).split())[:300],
            remedy="stop what else uses the GPU, or run on one with more memory",
        ) from error
    if device != "cpu":
        report("peak_memory", {"bytes": torch.cuda.max_memory_reserved(device)})


def hidden(argument: Any) -> Any:
    """A torch tensor as one of TVM-FFI's own; anything else as it is."""
    import tvm_ffi

    return tvm_ffi.from_dlpack(argument) if isinstance(argument, torch.Tensor) else argument
