"""Tier ``determinism`` inside the child: the same inputs give the same bits, however they run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch  # noqa: TID253 - compares tensors

from situ_release.bundle.recipe import Contract
from situ_release.digests import sha256_bytes
from situ_release.errors import Problem
from situ_release.smoke.cases import DEFAULT_TACTIC, CallPlan, CasePlan, Tactic, from_json
from situ_release.smoke.child import Report
from situ_release.smoke.inputs import Inputs, store
from situ_release.smoke.package import blame
from situ_release.smoke.problem import make_experts, make_problem
from situ_release.smoke.session import Session, open_session

REPEATS = 3

Way = Callable[[Session, Inputs, torch.Tensor, Tactic], None]
"""Runs the layer in some way and waits until the output is there."""


def determinism(request: Mapping[str, Any], report: Report) -> None:
    """Child task: report a ``case`` with the digest of its output for each call.

    Args:
        request: what :func:`situ_release.smoke.session.open_session` asks for, and ``contracts``
            [{``contract``, ``plans``, ``rank``}].
        report: receives the events.

    Raises:
        HostError: this host cannot run it.
        FaultError: the package raised.
    """
    with open_session(request, report) as session:
        ways = WAYS if session.device != "cpu" else {}
        for item in request["contracts"]:
            contract = Contract.model_validate(item["contract"])
            plans = [from_json(plan) for plan in item["plans"]]
            Repetition(session, contract, plans, item["rank"], ways).run()


@dataclass(frozen=True, slots=True)
class Repetition:
    """Runs one contract's calls again and again.

    Attributes:
        session: calls the runner.
        contract: the problem.
        plans: token counts and calls.
        rank: expert-parallel rank.
        ways: how else the default tactic is run, by name.
    """

    session: Session
    contract: Contract
    plans: Sequence[CasePlan]
    rank: int
    ways: Mapping[str, Way]

    def run(self) -> None:
        """Compare every call with itself, bit by bit."""
        session = self.session
        session.step(f"{self.contract.name}: weights")
        experts = make_experts(self.contract, 0, session.device, rank=self.rank)
        stored = store(experts)
        for plan in self.plans:
            layer = make_problem(self.contract, experts, plan.tokens, 0)
            inputs = Inputs(self.contract, layer, stored)
            for call in plan.calls:
                self._repeat(inputs, call)

    def _repeat(self, inputs: Inputs, call: CallPlan) -> None:
        tokens = len(inputs.problem.tokens.values)
        where = f"{self.contract.name} at {tokens} tokens, {call.subject}"
        first = inputs.new_output()
        self.session.step(where)
        self.session.call(inputs, first, call.tactic)
        repeats = [self._run(_plain, inputs, call.tactic, where) for _ in range(REPEATS)]
        differing = sum(_differing(first, output) for output in repeats)
        problems = list(_differs(differing, where, f"in {REPEATS} repetitions"))
        figures = {"repeats": REPEATS, "differing_elements": differing}
        digest = _digest(first)
        self.session.case(
            self.contract, tokens, call.subject, problems, figures, output_sha256=digest
        )
        if call.tactic != DEFAULT_TACTIC or not tokens:
            return
        for name, way in self.ways.items():
            self.session.step(f"{where}, {name}")
            output = self._run(way, inputs, call.tactic, f"{where}, {name}")
            differing = _differing(first, output)
            problems = list(_differs(differing, where, f"with {name}"))
            self.session.case(
                self.contract,
                tokens,
                f"{call.subject}, {name}",
                problems,
                {"differing_elements": differing},
                output_sha256=_digest(output),
            )

    def _run(self, way: Way, inputs: Inputs, tactic: Tactic, where: str) -> torch.Tensor:
        output = inputs.new_output()
        with blame(where, self.session.tvm_ffi):
            way(self.session, inputs, output, tactic)
            self.session.synchronize()
        return output


def _plain(session: Session, inputs: Inputs, output: torch.Tensor, tactic: Tactic) -> None:
    session.moe(inputs, output, tactic)


def _on_another_stream(
    session: Session, inputs: Inputs, output: torch.Tensor, tactic: Tactic
) -> None:
    stream = torch.cuda.Stream(session.device)
    stream.wait_stream(torch.cuda.current_stream(session.device))
    with torch.cuda.stream(stream):
        session.moe(inputs, output, tactic)
    stream.synchronize()


def _graph_replay(session: Session, inputs: Inputs, output: torch.Tensor, tactic: Tactic) -> None:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        session.moe(inputs, output, tactic)
    # Capturing runs nothing; what is compared is what the last replay writes.
    for _ in range(REPEATS):
        output.fill_(float("nan"))
        graph.replay()


WAYS: Mapping[str, Way] = {"another stream": _on_another_stream, "graph replay": _graph_replay}
"""How else a call may run, by name."""


def _differing(first: torch.Tensor, second: torch.Tensor) -> int:
    """Number of elements whose bits differ: equal NaNs are equal."""
    return int((first.view(torch.int16) != second.view(torch.int16)).sum())


def _differs(differing: int, where: str, how: str) -> Iterator[Problem]:
    if differing:
        yield Problem(
            "the same inputs give different outputs",
            where,
            expected="the same bits every time",
            found=f"{differing} elements that differ {how}",
            remedy="look for a race, or for memory that is read before it is written",
        )


def _digest(output: torch.Tensor) -> str:
    return sha256_bytes(output.view(torch.uint8).cpu().numpy().tobytes())
