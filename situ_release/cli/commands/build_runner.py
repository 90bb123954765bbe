"""``situ-release build-runner``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from situ_release.cli.command import Outcome, execute
from situ_release.cli.console import Console


def build_runner(
    out: Annotated[
        Path, typer.Option(readable=False, help="Folder for snapshot, pool and module.")
    ],
    recipe: Annotated[
        str, typer.Option(help="A recipe that ships with its sources.")
    ] = "situ-conformance-sm90",
    nvcc: Annotated[str, typer.Option(help="The CUDA 13 compiler, by name or path.")] = "nvcc",
    jobs: Annotated[int, typer.Option(min=1, help="Compilers to run at a time.")] = 2,
) -> None:
    """Compile the cubins and the runner of a recipe that ships with its sources."""

    def work(console: Console) -> Outcome:
        from situ_release import resources
        from situ_release.atomic import check_apart, check_replaceable, check_writable
        from situ_release.bundle.conformance import build_conformance
        from situ_release.cli.output.build_runner import BuildRunnerOutput
        from situ_release.cli.output.common import FileDigest
        from situ_release.digests import sha256_file

        check_apart(out, [resources.recipes()])
        check_replaceable(out)
        check_writable(out)
        built = build_conformance(out, nvcc=nvcc, jobs=jobs, recipe=recipe)

        def show(console: Console) -> None:
            console.line(f"compiled {recipe} into {out}")
            console.line(f"  snapshot  {built.snapshot}")
            console.line(f"  pool      {built.pool}")
            console.line(f"  module    {built.module}")

        module = FileDigest(str(built.module), sha256_file(built.module))
        return Outcome(
            BuildRunnerOutput(recipe, str(built.snapshot), str(built.pool), module), show
        )

    execute("build-runner", work)
