"""``verify``: run the checks on a wheel and report every finding."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from situ_release.checks.model import VerifyReport, WheelFacts
from situ_release.wheel.archive import examine_wheel

if TYPE_CHECKING:
    from situ_release.checks.context import GateInputs


def verify_wheel(
    path: Path,
    *,
    recipe: str | None = None,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    strict: bool = False,
    gate: GateInputs | None = None,
) -> VerifyReport:
    """Run the checks on a wheel; what is wrong with it is data, not an error.

    Args:
        path: any readable file.
        recipe: a shipped recipe's name or the path of one; None for the one that the wheel names,
            else the one of its distribution.
        select: ids or beginnings of ids; none means all.
        ignore: ids or beginnings of ids to leave out.
        strict: warnings count as faults.
        gate: what was taken down beside the wheel; then the checks of the gate run, too.

    Raises:
        InputError: the file is missing or cannot be read, or another input is malformed.
        UsageError: an unknown check or recipe.
        HostError: signatures must be checked and this host cannot.
    """
    archive = examine_wheel(path)
    with ThreadPoolExecutor(1) as reader:
        contents = reader.submit(archive.scan, lambda name: True)
        digest = reader.submit(lambda: archive.sha256)
        # Reading the wheel leaves the interpreter free; meanwhile it makes ready what it needs.
        from situ_release.bundle.manifest import Manifest
        from situ_release.bundle.recipe import Recipe, load_recipe
        from situ_release.checks.catalog import catalog
        from situ_release.checks.context import Context
        from situ_release.checks.registry import choose

        Manifest.model_rebuild()
        Recipe.model_rebuild()
        catalog()
        checks = choose(select, ignore, for_publication=gate is not None)
        chosen = load_recipe(recipe) if recipe else None
        context = Context(archive, contents.result, chosen, gate)
        results = tuple(check.run(context) for check in checks)
        found = context.loaded_recipe_or_problems
        return VerifyReport(
            wheel=WheelFacts(path.name, archive.size, digest.result()),
            recipe=None if isinstance(found, tuple) else found.recipe.name,
            strict=strict,
            checks=results,
            for_publication=gate is not None,
        )
