"""``situ-release inspect``."""

from __future__ import annotations

import shutil
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from situ_release.cli.command import Outcome, execute
from situ_release.cli.console import Console

if TYPE_CHECKING:
    from situ_release.inspection.pages.page import Page


def inspect(
    path: Annotated[
        Path,
        typer.Argument(
            readable=False,
            help="A cubin, library, metadata header, manifest, wheel, payload, pool or snapshot; "
            "also inside a wheel: x.whl/inner/path.",
        ),
    ],
) -> None:
    """Show what a file or folder says about itself, embedded build paths included."""

    def work(console: Console) -> Outcome:
        from situ_release.cli.output.inspect import InspectOutput
        from situ_release.inspection.inspect import inspect_path
        from situ_release.inspection.pages.inspection import inspection_page

        inspection = inspect_path(path)
        # A pool's facts are megabytes; they are spelled out only for whoever asked.
        facts = asdict(inspection.facts) if console.json_output else {}
        return Outcome(
            InspectOutput(str(path), inspection.kind, facts),
            lambda console: show_page(console, inspection_page(inspection)),
        )

    execute("inspect", work)


def show_page(console: Console, page: Page) -> None:
    """Print a page in the terminal's width; ``-v`` shows long lists in full."""
    from situ_release.inspection.pages.layout import lay_out

    width = shutil.get_terminal_size().columns
    for line in lay_out(page, width, everything=console.verbose):
        if line.mark:
            console.marked(line.mark_meaning, line.mark, line.text)
        else:
            console.line(line.text, line.meaning)
