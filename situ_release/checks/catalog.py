"""The texts about checks: title, usual causes and remedy by id, from ``data/checks.toml``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from situ_release import resources, toml


@dataclass(frozen=True, slots=True)
class CheckText:
    """What people read about a check.

    Attributes:
        title: the statement that holds when the check passes.
        causes: what usually makes it fail.
        remedy: what to do where a finding names nothing more particular.
        who: who must act, likewise.
    """

    title: str
    causes: tuple[str, ...]
    remedy: str
    who: str


@cache
def catalog() -> dict[str, CheckText]:
    """The texts by check id, in report order."""
    _, texts = toml.load(resources.DATA / "checks.toml", "file of check texts")
    return {
        check_id: CheckText(entry["title"], tuple(entry["causes"]), entry["remedy"], entry["who"])
        for check_id, entry in texts.items()
    }


def markdown() -> str:
    """The documentation of the checks, a section for each, in report order."""
    lines = []
    for check_id, text in catalog().items():
        lines += [f"## {check_id}", "", f"{text.title}.", "", "Usual causes:", ""]
        lines += [f"- {cause}" for cause in text.causes]
        lines += ["", f"What to do ({text.who}): {text.remedy}.", ""]
    return "\n".join(lines)
