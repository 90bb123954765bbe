"""Checks of the file itself: the zip archive, its RECORD, its size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from situ_release.checks.context import Context
from situ_release.checks.model import Finding, fail, from_problem
from situ_release.text import size_text
from situ_release.wheel.archive import archive_faults
from situ_release.wheel.record import record_problems


def intact(context: Context) -> Iterator[Finding]:
    """The zip archive is sound and every member can be read."""
    faults = archive_faults(context.archive, context.scanned)
    for problem in faults:
        yield from_problem(replace(problem, where=problem.where or context.filename))
    if not faults and not context.scanned:
        yield fail(context.filename, "the archive is empty", expected="the files of a wheel")


def record(context: Context) -> Iterator[Finding]:
    """RECORD and the archive agree."""
    for problem in record_problems(context.contents, context.dist_info):
        yield from_problem(problem)


def size(context: Context) -> Iterator[Finding]:
    """The wheel is not larger than the index takes."""
    limit = context.recipe.wheel.size_limit_bytes
    found = context.archive.path.stat().st_size
    if found > limit:
        yield fail(
            context.filename,
            "the wheel is larger than the index takes",
            expected=f"at most {size_text(limit)}",
            found=size_text(found),
        )
