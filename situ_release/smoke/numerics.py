"""Tier ``numerics`` inside the child: one contract's outputs against the reference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch  # noqa: TID253 - compares tensors

from situ_release.bundle.recipe import Contract
from situ_release.errors import Problem
from situ_release.smoke.cases import CallPlan, CasePlan, from_json
from situ_release.smoke.child import Report
from situ_release.smoke.inputs import Inputs, store
from situ_release.smoke.metrics import Figures, Tolerance, compare
from situ_release.smoke.mutants import MUTANTS
from situ_release.smoke.problem import Problem as Layer
from situ_release.smoke.problem import make_experts, make_problem
from situ_release.smoke.reference.moe import moe
from situ_release.smoke.session import Session, open_session


def numerics(request: Mapping[str, Any], report: Report) -> None:
    """Child task: report a ``case`` for each call and a ``mutant`` for each fault.

    Args:
        request: what :func:`situ_release.smoke.session.open_session` asks for; ``contract`` (as in
            the recipe), ``plans`` (:class:`CasePlan` as JSON), ``tolerance``, ``seeds`` (their
            number), ``mutant_tokens`` (token counts at which mutants are tried, with seed 0) and
            ``rank``, the expert-parallel rank whose shard is tested.
        report: receives the events; ``case`` has ``fetched``, the kernels fetched by the call.

    Raises:
        HostError: this host cannot run it.
        FaultError: the package raised.
    """
    with open_session(request, report) as session:
        check = ContractCheck(
            session,
            Contract.model_validate(request["contract"]),
            [from_json(plan) for plan in request["plans"]],
            Tolerance(**request["tolerance"]),
            request["rank"],
            request["mutant_tokens"],
        )
        for seed in range(request["seeds"]):
            check.run(seed)


@dataclass(slots=True)
class ContractCheck:
    """Compares one contract's outputs with the reference.

    Attributes:
        session: calls the runner.
        contract: the problem.
        plans: token counts and calls.
        tolerance: bounds that a correct output keeps.
        rank: expert-parallel rank.
        mutant_tokens: token counts at which mutants are tried, with seed 0.
    """

    session: Session
    contract: Contract
    plans: Sequence[CasePlan]
    tolerance: Tolerance
    rank: int
    mutant_tokens: Sequence[int]
    _fetched: set[str] = field(default_factory=set)

    def run(self, seed: int) -> None:
        """All plans with the random inputs of one seed."""
        session = self.session
        session.step(f"{self.contract.name}: weights, seed {seed}")
        experts = make_experts(self.contract, seed, session.device, rank=self.rank)
        stored = store(experts)
        for plan in self.plans:
            where = f"{self.contract.name} at {plan.tokens} tokens"
            session.step(f"{where}: reference")
            layer = make_problem(self.contract, experts, plan.tokens, seed)
            expected = moe(layer.tokens, layer.routing, layer.experts)
            inputs = Inputs(self.contract, layer, stored)
            for call in plan.calls:
                session.step(f"{where}: {call.subject}")
                output = inputs.new_output()
                session.call(inputs, output, call.tactic)
                self._judge(call, output, expected, seed)
            if seed == 0 and plan.tokens in self.mutant_tokens:
                self._mutants(layer, output, plan.tokens)

    def _judge(
        self,
        call: CallPlan,
        output: torch.Tensor,
        expected: torch.Tensor,
        seed: int,
    ) -> None:
        fetched = list(self.session.fetched())
        self._fetched.update(fetched)
        figures = compare(output, expected, self.tolerance)
        where = f"{self.contract.name} at {len(output)} tokens, {call.subject}, seed {seed}"
        problems = [*difference(figures, self.tolerance, where)]
        if len(output):
            problems += self._kernels(call, fetched, where)
        self.session.case(
            self.contract,
            len(output),
            call.subject,
            problems,
            figures.as_dict(),
            seed=seed,
            fetched=fetched,
        )

    def _kernels(self, call: CallPlan, fetched: Sequence[str], where: str) -> Iterator[Problem]:
        """Whether the call's own kernels were fetched, now or before, and no others."""
        strange = [name for name in fetched if name not in (*call.fc1, *call.fc2)]
        if strange or not all(self._fetched & set(names) for names in (call.fc1, call.fc2)):
            yield Problem(
                "the tactic does not launch its kernels",
                where,
                expected=f"{_one_of(call.fc1)} and {_one_of(call.fc2)} to be fetched",
                found=", ".join(fetched) or "none of them fetched, in this call or before",
                remedy="name the tactic rules of this runner in the recipe, or correct the runner",
            )

    def _mutants(self, layer: Layer, output: torch.Tensor, tokens: int) -> None:
        for name, mutate in MUTANTS.items():
            self.session.step(f"{self.contract.name} at {tokens} tokens: mutant, {name}")
            mutant = mutate(layer)
            expected = moe(mutant.tokens, mutant.routing, mutant.experts)
            figures = compare(output, expected, self.tolerance)
            broken = figures.broken(self.tolerance)
            problems = []
            if not broken:
                problems.append(
                    Problem(
                        "the comparison does not see a fault",
                        f"{self.contract.name} at {tokens} tokens, {name}",
                        expected="the output to differ from a layer with that fault",
                        found="an output that agrees with it",
                        remedy="correct the runner if it has that fault, else the tolerances",
                    )
                )
            self.session.report(
                "mutant",
                {
                    "contract": self.contract.name,
                    "tokens": tokens,
                    "seed": 0,
                    "name": name,
                    "caught": bool(broken),
                    "broken": broken,
                    "figures": figures.as_dict(),
                    "problems": [problem.as_dict() for problem in problems],
                },
            )


def difference(figures: Figures, tolerance: Tolerance, where: str) -> Iterator[Problem]:
    """The problem of an output that is not near enough to what was expected."""
    broken = figures.broken(tolerance)
    if broken == ["nonfinite"]:
        yield Problem(
            "elements of the output are unwritten, NaN or infinite",
            where,
            expected="finite numbers everywhere; the output was filled with NaN before",
            found=f"{figures.nonfinite} elements that are not",
            remedy="correct the kernels of this tactic",
        )
    elif broken:
        yield Problem(
            "the output differs from the reference",
            where,
            expected=", ".join(f"{name} {_bound(tolerance, name)}" for name in broken),
            found=", ".join(f"{name} {getattr(figures, name):.6g}" for name in broken),
            remedy="correct the kernels of this tactic",
        )


def _bound(tolerance: Tolerance, name: str) -> str:
    value = getattr(tolerance, name)
    return f"at least {value:g}" if name == "cosine" else f"at most {value:g}"


def _one_of(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"one of {len(names)} kernels like {names[0]}"
