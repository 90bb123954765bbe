"""Checks of the selection: the right number of kernels, and all that the runner may ask for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from situ_release.bundle.families import family_of
from situ_release.checks.context import Context
from situ_release.checks.model import Finding, fail
from situ_release.errors import InputError
from situ_release.sources.kernel_name import (
    FILE_PREFIX,
    KERNEL_PREFIX,
    cubin_filename,
    kernel_of_filename,
    parse,
)


def counts(context: Context) -> Iterator[Finding]:
    """Every cubin belongs to one family, in that family's role, and the counts are the recipe's."""
    recipe, package = context.recipe, context.package
    families = {family.name: family for family in recipe.families}
    selected: Counter[str] = Counter()
    for entry in context.manifest.cubins:
        member = f"{package}/{entry.path}"
        if member not in context.contents:
            continue
        try:
            kernel = parse(kernel_of_filename(entry.filename))
        except InputError as error:
            for problem in error.problems:
                yield fail(member, problem.what, expected=problem.expected, found=problem.found)
            continue
        family = families.get(family_of(kernel, recipe))
        if family is None:
            yield fail(
                member,
                "the kernel belongs to no family of the recipe",
                expected=f"one of {', '.join(families)}",
                found=f"{kernel.dtype_family}, {kernel.gated_act or 'no activation'}, {kernel.sm}",
            )
            continue
        selected[family.name] += 1
        if entry.role != family.role:
            yield fail(
                member,
                f"the role is not that of family {family.name}",
                expected=family.role,
                found=entry.role,
            )
        if entry.family not in (None, family.name):
            yield fail(
                member,
                "the manifest names another family",
                expected=family.name,
                found=str(entry.family),
            )
    for family in recipe.families:
        if selected[family.name] != family.count:
            yield fail(
                context.manifest_member,
                f"family {family.name} ({family.role}, {family.arch}) has another number of cubins",
                expected=str(family.count),
                found=str(selected[family.name]),
            )


def complete(context: Context) -> Iterator[Finding]:
    """Every kernel of the runner's table that belongs to a family is bundled."""
    families = {family.name: family for family in context.recipe.families}
    bundled = {
        entry.filename
        for entry in context.manifest.cubins
        if f"{context.package}/{entry.path}" in context.contents
    }
    # The part of a kernel's name before its tile is the family's data types, so most of the table
    # need not be parsed.
    prefixes = tuple(f"{KERNEL_PREFIX}{family.dtypes}_t" for family in families.values())
    for name in context.runner.kernel_table.digests:
        if not name.startswith(prefixes) or cubin_filename(name) in bundled:
            continue
        try:
            family = families.get(family_of(parse(name), context.recipe))
        except InputError as error:
            for problem in error.problems:
                yield fail(name, problem.what, expected=problem.expected, found=problem.found)
            continue
        if family is not None:
            yield fail(
                f"{FILE_PREFIX}{name.removeprefix(KERNEL_PREFIX)}.cubin",
                f"a kernel of family {family.name} that the runner was compiled with is missing",
                expected=f"a cubin in {context.package}/cubins/{family.arch}/",
                found="none",
            )
