"""The outside of a smoke child process: start it, watch the clock, and put a name to how it ended.

What is tested runs in another process, so that a crash, a hang or a runner that ends the process is
a result. ``apache-tvm-ffi`` binds a runner's functions lazily: one that nothing defines ends the
child with code 127 at its first call, without an exception, and only the dynamic loader's line on
stderr names the symbol.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import IO, Any

from situ_release.errors import HostError, Problem
from situ_release.smoke.child import FaultError

# Nothing is imported (sys is built in) while the current folder is still on the path.
_START = (
    "import sys; sys.path[:] = sys.argv[1].split('\\n'); "
    "from situ_release.smoke.child import main; main(sys.argv[2], int(sys.argv[3]))"
)
_LOG_LINES = 80
_LOG_BYTES = 1 << 16
_DRAIN_S = 5.0
_LOADER_EXIT = 127
_UNDEFINED = re.compile(r"symbol lookup error: (?P<file>[^:\n]+): undefined symbol: (?P<name>\S+)")

Event = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a child ended.

    Attributes:
        events: what it reported, in order, the closing event left out.
        problems: why it did not finish its task; empty when it did.
        exit_code: 0 finished, 1 a fault of what was tested, else the code of the expected failure.
        seconds: wall time from start to end.
        log_tail: the last lines it wrote to stdout and stderr; empty when it finished.
    """

    events: tuple[Event, ...]
    problems: tuple[Problem, ...]
    exit_code: int
    seconds: float
    log_tail: str

    def select(self, event: str) -> tuple[Event, ...]:
        """The events of one name."""
        return tuple(item for item in self.events if item["event"] == event)


def run_child(
    task: str,
    request: Mapping[str, Any],
    *,
    limit_s: float,
    on_event: Callable[[Event], None] | None = None,
    python: Sequence[str] = (sys.executable,),
) -> Outcome:
    """Run a task in a child process, in a session of its own, and wait for it.

    Args:
        task: a key of :data:`situ_release.smoke.child.TASKS`.
        request: the task's argument, JSON values.
        limit_s: seconds after which the child and all its descendants are killed.
        on_event: called for every event as it arrives, from another thread.
        python: the command that starts Python.
    """
    started = time.monotonic()
    reader, writer = os.pipe()
    events: list[Event] = []
    with tempfile.TemporaryFile() as log:
        path = "\n".join(filter(None, sys.path))
        command = [*python, "-c", _START, path, task, str(writer)]
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            pass_fds=(writer,),
            start_new_session=True,
        )
        os.close(writer)
        listener = threading.Thread(target=_listen, args=(reader, events, on_event), daemon=True)
        listener.start()
        try:
            process.communicate(json.dumps(request).encode(), timeout=limit_s)
        except subprocess.TimeoutExpired:
            timed_out = True
        else:
            timed_out = False
        finally:
            _kill_session(process)
        listener.join(_DRAIN_S)
        tail = _tail(log)
    seconds = time.monotonic() - started
    last = events[-1]["event"] if events else ""
    if last == "error" and not process.returncode:
        problems = tuple(Problem(**fields) for fields in events[-1]["problems"])
        return Outcome(tuple(events[:-1]), problems, events[-1]["exit_code"], seconds, "")
    if last == "done" and not process.returncode:
        return Outcome(tuple(events[:-1]), (), 0, seconds, "")
    step = next((item["step"] for item in reversed(events) if item["event"] == "step"), "starting")
    ending = f"no answer within {limit_s:g} s" if timed_out else _ending(process.returncode, tail)
    return Outcome(
        tuple(events),
        (_crash(f"{task}: {step}", ending, tail),),
        FaultError.exit_code,
        seconds,
        tail,
    )


def refused(outcome: Outcome) -> bool:
    """Whether the child said that this host or device cannot do it."""
    return outcome.exit_code == HostError.exit_code


def tvm_ffi_version() -> str:
    """The installed apache-tvm-ffi's version; "not installed" without one."""
    try:
        return metadata.version("apache-tvm-ffi")
    except metadata.PackageNotFoundError:
        return "not installed"


def _listen(reader: int, events: list[Event], on_event: Callable[[Event], None] | None) -> None:
    with os.fdopen(reader, encoding="utf-8") as stream:
        for line in stream:
            if not line.endswith("\n"):
                return  # the child was killed in the middle of a line
            events.append(json.loads(line))
            if on_event:
                on_event(events[-1])


def _kill_session(process: subprocess.Popen[bytes]) -> None:
    """Nothing that the child started may outlive it and keep the device."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _tail(log: IO[bytes]) -> str:
    log.seek(max(0, log.seek(0, os.SEEK_END) - _LOG_BYTES))
    lines = log.read().decode("utf-8", "replace").splitlines()
    return "\n".join(lines[-_LOG_LINES:])


def _ending(code: int, tail: str) -> str:
    undefined = _UNDEFINED.search(tail)
    if code == _LOADER_EXIT and undefined:
        return f"undefined symbol {undefined['name']} in {Path(undefined['file']).name}"
    if code < 0:
        try:
            return signal.Signals(-code).name
        except ValueError:
            return f"signal {-code}"
    return f"exit code {code}"


def _crash(where: str, ending: str, tail: str) -> Problem:
    return Problem(
        what="the child process ended without a result",
        where=where,
        expected="a result",
        found=f"{ending} (apache-tvm-ffi {tvm_ffi_version()} is installed)",
        remedy="correct the runner and build the wheel again"
        if "undefined symbol" not in ending
        else "install the apache-tvm-ffi that the runner was built for, or build the runner again",
    )
