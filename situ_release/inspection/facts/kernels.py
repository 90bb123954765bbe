"""How many kernels of which family a table of kernel names has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from situ_release.errors import InputError
from situ_release.sources.kernel_name import parse

_GEMM = "bmm_"


@dataclass(frozen=True, slots=True)
class KernelGroup:
    """Kernels alike in data types, activation and SM.

    Attributes:
        dtypes: as the name spells them before the tile, see
            :attr:`situ_release.sources.kernel_name.KernelName.dtype_family`.
        activation: gated activation; "" without one.
        sm: ``sm103a``, ``sm100f``, …
        count: how many.
    """

    dtypes: str
    activation: str
    sm: str
    count: int


@dataclass(frozen=True, slots=True)
class UnknownName:
    """A batched-GEMM kernel whose name the grammar does not cover, and the token to blame."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class KernelCensus:
    """A table of kernels by family.

    Attributes:
        count: all kernels.
        groups: batched-GEMM kernels, the largest groups first.
        others: kernels of other generators, whose names are not taken apart.
        unknown: batched-GEMM names with an unknown token.
    """

    count: int
    groups: tuple[KernelGroup, ...]
    others: int
    unknown: tuple[UnknownName, ...]


def kernel_census(names: Iterable[str]) -> KernelCensus:
    """Count the kernels of a table."""
    groups: Counter[tuple[str, str, str]] = Counter()
    unknown = []
    count = others = 0
    for name in names:
        count += 1
        if not name.startswith(_GEMM):
            others += 1
            continue
        try:
            fields = parse(name)
        except InputError as error:
            unknown.append(UnknownName(name, error.problems[0].found))
            continue
        groups[fields.dtype_family, fields.gated_act or "", fields.sm] += 1
    ordered = sorted(groups.items(), key=lambda item: (-item[1], item[0]))
    return KernelCensus(
        count=count,
        groups=tuple(KernelGroup(*key, number) for key, number in ordered),
        others=others,
        unknown=tuple(unknown),
    )
