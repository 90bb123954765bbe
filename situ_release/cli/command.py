"""What all commands share: run the work, show the outcome, turn errors into exit codes and JSON."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import typer

from situ_release.cli.console import Console
from situ_release.errors import HostError, InputError, Problem, SituReleaseError
from situ_release.os_errors import os_fault

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

BUG = 70
INTERRUPTED = 130
PIPE_CLOSED = 141
"""What a shell says of a program whose reader went away, as with ``| head``."""

current = Console()
"""The console of this process; :func:`situ_release.cli.app.main` sets it from the global flags."""


@dataclass(frozen=True)
class Outcome:
    """What a command found.

    Attributes:
        output: the command's own JSON fields, one of :mod:`situ_release.cli.output`.
        show: prints the same for people.
        exit_code: 0, or what the faults found ask for.
        problems: what stands as ``error`` and ``errors`` in the JSON object, beside the fields.
    """

    output: DataclassInstance
    show: Callable[[Console], None]
    exit_code: int = 0
    problems: tuple[Problem, ...] = ()


def envelope(command: str, exit_code: int) -> dict[str, Any]:
    """The fields that every command's JSON object begins with."""
    return {
        "command": command,
        "schema": f"situ-release/{command}/1",
        "ok": exit_code == 0,
        "exit_code": exit_code,
    }


def failure(command: str, exit_code: int, problems: tuple[Problem, ...]) -> dict[str, Any]:
    """The JSON object of a failed command: the first problem as ``error``, all as ``errors``."""
    return envelope(command, exit_code) | _errors(problems)


def _errors(problems: tuple[Problem, ...]) -> dict[str, Any]:
    errors = [problem.as_dict() for problem in problems]
    return {"error": errors[0], "errors": errors} if errors else {}


def execute(command: str, work: Callable[[Console], Outcome]) -> None:
    """Run ``work`` and leave the process with its exit code; no expected failure is a traceback."""
    console = current
    try:
        with console.working(command):
            outcome = work(console)
    except SituReleaseError as error:
        report_failure(console, command, error.exit_code, error.problems, error.log_tail)
        raise typer.Exit(error.exit_code) from None
    except KeyboardInterrupt:
        problem = Problem("interrupted", command, remedy="no output is half written; run it again")
        report_failure(console, command, INTERRUPTED, (problem,))
        raise typer.Exit(INTERRUPTED) from None
    except BrokenPipeError:
        _abandon_stdout()
        raise typer.Exit(PIPE_CLOSED) from None
    except (OSError, MemoryError) as error:
        fault = _environment_fault(error, command)
        report_failure(console, command, fault.exit_code, fault.problems)
        raise typer.Exit(fault.exit_code) from None
    except Exception as error:  # noqa: BLE001 - the last resort: a bug has an exit code of its own
        problem = Problem(
            what=f"a bug in situ-release: {type(error).__name__}: {error}",
            where=command,
            remedy="run again with --debug and report the traceback",
        )
        report_failure(console, command, BUG, (problem,))
        raise typer.Exit(BUG) from None
    try:
        outcome.show(console)
        fields = asdict(outcome.output) | _errors(outcome.problems)
        console.emit(envelope(command, outcome.exit_code) | fields)
        sys.stdout.flush()
    except BrokenPipeError:
        _abandon_stdout()
        raise typer.Exit(PIPE_CLOSED) from None
    except OSError as error:
        _abandon_stdout()
        console.error(f"standard output: cannot be written: {error.strerror}; free space")
        raise typer.Exit(InputError.exit_code) from None
    if outcome.exit_code:
        raise typer.Exit(outcome.exit_code)


def _environment_fault(error: OSError | MemoryError, command: str) -> SituReleaseError:
    """What no layer foresaw of the system around; a bug is neither of these errors."""
    if isinstance(error, MemoryError):
        return HostError.of(
            "memory ran out",
            command,
            expected="memory enough",
            found="an allocation that failed",
            remedy="free memory, or raise the limit (ulimit -v)",
        )
    if error.filename is not None:
        return os_fault(error, os.fsdecode(error.filename))
    # Outputs are named where they are written; without a name there is scratch, or no folder.
    folder = os.environ.get("TMPDIR", "the temporary folder (TMPDIR)")
    gone = isinstance(error, FileNotFoundError)
    return os_fault(error, "the current folder" if gone else folder)


def report_failure(
    console: Console,
    command: str,
    exit_code: int,
    problems: tuple[Problem, ...],
    log_tail: str = "",
) -> None:
    """Every problem on a line of stderr, and the JSON object if it was asked for."""
    if console.debug and sys.exc_info()[0] is not None:
        traceback.print_exc()
    for problem in problems:
        console.error(str(problem))
    if log_tail:
        console.error_detail(log_tail)
    console.emit(failure(command, exit_code, problems))


def _abandon_stdout() -> None:
    """Point stdout at nothing, so that the interpreter's last flush cannot fail a second time."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
