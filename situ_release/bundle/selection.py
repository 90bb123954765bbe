"""Selection: which kernels of a metadata table belong in a bundle, and why.

A kernel belongs to a family when whole tokens of its name say so: the data types before the tile,
the gated activation and the architecture. Nothing is matched by substring.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from situ_release.bundle.recipe import Family, Recipe
from situ_release.errors import InputError, Problem, raise_all
from situ_release.sources.kernel_name import KernelName, cubin_filename, parse


@dataclass(frozen=True, slots=True)
class SelectedKernel:
    """A kernel that belongs in the bundle, and the family that took it."""

    name: str
    fields: KernelName
    filename: str
    family: Family


@dataclass(frozen=True, slots=True)
class Selection:
    """The kernels of a bundle.

    Attributes:
        kernels: sorted by file name, whatever the table's order.
        unknown_names: names of the table that the grammar does not know, with the reason; they
            belong to no family and are reported, never dropped in silence.
    """

    kernels: tuple[SelectedKernel, ...]
    unknown_names: tuple[Problem, ...]

    def of_family(self, name: str) -> tuple[SelectedKernel, ...]:
        """The kernels that one family took."""
        return tuple(kernel for kernel in self.kernels if kernel.family.name == name)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one family says of one kernel; ``refusals`` is empty where it takes it."""

    family: str
    refusals: tuple[str, ...]

    @property
    def taken(self) -> bool:
        """Whether the family takes the kernel."""
        return not self.refusals


def refusals(kernel: KernelName, family: Family) -> tuple[str, ...]:
    """The rules of ``family`` that ``kernel`` does not meet, in words; empty where it belongs."""
    rules = (
        ("data types", family.dtypes, kernel.dtype_family),
        ("activation", family.gated_act or "none", kernel.gated_act or "none"),
        ("architecture", family.arch, kernel.sm),
    )
    return tuple(
        f"{rule}: the family has {wanted}, the kernel {found}"
        for rule, wanted, found in rules
        if wanted != found
    )


def explain(name: str, recipe: Recipe) -> tuple[Verdict, ...]:
    """What every family of the recipe says of one kernel name.

    Raises:
        InputError: a token of the name is unknown.
    """
    kernel = parse(name)
    return tuple(Verdict(family.name, refusals(kernel, family)) for family in recipe.families)


def select(names: Iterable[str], recipe: Recipe, where: str) -> Selection:
    """Sort a table's kernels into the recipe's families.

    Args:
        names: kernel names of a metadata table.
        recipe: the families and their counts.
        where: the table, used in errors.

    Raises:
        InputError: a family has another number of kernels than the recipe says, or a kernel fits
        two
            families; all at once.
    """
    by_tokens: dict[tuple[str, str, str], list[Family]] = {}
    for family in recipe.families:
        key = (family.dtypes, family.gated_act, family.arch)
        by_tokens.setdefault(key, []).append(family)

    kernels: list[SelectedKernel] = []
    unknown: list[Problem] = []
    problems: list[Problem] = []
    for name in names:
        try:
            kernel = parse(name)
        except InputError as error:
            unknown.extend(error.problems)
            continue
        families = by_tokens.get((kernel.dtype_family, kernel.gated_act or "", kernel.sm), [])
        if len(families) > 1:
            problems.append(
                Problem(
                    "the kernel fits more than one family",
                    f"{where}: {name}",
                    expected="one family",
                    found=", ".join(family.name for family in families),
                    remedy="make the recipe's families disjoint",
                )
            )
        elif families:
            kernels.append(SelectedKernel(name, kernel, cubin_filename(name), families[0]))
    selection = Selection(tuple(sorted(kernels, key=lambda k: k.filename)), tuple(unknown))
    problems.extend(_count_problems(selection, recipe, where))
    raise_all(InputError, problems)
    return selection


def _count_problems(selection: Selection, recipe: Recipe, where: str) -> Iterable[Problem]:
    for family in recipe.families:
        found = len(selection.of_family(family.name))
        if found != family.count:
            yield Problem(
                f"family {family.name} is not complete"
                if found < family.count
                else f"family {family.name} has too many kernels",
                where,
                expected=f"{family.count} kernels ({family.dtypes}, "
                f"{family.gated_act or 'no activation'}, {family.arch})",
                found=f"{found}",
                remedy="stage from the pool that the recipe was written for, or review its counts",
            )
