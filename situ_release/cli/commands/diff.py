"""``situ-release diff``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from situ_release.cli.command import Outcome, execute
from situ_release.cli.commands.inspect import show_page
from situ_release.cli.console import Console

if TYPE_CHECKING:
    from situ_release.cli.output.diff import DiffOutput
    from situ_release.inspection.diff.compare import Difference


def diff(
    old: Annotated[
        Path, typer.Argument(readable=False, help="A wheel, payload, pool, cubin or library.")
    ],
    new: Annotated[Path, typer.Argument(readable=False, help="Another of the same kind.")],
) -> None:
    """Show what changed between two wheels, payloads or pools, binaries first; exit 1 if so."""

    def work(console: Console) -> Outcome:
        from situ_release.inspection.diff.compare import compare_paths
        from situ_release.inspection.pages.difference import difference_page

        difference = compare_paths(old, new)
        return Outcome(
            _output(difference),
            lambda console: show_page(console, difference_page(difference)),
            exit_code=0 if difference.identical else 1,
        )

    execute("diff", work)


def _output(difference: Difference) -> DiffOutput:
    from situ_release.cli.output.diff import BinariesOutput, DiffOutput
    from situ_release.inspection.diff.headline import headline

    fields = asdict(difference)
    return DiffOutput(
        kind=difference.kind,
        old=difference.old,
        new=difference.new,
        headline=headline(difference),
        identical=difference.identical,
        contents_identical=difference.contents_identical,
        binaries=BinariesOutput(**fields["binaries"]),
        kernel_table=fields["kernel_table"],
        manifest=fields["manifest"],
        metadata=fields["metadata"],
        python=fields["python"],
        files=fields["files"],
        compression=fields["container"],
        problems=[problem.as_dict() for problem in difference.problems],
    )
