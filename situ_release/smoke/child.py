"""The inside of a smoke child process: run one task and report events.

:func:`main` reads a JSON request from stdin and writes events as JSON lines to an inherited file
descriptor. The last event is ``done``, or ``error`` with the problems of an expected failure.
Whoever reads (:mod:`situ_release.smoke.supervise`) must be ready for neither: the code of the wheel
runs in here and may crash, hang or leave.
"""

from __future__ import annotations

import faulthandler
import importlib
import json
import os
import resource
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from situ_release.errors import Problem, SituReleaseError

TASKS = {
    "probe": "situ_release.smoke.device:probe",
    "load": "situ_release.smoke.load:load",
    "cubins": "situ_release.smoke.cubins:cubins",
    "numerics": "situ_release.smoke.numerics:numerics",
    "memory": "situ_release.smoke.memory:memory",
    "determinism": "situ_release.smoke.determinism:determinism",
    "shards": "situ_release.smoke.shards:shards",
    "rehearsal": "situ_release.smoke.rehearsal.child:rehearse",
}
"""What a child can do: name -> ``module:function``, the function being a :data:`Task`."""


class Report(Protocol):
    """Sends one event to the parent; ``fields`` are JSON values."""

    def __call__(self, event: str, fields: Mapping[str, Any] = ...) -> None:
        """Send ``{"event": event, **fields}``."""


Task = Callable[[Mapping[str, Any], Report], None]


class FaultError(SituReleaseError):
    """What was tested did something wrong: the tier fails (exit code 1)."""

    exit_code = 1


def main(task: str, pipe: int) -> None:
    """Run a task; an expected failure is an event, any other exception ends the process with 1.

    Args:
        task: a key of :data:`TASKS`.
        pipe: the file descriptor that events are written to.
    """
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with os.fdopen(pipe, "w", encoding="utf-8") as stream:

        def report(event: str, fields: Mapping[str, Any] | None = None) -> None:
            stream.write(json.dumps({**(fields or {}), "event": event}) + "\n")
            stream.flush()

        try:
            _function(task)(json.load(sys.stdin), report)
        except SituReleaseError as error:
            report(
                "error",
                {
                    "exit_code": error.exit_code,
                    "problems": [problem.as_dict() for problem in error.problems],
                },
            )
        else:
            report("done")


def raised(error: BaseException, where: str) -> Problem:
    """The problem for an exception that the code under test raised."""
    text = " ".join(str(error).split())
    return Problem(
        "the code under test raised an exception",
        where,
        expected="a result",
        found=f"{type(error).__name__}: {text[:600]}",
        remedy="correct the runner or the payload, and build the wheel again",
    )


def case_event(
    report: Report,
    subject: str,
    problems: Sequence[Problem],
    figures: Mapping[str, float],
    **more: Any,
) -> None:
    """Report an event ``case``; it failed if there are problems.

    Args:
        report: receives it.
        subject: as in :class:`situ_release.bundle.evidence.Case`.
        problems: what was wrong.
        figures: what was measured.
        more: further fields of the case.
    """
    report(
        "case",
        {
            "subject": subject,
            "status": "fail" if problems else "pass",
            "problems": [problem.as_dict() for problem in problems],
            "figures": dict(figures),
            **more,
        },
    )


def _function(task: str) -> Task:
    module, _, name = TASKS[task].partition(":")
    function: Task = getattr(importlib.import_module(module), name)
    return function
