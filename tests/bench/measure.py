"""Running programs, and saying how a figure stands to its goal."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from tests.pipeline import run_measured

ROUNDS = 5

Measured = tuple[float, float]
"""Wall seconds, and peak MiB."""


def best(work: Callable[[], Measured]) -> Measured:
    """The shortest time and the highest peak of some runs."""
    (result,) = in_turn(work)
    return result


def in_turn(*works: Callable[[], Measured]) -> list[Measured]:
    """:func:`best` of each, run by turns, so that what else the machine does slows all alike."""
    rounds = [[work() for work in works] for _ in range(ROUNDS)]
    columns = list(zip(*rounds, strict=True))
    return [(min(s for s, _ in column), max(p for _, p in column)) for column in columns]


def run(*command: object) -> Measured:
    """Run a program that must succeed, without showing what it prints."""
    code, seconds, peak = run_measured([str(word) for word in command], quiet=True)
    if code:
        raise SystemExit(f"{' '.join(map(str, command))} failed with {code}")
    return seconds, peak


def python(program: str, *arguments: object) -> Measured:
    """Run a Python program given as text."""
    return run(sys.executable, "-c", program, *arguments)


def situ(*arguments: object) -> Measured:
    """Run ``situ-release``."""
    return run(sys.executable, "-m", "situ_release", *arguments)


def goal(what: str, value: float, limit: float, unit: str = "s") -> None:
    """Show a figure that has a limit."""
    digits = 2 if unit == "s" else 0
    print(f"  {what:<56} {value:6.{digits}f} {unit:<3} (goal {limit:g}): {_verdict(value, limit)}")


def ratio(what: str, ours: float, plain: float, limit: float) -> None:
    """Show a time against that of plain tools for the same work."""
    print(f"  => {what}: {ours:.2f} s, ratio {ours / plain:.2f} (goal {limit}): ", end="")
    print(f"{_verdict(ours, limit * plain)}\n")


def fresh(folder: Path) -> Path:
    """The folder, made anew and empty."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def _verdict(value: float, limit: float) -> str:
    return "met" if value <= limit else "MISSED"
