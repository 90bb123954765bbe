"""Tier ``shards`` inside the child: the ranks' partial outputs add up to the whole layer's.

The whole layer's weights are on the device in checkpoint layout; each rank's shard is cut out of
them, stored as the runner reads it and run. With several processes each takes every so-many-th
shard, and the partial sums meet in an all-reduce.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch  # noqa: TID253 - adds tensors

from situ_release.bundle.recipe import Contract
from situ_release.smoke.cases import DEFAULT_TACTIC
from situ_release.smoke.child import Report
from situ_release.smoke.inputs import Inputs, store
from situ_release.smoke.metrics import Tolerance, compare
from situ_release.smoke.numerics import difference
from situ_release.smoke.problem import Problem, make_experts, make_problem
from situ_release.smoke.reference.moe import ExpertWeights, expert_shard, moe, tensor_shard
from situ_release.smoke.session import Session, open_session

_COLLECTIVE_LIMIT = timedelta(seconds=120)

Reduce = Callable[[torch.Tensor], None]
"""Adds up a tensor over the processes, in place."""


def shards(request: Mapping[str, Any], report: Report) -> None:
    """Child task: report a ``case`` for each contract and token count; rank 0 alone reports.

    Args:
        request: what :func:`situ_release.smoke.session.open_session` asks for; ``contracts`` (as in
            the recipe), ``tokens``, ``tolerance``, ``rank`` and ``world`` of this process, and
            ``store``, a file where the processes meet (None for a single one).
        report: receives the events.

    Raises:
        HostError: this host cannot run it.
        FaultError: the package raised.
    """
    rank, world = request["rank"], request["world"]
    contracts = [Contract.model_validate(item) for item in request["contracts"]]
    with open_session(request, report) as session:
        reduce = _join(session, request["store"], rank, world) if world > 1 else None
        sums = ShardSums(session, rank, world, reduce, Tolerance(**request["tolerance"]))
        for group in _by_whole(contracts):
            sums.check(group, request["tokens"])
        if world > 1:
            torch.distributed.destroy_process_group()


@dataclass(frozen=True, slots=True)
class ShardSums:
    """Adds up the shards of contracts that share a whole layer.

    Attributes:
        session: calls the runner.
        rank: this process.
        world: number of processes.
        reduce: adds up over them; None for a single one.
        tolerance: bounds that the sum keeps.
    """

    session: Session
    rank: int
    world: int
    reduce: Reduce | None
    tolerance: Tolerance

    def check(self, contracts: Sequence[Contract], tokens: Sequence[int]) -> None:
        """Compare the sums of shards with the whole, for every contract and token count.

        Args:
            contracts: shards of one whole layer, in any precision.
            tokens: token counts.
        """
        whole = whole_layer(contracts[0])
        self.session.step(f"weights of {whole.num_experts} experts")
        experts = make_experts(whole, 0, self.session.device)
        for contract in contracts:
            layer = whole.model_copy(
                update={
                    "precision": contract.precision,
                    "dtype_activation": contract.dtype_activation,
                }
            )
            problems = [make_problem(layer, experts, count, 0) for count in tokens]
            totals = self._partial_sums(contract, experts, problems)
            for problem, total in zip(problems, totals, strict=True):
                if self.reduce:
                    self.reduce(total)
                if not self.rank:
                    self._judge(contract, problem, total)

    def _partial_sums(
        self, contract: Contract, experts: ExpertWeights, problems: Sequence[Problem]
    ) -> list[torch.Tensor]:
        """This process's shards, summed in float32 for each problem."""
        expert_parallel = contract.expert_parallel_size > 1
        size = contract.expert_parallel_size * contract.tensor_parallel_size
        cut = expert_shard if expert_parallel else tensor_shard
        totals = [
            torch.zeros(problem.tokens.values.shape, device=self.session.device)
            for problem in problems
        ]
        for number in range(self.rank, size, self.world):
            self.session.step(f"{contract.name}: shard {number + 1} of {size}")
            shard = cut(experts, number, size)
            stored = store(shard)
            for problem, total in zip(problems, totals, strict=True):
                own = Problem(problem.tokens, problem.routing, shard)
                inputs = Inputs(contract, own, stored)
                output = inputs.new_output()
                self.session.call(inputs, output, DEFAULT_TACTIC)
                total += output
        return totals

    def _judge(self, contract: Contract, problem: Problem, total: torch.Tensor) -> None:
        count = len(total)
        self.session.step(f"{contract.name} at {count} tokens: reference")
        expected = moe(problem.tokens, problem.routing, problem.experts)
        how = "one after another"
        if self.world > 1:
            how = f"in {self.world} processes, {_backend(self.session)}"
        subject = f"sum of {_kind(contract)} shards, {how}"
        where = f"{contract.name} at {count} tokens, {subject}"
        figures = compare(total, expected, self.tolerance)
        problems = list(difference(figures, self.tolerance, where))
        self.session.case(contract, count, subject, problems, figures.as_dict(), seed=0)


def whole_layer(contract: Contract) -> Contract:
    """The layer that a contract is a shard of."""
    return contract.model_copy(
        update={
            "local_num_experts": contract.local_num_experts * contract.expert_parallel_size,
            "physical_intermediate_size": contract.physical_intermediate_size
            * contract.tensor_parallel_size,
            "tensor_parallel_size": 1,
            "expert_parallel_size": 1,
        }
    )


def _by_whole(contracts: Sequence[Contract]) -> list[list[Contract]]:
    groups: dict[tuple[int, ...], list[Contract]] = {}
    for contract in contracts:
        whole = whole_layer(contract)
        sizes = (
            whole.num_experts,
            whole.local_num_experts,
            whole.top_k,
            whole.hidden_size,
            whole.physical_intermediate_size,
        )
        groups.setdefault(sizes, []).append(contract)
    return list(groups.values())


def _kind(contract: Contract) -> str:
    if contract.expert_parallel_size > 1:
        return f"{contract.expert_parallel_size} expert-parallel"
    return f"{contract.tensor_parallel_size} tensor-parallel"


def _join(session: Session, store: str, rank: int, world: int) -> Reduce:
    """Meet the other processes; they have one GPU each."""
    session.step(f"waiting for {world - 1} other processes")
    torch.distributed.init_process_group(
        _backend(session),
        init_method=f"file://{store}",
        rank=rank,
        world_size=world,
        timeout=_COLLECTIVE_LIMIT,
        device_id=None if session.device == "cpu" else torch.device(session.device),
    )
    return torch.distributed.all_reduce  # type: ignore[no-any-return]


def _backend(session: Session) -> str:
    return "gloo" if session.device == "cpu" else "nccl"
