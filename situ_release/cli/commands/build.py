"""``situ-release build``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from situ_release.cli.command import Outcome, execute
from situ_release.cli.commands.stage_assets import DEFAULT_RECIPE
from situ_release.cli.wheel_outcome import wheel_outcome


def build(
    payload: Annotated[
        Path, typer.Option(readable=False, help="Payload project that stage-assets wrote.")
    ] = Path("build") / DEFAULT_RECIPE,
    outdir: Annotated[Path, typer.Option(readable=False, help="Folder for the raw wheel.")] = Path(
        "wheelhouse/raw"
    ),
) -> None:
    """Build the wheel of a payload project (PEP 517, no index, reproducible)."""

    def work(console: object) -> Outcome:
        from situ_release.wheel.build import build_wheel

        return wheel_outcome("built", build_wheel(payload, outdir), ())

    execute("build", work)
