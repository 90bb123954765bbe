"""A bundle's cubins by family, also where the manifest (a published one) names none."""

from __future__ import annotations

from collections.abc import Sequence

from situ_release.bundle.manifest import CubinEntry, Manifest
from situ_release.bundle.recipe import Recipe
from situ_release.errors import InputError
from situ_release.sources.kernel_name import KernelName, kernel_of_filename, parse

NO_FAMILY = ""
"""Stands for cubins that belong to no family of the recipe."""


def family_of(kernel: KernelName, recipe: Recipe) -> str:
    """Name of the recipe's family that a kernel's tokens place it in, or :data:`NO_FAMILY`."""
    tokens = (kernel.dtype_family, kernel.gated_act or "", kernel.sm)
    for family in recipe.families:
        if (family.dtypes, family.gated_act, family.arch) == tokens:
            return family.name
    return NO_FAMILY


def cubins_by_family(manifest: Manifest, recipe: Recipe) -> dict[str, list[CubinEntry]]:
    """The manifest's cubins by family, in the recipe's and the manifest's order.

    Every family of the recipe is there, :data:`NO_FAMILY` only where cubins belong to none. What a
    name says counts, not what the manifest claims.
    """
    found: dict[str, list[CubinEntry]] = {family.name: [] for family in recipe.families}
    for entry in manifest.cubins:
        found.setdefault(_family(entry, recipe), []).append(entry)
    return found


def total_bytes(entries: Sequence[CubinEntry]) -> int:
    """Size of cubins in all, in bytes."""
    return sum(entry.size for entry in entries)


def _family(entry: CubinEntry, recipe: Recipe) -> str:
    try:
        return family_of(parse(kernel_of_filename(entry.filename)), recipe)
    except InputError:
        return NO_FAMILY
