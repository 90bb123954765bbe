"""How far an output is from the reference, and whether that is near enough."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields

import torch  # noqa: TID253 - measures tensors

_QUIET_TOKEN = 1e-3
"""Quieter tokens are measured against this share of the loudest one's norm."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Bounds that a correct output keeps.

    Attributes:
        cosine: least cosine between output and reference, over the whole tensor.
        relative_l2: most ``|a - e| / |e|``, over the whole tensor.
        worst_token: most of that for any single token, so that one bad row cannot hide.
        element: an element is outside when ``|a - e|`` exceeds this share of the sum of ``|e|`` and
            its token's root mean square.
        outside: most share of elements that may be outside.
    """

    cosine: float
    relative_l2: float
    worst_token: float
    element: float
    outside: float


@dataclass(frozen=True, slots=True)
class Figures:
    """What a comparison measured; with a NaN or infinity in the output nothing else is measured.

    Attributes:
        cosine: cosine over the whole tensor; 1 where both are zero.
        relative_l2: relative L2 error over the whole tensor.
        worst_token: largest relative L2 error of a token.
        worst_element: largest error of an element, as a share of its token's root mean square.
        outside: share of elements outside :attr:`Tolerance.element`.
        nonfinite: number of elements that are NaN or infinite.
    """

    cosine: float
    relative_l2: float
    worst_token: float
    worst_element: float
    outside: float
    nonfinite: int

    def as_dict(self) -> dict[str, float | int]:
        """The JSON form, which knows no infinities: of a non-finite output only their number."""
        return {"nonfinite": self.nonfinite} if self.nonfinite else asdict(self)

    def broken(self, tolerance: Tolerance) -> list[str]:
        """Names of the bounds that do not hold; empty for a correct output."""
        if self.nonfinite:
            return ["nonfinite"]
        bounds = {bound.name for bound in fields(tolerance)} - {"cosine", "element"}
        broken = [
            name for name in sorted(bounds) if not getattr(self, name) <= getattr(tolerance, name)
        ]
        return broken if self.cosine >= tolerance.cosine else ["cosine", *broken]


def compare(actual: torch.Tensor, expected: torch.Tensor, tolerance: Tolerance) -> Figures:
    """Measure an output against the reference, in float64.

    Args:
        actual: ``[T, H]``, any floating dtype.
        expected: the same shape, finite.
        tolerance: supplies the bound of a single element.

    Without any token the two agree.
    """
    if not expected.numel():
        return Figures(1.0, 0.0, 0.0, 0.0, 0.0, 0)
    nonfinite = int(actual.numel() - actual.isfinite().sum())
    if nonfinite:
        return Figures(0.0, math.inf, math.inf, math.inf, 1.0, nonfinite)
    output, reference = actual.double(), expected.double()
    error = (output - reference).abs()
    norms = reference.norm(dim=1)
    quiet = (_QUIET_TOKEN * norms.max()).clamp_min(torch.finfo(torch.float32).tiny)
    norms = norms.clamp_min(quiet)
    mean = (norms / math.sqrt(reference.shape[1])).unsqueeze(1)
    limit = tolerance.element * (reference.abs() + mean)
    return Figures(
        cosine=_cosine(output, reference),
        relative_l2=float(error.norm() / reference.norm().clamp_min(quiet)),
        worst_token=float((error.norm(dim=1) / norms).max()),
        worst_element=float((error / mean).max()),
        outside=float((error > limit).double().mean()),
        nonfinite=0,
    )


def _cosine(output: torch.Tensor, reference: torch.Tensor) -> float:
    lengths = output.norm() * reference.norm()
    if not lengths:
        return float(output.norm() == reference.norm())
    return float((output * reference).sum() / lengths)
