"""Fields of ``build-runner``."""

from __future__ import annotations

from dataclasses import dataclass

from situ_release.cli.output.common import FileDigest


@dataclass(frozen=True)
class BuildRunnerOutput:
    """Fields of ``build-runner``: the three sources that ``stage-assets`` asks for."""

    recipe: str
    snapshot: str
    pool: str
    module: FileDigest
