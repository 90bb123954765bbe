"""Collecting the faults of a document: all are named, a flood of them is cut short."""

from __future__ import annotations

from dataclasses import dataclass, field

from situ_release.errors import InputError, Problem, raise_all

LIMIT = 100
"""Problems listed per document; a megabyte of garbage does not become a megabyte of messages."""


@dataclass(slots=True)
class Faults:
    """The problems of one document, in the order they were seen."""

    where: str
    problems: list[Problem] = field(default_factory=list)
    unlisted: int = 0

    def add(self, problem: Problem) -> None:
        """Note a problem; beyond :data:`LIMIT` only count it."""
        if len(self.problems) < LIMIT:
            self.problems.append(problem)
        else:
            self.unlisted += 1

    def raise_any(self) -> None:
        """Raise every problem at once.

        Raises:
            InputError: there is at least one.
        """
        if self.unlisted:
            self.problems.append(
                Problem(
                    "more faults of this kind",
                    self.where,
                    expected="none",
                    found=f"{self.unlisted} beyond the {LIMIT} listed",
                    remedy="repair those above first",
                )
            )
        raise_all(InputError, self.problems)


def shown(text: str, limit: int = 300) -> str:
    """Input text as it may appear in a message: one line, printable, bounded."""
    head = text[:limit]
    printable = head if head.isprintable() else ascii(head)[1:-1]
    return f"{printable}…" if len(text) > limit else printable
