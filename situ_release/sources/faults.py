"""Collecting the faults of a document: all are named, but a flood of them ends the reading."""

from __future__ import annotations

from dataclasses import dataclass, field

from situ_release.errors import InputError, Problem, raise_all

LIMIT = 100
"""Faults after which a document is given up: a megabyte of garbage is not read to its end."""


@dataclass(slots=True)
class Faults:
    """The problems of one document, in the order they were seen."""

    where: str
    problems: list[Problem] = field(default_factory=list)

    def add(self, problem: Problem) -> None:
        """Note a problem.

        Raises:
            InputError: it is the last of :data:`LIMIT`; a further problem says that reading ends.
        """
        self.problems.append(problem)
        if len(self.problems) == LIMIT:
            end = Problem(
                "too many faults",
                self.where,
                expected="a document that can be read",
                found=f"{LIMIT} faults, and the rest not read",
                remedy="replace the file rather than repair it",
            )
            raise InputError(*self.problems, end)

    def raise_any(self) -> None:
        """Raise every problem at once.

        Raises:
            InputError: there is at least one.
        """
        raise_all(InputError, self.problems)


def shown(text: str, limit: int = 300) -> str:
    """Input text as it may appear in a message: one line, printable, bounded."""
    head = text[:limit]
    printable = head if head.isprintable() else ascii(head)[1:-1]
    return f"{printable}…" if len(text) > limit else printable
