"""The five commands on one wheel, as a maintainer types them, with time and memory of each."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

COMMANDS = ("recover", "stage-assets", "build", "repair", "verify")


@dataclass(frozen=True)
class Step:
    """One command: wall seconds and peak resident memory of it and its children, in MiB."""

    command: str
    seconds: float
    peak_mib: float


@dataclass(frozen=True)
class Run:
    """The rebuilt wheel and what it took."""

    wheel: Path
    steps: tuple[Step, ...]

    @property
    def seconds(self) -> float:
        return sum(step.seconds for step in self.steps)


def rebuild(wheel: Path, folder: Path, recipe: Path | None = None, quiet: bool = False) -> Run:
    """recover → stage-assets → build → repair → verify, all below ``folder``.

    Args:
        wheel: the published wheel.
        folder: an empty folder.
        recipe: a recipe file; the shipped one by default.
        quiet: do not show what the commands print.
    """
    chosen = [f"--recipe={recipe}"] if recipe else []
    inputs, payload, raw, dist = (folder / name for name in ("inputs", "payload", "raw", "dist"))
    steps = [_step("recover", [str(wheel), f"--out={inputs}"], quiet)]
    (module,) = inputs.glob("*.so")
    sources = [f"--snapshot-root={inputs / 'snapshot'}", f"--pool-root={inputs / 'pool'}"]
    sources += [f"--module={module}", f"--out={payload}", *chosen]
    steps.append(_step("stage-assets", sources, quiet))
    steps.append(_step("build", [f"--payload={payload}", f"--outdir={raw}"], quiet))
    (built,) = raw.glob("*.whl")
    steps.append(_step("repair", [str(built), f"--wheel-dir={dist}", *chosen], quiet))
    (repaired,) = dist.glob("*.whl")
    steps.append(_step("verify", [str(repaired), *chosen], quiet))
    return Run(repaired, tuple(steps))


def run_measured(command: list[str], quiet: bool) -> tuple[int, float, float]:
    """Exit code, wall seconds and peak MiB of a program (the largest of it and its children)."""
    started = time.perf_counter()
    actions = []
    if quiet:
        null = os.open(os.devnull, os.O_WRONLY)
        actions = [(os.POSIX_SPAWN_DUP2, null, stream) for stream in (1, 2)]
    pid = os.posix_spawn(command[0], command, os.environ, file_actions=actions)
    if quiet:
        os.close(null)
    _, status, usage = os.wait4(pid, 0)
    seconds = time.perf_counter() - started
    return os.waitstatus_to_exitcode(status), seconds, usage.ru_maxrss / 1024


def _step(command: str, arguments: list[str], quiet: bool) -> Step:
    sys.stdout.flush()
    if not quiet:
        shown = " ".join(argument.replace(f"{Path.cwd()}/", "") for argument in arguments)
        print(f"\n$ situ-release {command} {shown}", flush=True)
    program = [sys.executable, "-m", "situ_release", command, *arguments]
    code, seconds, peak = run_measured(program, quiet)
    if code:
        hint = f": {' '.join(program)}" if quiet else ""
        raise SystemExit(f"situ-release {command} failed with exit code {code}{hint}")
    return Step(command, seconds, peak)
