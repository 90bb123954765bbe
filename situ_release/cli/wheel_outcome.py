"""The outcome of a command that writes one wheel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from situ_release.cli.command import Outcome
from situ_release.cli.console import Console
from situ_release.text import size_text

if TYPE_CHECKING:
    from situ_release.wheel import output


def wheel_outcome(verb: str, wheel: output.WheelFile, warnings: Sequence[str]) -> Outcome:
    """Show where the wheel is, its size, tag and digest."""
    from situ_release.cli.output.build import BuildOutput
    from situ_release.cli.output.common import WheelFile

    def show(console: Console) -> None:
        console.line(f"{verb} {wheel.path}")
        console.line(f"  {size_text(wheel.size)}, {wheel.tag}")
        console.line(f"  SHA-256 {wheel.sha256}")
        for warning in warnings:
            console.marked("warn", "warning: ", warning)

    return Outcome(
        BuildOutput(
            WheelFile(str(wheel.path), wheel.size, wheel.sha256, wheel.tag), list(warnings)
        ),
        show,
    )
