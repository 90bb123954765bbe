"""``situ-release repair``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from situ_release.cli.command import Outcome, execute
from situ_release.cli.wheel_outcome import wheel_outcome


def repair(
    wheel: Annotated[Path, typer.Argument(readable=False, help="The raw wheel that build wrote.")],
    wheel_dir: Annotated[
        Path, typer.Option(readable=False, help="Folder for the repaired wheel.")
    ] = Path("dist"),
    recipe: Annotated[
        Optional[str], typer.Option(help="Recipe, where it is not the one the wheel names.")
    ] = None,
    plat: Annotated[
        Optional[str], typer.Option(help="Platform tag instead of the recipe's.")
    ] = None,
    exclude: Annotated[
        Optional[list[str]],
        typer.Option(help="Soname patterns left to the host, instead of the recipe's."),
    ] = None,
) -> None:
    """Give the wheel its manylinux tag (auditwheel) and its canonical form; payload bytes stay."""

    def work(console: object) -> Outcome:
        from situ_release.wheel.bundle import open_bundle
        from situ_release.wheel.repair import repair_wheel

        loaded = open_bundle(wheel, recipe).loaded
        repaired = repair_wheel(wheel, wheel_dir, loaded.recipe, plat=plat, exclude=exclude)
        return wheel_outcome("repaired", repaired, ())

    execute("repair", work)
