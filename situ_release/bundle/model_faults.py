"""What is wrong with a document that does not fit its closed model, as problems."""

from __future__ import annotations

from pydantic import ValidationError

from situ_release.errors import Problem
from situ_release.text import printable


def validation_problems(error: ValidationError, where: str, document: str) -> list[Problem]:
    """Every fault of a closed model, each naming the key."""
    problems = []
    for item in error.errors(include_url=False):
        key = printable(".".join(str(part) for part in item["loc"])) or "(document)"
        extra = item["type"] == "extra_forbidden"
        problems.append(
            Problem(
                what=f"unknown key {key}" if extra else f"key {key} is wrong",
                where=where,
                expected=f"a key of the {document} schema" if extra else item["msg"],
                found=repr(item["input"])[:120],
                remedy="remove or correct the key"
                if extra
                else f"correct the value (see the {document} schema)",
            )
        )
    return problems
