"""What approvals say of a wheel, as the report needs it.

The kinds that exist, who gives them, and what to do for one are texts in
``data/report/texts.toml``. Without approvals every demanded kind is missing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Literal

from situ_release import resources, toml

ApprovalDecision = Literal["approved", "conditional", "rejected", "invalid", "missing"]


@dataclass(frozen=True, slots=True)
class ApprovalText:
    """What people read about a kind of approval: its subject, who gives it, what to do."""

    title: str
    who: str
    action: str


@dataclass(frozen=True, slots=True)
class ApprovalState:
    """One demanded approval as it stands for this very wheel.

    Attributes:
        kind: ``export-control``.
        decision: what the reviewer decided; ``invalid`` where it does not hold for this wheel (a
            wrong signature, another digest, expired), ``missing`` where there is none.
        satisfied: whether it stands no longer against publication.
        text: the reviewer's words, or why it is invalid.
    """

    kind: str
    decision: ApprovalDecision
    satisfied: bool = False
    reviewer: str = ""
    date: str = ""
    reference: str = ""
    text: str = ""


@cache
def texts() -> dict[str, dict[str, dict[str, str]]]:
    """``data/report/texts.toml``."""
    document: dict[str, dict[str, dict[str, str]]]
    _, document = toml.load(resources.DATA / "report" / "texts.toml", "file of report texts")
    return document


def approval_text(kind: str) -> ApprovalText:
    """The texts of a kind; a kind without any is shown by its name."""
    found = texts()["approvals"].get(kind)
    if found is None:
        return ApprovalText(f"approval {kind}", "the reviewer named by the recipe", "record it")
    return ApprovalText(found["title"], found["who"], found["action"])


def approval_kinds() -> tuple[str, ...]:
    """Every kind that the texts know, in their order."""
    return tuple(texts()["approvals"])


def missing_approvals(kinds: Iterable[str]) -> tuple[ApprovalState, ...]:
    """The state without any approvals."""
    return tuple(ApprovalState(kind, "missing") for kind in kinds)


def actor(check_id: str) -> str:
    """Who has to act on a finding of a check: the longest beginning of its id decides."""
    actors = texts()["actors"]["by_check"]
    fitting = [prefix for prefix in actors if check_id.startswith(prefix)]
    return actors[max(fitting, key=len)] if fitting else actors[""]
