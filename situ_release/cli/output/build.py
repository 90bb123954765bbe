"""Fields of ``build`` and ``repair``."""

from __future__ import annotations

from dataclasses import dataclass

from situ_release.cli.output.common import WheelFile


@dataclass(frozen=True)
class BuildOutput:
    """Fields of ``build`` and ``repair``."""

    wheel: WheelFile
    warnings: list[str]
