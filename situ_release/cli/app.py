"""The command line: parses, calls the library, prints."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from situ_release import __version__
from situ_release.cli import command
from situ_release.cli.commands import COMMANDS, command_function
from situ_release.cli.console import Console
from situ_release.errors import Problem, UsageError

GLOBAL_FLAGS = {
    "--json": "json_output",
    "-v": "verbose",
    "--verbose": "verbose",
    "--debug": "debug",
    "-q": "quiet",
    "--quiet": "quiet",
}
"""Flags that may stand anywhere on the command line."""

EXIT_CODES = "Exit codes: 0 done; 1 faults; 2 usage; 3 input; 4 host cannot; 5 tool failed; 70 bug."


def _global_options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and leave.")
    ] = False,
    json_output: Annotated[
        bool, typer.Option("--json", help="One JSON object on stdout, human text on stderr.")
    ] = False,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Show more.")] = False,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Show errors only.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
) -> None:
    """Global flags; all but --version may also follow the command."""


def build_app(names: Iterable[str]) -> typer.Typer:
    """The command line with some of the commands; each costs its import and its options."""
    app = typer.Typer(
        name="situ-release",
        help="Build, verify and release cubin bundles: wheels with precompiled CUDA kernels.",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,  # plain help: rich would double the start-up time
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        epilog=EXIT_CODES,
    )
    app.callback()(_global_options)
    for name in names:
        function = command_function(name)
        app.command(name, help=function.__doc__, short_help=COMMANDS[name])(function)
    return app


_COLLECT_AFTER = 100_000
"""Objects made before Python looks for cycles among them, instead of its 700."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with the code of DESIGN's table."""
    # Nearly all that a command makes lives to its end: looking through it a thousand times over
    # takes a tenth of its time and frees nothing.
    gc.set_threshold(_COLLECT_AFTER)
    # A terminated run cleans up like an interrupted one; nohup stays in force.
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)
    _open_streams()
    words, flags = _split_flags(sys.argv[1:] if arguments is None else arguments)
    console = Console(**flags)
    command.current = console
    if words == ["--version"]:
        sys.stdout.write(f"situ-release {__version__}\n")
        raise SystemExit(0)
    try:
        # A command that is named comes alone; help and misspelt commands see them all.
        app = build_app(words[:1] if words and words[0] in COMMANDS else list(COMMANDS))
        code = app(words or ["--help"], standalone_mode=False)
    except typer.Exit as leave:
        code = leave.exit_code
    except (typer.Abort, KeyboardInterrupt):
        code = command.INTERRUPTED
    except Exception as error:
        # Typer's usage errors share no public base class across its versions, but this method.
        format_message = getattr(error, "format_message", None)
        if format_message is None:
            raise
        name = words[0] if words and words[0] in COMMANDS else ""
        program = f"situ-release {name}".rstrip()
        if message := format_message():
            problem = Problem(
                what=message.rstrip("."),
                where=program,
                expected="usage as --help shows it",
                found=" ".join(words)[:120],
                remedy=f"see `{program} --help`",
            )
            command.report_failure(
                console, name or "situ-release", UsageError.exit_code, (problem,)
            )
        code = UsageError.exit_code
    # Without a command the help is shown, and yet nothing was asked for.
    raise SystemExit(code or (0 if words else UsageError.exit_code))


def _open_streams() -> None:
    """Streams that can be written whatever the caller closed and whatever the locale is."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115 - for good
        else:
            getattr(sys, name).reconfigure(errors="backslashreplace")


def _split_flags(arguments: list[str]) -> tuple[list[str], dict[str, bool]]:
    flags = {}
    words = []
    for position, word in enumerate(arguments):
        if word == "--":
            words += arguments[position:]
            break
        if word in GLOBAL_FLAGS:
            flags[GLOBAL_FLAGS[word]] = True
        else:
            words.append(word)
    return words, flags
