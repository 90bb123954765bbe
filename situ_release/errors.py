"""The error tree, which is the exit-code table.

Every expected failure is one of the classes below; its class decides the process's exit code and
its problems say what is wrong, where, what was expected, what was found and what to do.
Anything else that escapes a command is a bug (exit code 70).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong, in the words a maintainer can act on.

    Attributes:
        what: the fault, as a short clause ("digest differs from checksums.txt").
        where: the file, archive member or option it was seen in; "" only where there is none.
        expected: what would have been right; "" where that is the plain opposite of ``found``.
        found: what was there instead.
        remedy: what to do next.
    """

    what: str
    where: str = ""
    expected: str = ""
    found: str = ""
    remedy: str = ""

    def __str__(self) -> str:
        """One line: ``where: what: expected X, found Y; remedy``."""
        contrast = ", ".join(
            f"{label} {text}"
            for label, text in (("expected", self.expected), ("found", self.found))
            if text
        )
        head = ": ".join(part for part in (self.where, self.what, contrast) if part)
        return f"{head}; {self.remedy}" if self.remedy else head

    def as_dict(self) -> dict[str, str]:
        """The JSON form that every command prints on failure."""
        return asdict(self)


class SituReleaseError(Exception):
    """Base of every expected failure; carries one or more problems of one kind.

    Args:
        problems: what is wrong; all of one kind are collected before raising.
        log_tail: last lines of an external tool, shown below the problems.
    """

    exit_code: ClassVar[int] = 70

    def __init__(self, *problems: Problem, log_tail: str = "") -> None:
        if not problems:
            raise ValueError("an error needs at least one Problem")
        super().__init__(*problems)
        self.problems = problems
        self.log_tail = log_tail

    @classmethod
    def of(
        cls, what: str, where: object = "", expected: str = "", found: str = "", remedy: str = ""
    ) -> SituReleaseError:
        """An error with a single problem; ``where`` may be a path."""
        return cls(Problem(what, str(where), expected, found, remedy))

    def __str__(self) -> str:
        return "\n".join(str(problem) for problem in self.problems)


class UsageError(SituReleaseError):
    """The command line asks for something that makes no sense."""

    exit_code = 2


class InputError(SituReleaseError):
    """An input is missing, malformed or contradicts another input."""

    exit_code = 3


class HostError(SituReleaseError):
    """This host or device cannot do it; the problem says what is needed."""

    exit_code = 4


class ToolError(SituReleaseError):
    """An external tool failed; ``log_tail`` holds its last lines."""

    exit_code = 5


def raise_all(kind: type[SituReleaseError], problems: Iterable[Problem]) -> None:
    """Raise ``kind`` with every problem at once, or return when there is none."""
    found = tuple(problems)
    if found:
        raise kind(*found)
