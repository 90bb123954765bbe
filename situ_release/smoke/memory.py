"""Tier ``memory`` inside the child: guards around whatever the runner allocates.

The runner asks TVM-FFI's environment for its scratch memory. Here that is an allocator that puts a
guard on both sides of every allocation, and fills it once with NaNs and once with zeros: a write
beyond an allocation changes a guard, a read of memory that nothing wrote changes the output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch  # noqa: TID253 - is the memory

from situ_release.bundle.recipe import Contract
from situ_release.errors import Problem
from situ_release.smoke.canaries import GuardedMemory
from situ_release.smoke.cases import CallPlan, CasePlan, Tactic, from_json
from situ_release.smoke.child import Report
from situ_release.smoke.dlpack import DLTensor, EnvironmentAllocator
from situ_release.smoke.inputs import Inputs, store
from situ_release.smoke.metrics import Tolerance, compare
from situ_release.smoke.numerics import difference
from situ_release.smoke.package import blame
from situ_release.smoke.problem import make_experts, make_problem
from situ_release.smoke.reference.moe import finalize
from situ_release.smoke.session import Session, open_session

FILLS = (0xFF, 0x00)
"""Bytes that allocations begin with, one run each: NaNs, and zeros."""

_SHOWN = 5


def memory(request: Mapping[str, Any], report: Report) -> None:
    """Child task: report two ``case`` events for each call, with finalize on and off.

    Args:
        request: what :func:`situ_release.smoke.session.open_session` asks for, ``tolerance`` and
            ``contracts`` [{``contract``, ``plans``, ``rank``}].
        report: receives the events.

    Raises:
        HostError: this host cannot run it.
        FaultError: the package raised.
    """
    with open_session(request, report) as session:
        guarded = GuardedCalls(session)
        for item in request["contracts"]:
            contract = Contract.model_validate(item["contract"])
            session.step(f"{contract.name}: weights")
            experts = make_experts(contract, 0, session.device, rank=item["rank"])
            stored = store(experts)
            for plan in (from_json(plan) for plan in item["plans"]):
                layer = make_problem(contract, experts, plan.tokens, 0)
                inputs = Inputs(contract, layer, stored)
                check_guards(guarded, inputs, plan, Tolerance(**request["tolerance"]))


def check_guards(
    guarded: GuardedCalls, inputs: Inputs, plan: CasePlan, tolerance: Tolerance
) -> None:
    """Every call of a plan, with finalize on and then off."""
    for call in plan.calls:
        finalized = None
        for on in (True, False):
            subject = f"{call.subject}, finalize {'on' if on else 'off'}"
            where = f"{inputs.contract.name} at {plan.tokens} tokens, {subject}"
            guarded.session.step(where)
            runs = [guarded.run(inputs, call, fill, where, finalize=on) for fill in FILLS]
            problems = [*_problems(runs, where)]
            figures: dict[str, float] = {
                "allocations": runs[0].allocations,
                "allocated_bytes": runs[0].bytes,
                "guards_changed": sum(len(run.damage) for run in runs),
                "not_given_back": max(run.lent for run in runs),
            }
            output = runs[0].output
            if finalized is None:
                finalized = output
            else:
                # Deferred and finalized by the reference, it is what the runner finalizes itself.
                found = compare(output, finalized, tolerance)
                problems += difference(found, tolerance, where)
                figures |= found.as_dict()
            guarded.session.case(inputs.contract, plan.tokens, subject, problems, figures)


@dataclass(frozen=True, slots=True)
class GuardedRun:
    """One call on guarded memory.

    Attributes:
        output: bfloat16 ``[T, H]``, finalized.
        allocations: how many the runner asked for.
        bytes: their size.
        damage: guards that were changed, in words.
        lent: allocations that were still not given back after the result was dropped.
    """

    output: torch.Tensor
    allocations: int
    bytes: int
    damage: tuple[str, ...]
    lent: int


class GuardedCalls:
    """Calls the runner with an allocator that puts guards around everything.

    Args:
        session: calls the runner.
        stream: makes torch's current stream that of TVM-FFI's environment, where torch does not.
    """

    def __init__(
        self,
        session: Session,
        stream: Callable[[Session], AbstractContextManager[Any]] | None = None,
    ) -> None:
        self.session = session
        self._stream = stream or _torch_stream
        self._memory = GuardedMemory(session.device, FILLS[0])
        self._allocator = EnvironmentAllocator(self._place)
        self._allocator.install()

    def run(
        self, inputs: Inputs, call: CallPlan, fill: int, where: str, *, finalize: bool
    ) -> GuardedRun:
        """One call; its allocations and its output begin as bytes ``fill``.

        Raises:
            FaultError: the package raised.
        """
        self._memory = GuardedMemory(self.session.device, fill)
        tokens = inputs.problem.tokens.values
        output = self._memory.tensor("the output", tokens.shape, torch.bfloat16)
        with blame(where, self.session.tvm_ffi), self._stream(self.session):
            output = self._output(inputs, output, call.tactic, finalize=finalize)
            self.session.synchronize()
        return GuardedRun(
            output.clone(),
            len(self._memory.placed),
            sum(self._memory.placed),
            tuple(map(str, self._memory.damage())),
            self._allocator.lent,
        )

    def _output(
        self, inputs: Inputs, output: torch.Tensor, tactic: Tactic, *, finalize: bool
    ) -> torch.Tensor:
        result = self.session.moe(inputs, output, tactic, finalize=finalize, foreign=True)
        return output if finalize else _deferred(inputs, result)

    def _place(self, prototype: DLTensor) -> tuple[int, Callable[[], None]]:
        return self._memory.place(prototype)


def _deferred(inputs: Inputs, result: Sequence[Any]) -> torch.Tensor:
    """The layer's output out of the experts' rows and the row of each slot (-1: not local)."""
    routing = inputs.problem.routing
    rows = torch.from_dlpack(result[0])
    index = torch.from_dlpack(result[2]).view(routing.ids.shape).long()
    local = (index >= 0).unsqueeze(-1)
    outputs = torch.where(local, rows[index.clamp_min(0)], 0)
    return finalize(outputs, routing, inputs.problem.experts)


def _torch_stream(session: Session) -> AbstractContextManager[Any]:
    if session.device == "cpu":
        return nullcontext()
    import tvm_ffi

    stream: AbstractContextManager[Any] = tvm_ffi.use_torch_stream()
    return stream


def _problems(runs: Sequence[GuardedRun], where: str) -> Iterator[Problem]:
    damage = tuple(dict.fromkeys(text for run in runs for text in run.damage))
    if damage:
        more = f" and {len(damage) - _SHOWN} more" if len(damage) > _SHOWN else ""
        yield Problem(
            "the runner writes outside its allocations",
            where,
            expected="nothing but its own allocations to change",
            found="; ".join(damage[:_SHOWN]) + more,
            remedy="correct the sizes that the runner allocates, or the kernel that writes there",
        )
    if not runs[0].allocations:
        yield Problem(
            "the guards prove nothing",
            where,
            expected="the runner to take its memory from TVM-FFI's environment",
            found="no allocation",
            remedy="build the runner so that it allocates through TVMFFIEnvTensorAlloc",
        )
    first, *others = (run.output for run in runs)
    differing = sum(int((first.view(torch.int16) != o.view(torch.int16)).sum()) for o in others)
    if differing:
        yield Problem(
            "the output depends on memory that nothing wrote",
            where,
            expected="the same bits whether fresh memory holds NaNs or zeros",
            found=f"{differing} elements that differ",
            remedy="look for a kernel that reads scratch memory before it is written",
        )
    if not first.isfinite().all():
        yield Problem(
            "elements of the output are unwritten, NaN or infinite",
            where,
            expected="finite numbers everywhere; all memory was filled with NaN before",
            found=f"{int((~first.isfinite()).sum())} elements that are not",
            remedy="look for a kernel that leaves elements out",
        )
