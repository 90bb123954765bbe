"""Faults put into a problem: an output that agrees with one of these is not the layer's.

A comparison that a mutant passes cannot see that fault, so its success would prove nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch  # noqa: TID253 - changes tensors

from situ_release.smoke.problem import Problem

_NO_BOUND = 1e6
"""A beta so large that beta * tanh(x / beta) is x."""


def swap_gate_and_up(problem: Problem) -> Problem:
    """Take up's rows for gate's and the other way round."""
    experts = problem.experts
    swapped = replace(
        experts,
        w13=experts.w13.roll(experts.intermediate, dims=1),
        w13_scales=experts.w13_scales.roll(experts.intermediate, dims=1),
    )
    return replace(problem, experts=swapped)


def drop_beta(problem: Problem) -> Problem:
    """Leave the gate unbounded: gate * sigmoid(gate)."""
    beta = torch.full_like(problem.experts.beta, _NO_BOUND)
    return replace(problem, experts=replace(problem.experts, beta=beta))


def drop_linear_beta(problem: Problem) -> Problem:
    """Leave up unbounded."""
    beta = torch.full_like(problem.experts.linear_beta, _NO_BOUND)
    return replace(problem, experts=replace(problem.experts, linear_beta=beta))


def shift_w13_scales(problem: Problem) -> Problem:
    """Read the first product's scales one block too late."""
    scales = problem.experts.w13_scales.roll(1, dims=2)
    return replace(problem, experts=replace(problem.experts, w13_scales=scales))


def shift_w2_scales(problem: Problem) -> Problem:
    """Read the second product's scales one block too late."""
    scales = problem.experts.w2_scales.roll(1, dims=2)
    return replace(problem, experts=replace(problem.experts, w2_scales=scales))


def skip_one_expert(problem: Problem) -> Problem:
    """Leave out the local expert that has the fewest tokens, but some."""
    routing, experts = problem.routing, problem.experts
    local = routing.ids.flatten().to(torch.int64) - experts.offset
    local = local[(local >= 0) & (local < experts.local)]
    present, counts = local.unique(return_counts=True)
    skipped = present[counts.argmin()] + experts.offset
    weights = torch.where(routing.ids == skipped, 0, routing.weights)
    return replace(problem, routing=replace(routing, weights=weights))


MUTANTS: dict[str, Callable[[Problem], Problem]] = {
    "swap gate and up": swap_gate_and_up,
    "drop beta": drop_beta,
    "drop linear beta": drop_linear_beta,
    "shift w13 scales by one block": shift_w13_scales,
    "shift w2 scales by one block": shift_w2_scales,
    "skip one expert": skip_one_expert,
}
"""Name -> what it does to a problem."""
