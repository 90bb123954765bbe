"""What reaches the terminal: human text, tables, and the one JSON object of ``--json``."""

from __future__ import annotations

import json
import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any

from situ_release.cli.github import inert, inert_json
from situ_release.text import printable

STYLES = {
    "pass": "32",
    "note": "36",
    "warn": "33",
    "fail": "31",
    "skip": "35",
    "error": "1;31",
    "head": "1",
    "dim": "2",
}
"""SGR codes by meaning; colour is never the only carrier of one."""


class Console:
    """Human text goes to stdout, or to stderr when stdout is to carry the JSON object.

    Args:
        json_output: print one JSON object on stdout and nothing else there.
        verbose: also show what is usually left out.
        debug: show the traceback of a failure.
        quiet: show errors only.
    """

    def __init__(
        self,
        *,
        json_output: bool = False,
        verbose: bool = False,
        debug: bool = False,
        quiet: bool = False,
    ) -> None:
        self.json_output = json_output
        self.verbose = verbose
        self.debug = debug
        self.quiet = quiet
        self._spinner: Any = None

    @property
    def _human(self) -> IO[str]:
        return sys.stderr if self.json_output else sys.stdout

    def style(self, meaning: str, text: str, stream: IO[str] | None = None) -> str:
        """``text`` coloured by meaning, if the stream is a terminal that wants colour."""
        stream = stream or self._human
        if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not stream.isatty():
            return text
        return f"\x1b[{STYLES[meaning]}m{text}\x1b[0m"

    def line(self, text: str = "", meaning: str = "") -> None:
        """One line of human text; control characters in it are shown, not sent."""
        text = _shown(text)
        self._write(self.style(meaning, text) if meaning else text)

    def marked(self, meaning: str, mark: str, text: str) -> None:
        """A line that begins with a coloured mark."""
        self._write(f"{self.style(meaning, _shown(mark))}{_shown(text)}")

    def paragraph(self, text: str, indent: int, meaning: str = "") -> None:
        """Text wrapped to the terminal's width, every line indented; one line anywhere else."""
        lead = " " * indent
        width = shutil.get_terminal_size().columns if self._human.isatty() else 1 << 20
        for line in textwrap.wrap(
            _shown(text),
            width,
            initial_indent=lead,
            subsequent_indent=lead,
            break_on_hyphens=False,
        ):
            self._write(self.style(meaning, line) if meaning else line)

    def _write(self, line: str) -> None:
        if not self.quiet:
            self._human.write(f"{line}\n")

    @contextmanager
    def working(self, text: str) -> Iterator[None]:
        """A spinner on stderr while something takes long; on a terminal only."""
        if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
            yield
            return
        from rich.console import Console as Terminal

        with Terminal(stderr=True).status(f"{text} …") as self._spinner:
            yield
        self._spinner = None

    @property
    def drawing(self) -> bool:
        """Whether something is drawn on a terminal while work goes on."""
        return self._spinner is not None

    @contextmanager
    def live(self, render: Callable[[], Any]) -> Iterator[None]:
        """What ``render`` gives, drawn again and again in the spinner's place, if it has one."""
        if not self.drawing:
            yield
            return
        from rich.live import Live

        self._spinner.stop()
        with Live(get_renderable=render, console=self._spinner.console, transient=True):
            yield

    def table(self, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """Columns padded to their widest cell; numbers are aligned right."""
        cells = [[_shown(_cell(value)) for value in row] for row in rows]
        widths = [len(name) for name in header]
        for row in cells:
            widths = [max(width, len(cell)) for width, cell in zip(widths, row, strict=True)]
        right = [
            bool(rows) and all(isinstance(row[column], int | float) for row in rows)
            for column in range(len(header))
        ]

        def joined(row: Sequence[str]) -> str:
            padded = (
                cell.rjust(width) if numeric else cell.ljust(width)
                for cell, width, numeric in zip(row, widths, right, strict=True)
            )
            return "  ".join(padded).rstrip()

        self._write(self.style("head", joined(header)))
        for row in cells:
            self._write(joined(row))

    def command(self, text: str) -> None:
        """A line for the program that runs this one; everything in it is escaped already."""
        self._human.write(text + "\n")

    def error(self, text: str) -> None:
        """One line on stderr that begins with ``error:``."""
        sys.stderr.write(f"{self.style('error', 'error:', sys.stderr)} {_shown(text)}\n")

    def error_detail(self, text: str) -> None:
        """Lines on stderr below an error, such as the end of a tool's output."""
        for line in text.splitlines():
            sys.stderr.write(f"  | {_shown(line)}\n")

    def emit(self, document: dict[str, Any]) -> None:
        """The JSON object, when ``--json`` asked for it."""
        if self.json_output:
            text = json.dumps(document, indent=2)
            sys.stdout.write(inert_json(text) + "\n")


def _shown(text: str) -> str:
    return inert(printable(text))


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.2f}"
    return "" if value is None else str(value)
