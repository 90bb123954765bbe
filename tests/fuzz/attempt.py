"""The rule: an answer, or an error of the tree that says enough."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from situ_release.errors import SituReleaseError

T = TypeVar("T")


def answer(call: Callable[[], T]) -> T | None:
    """What the call returns, None where it refuses; any other exception goes through."""
    try:
        return call()
    except SituReleaseError as error:
        refusal = error
    for problem in refusal.problems:
        assert problem.what
        assert problem.where
        assert problem.expected
        assert problem.found
        assert problem.remedy
    assert len(str(refusal)) < 1 << 20, "a message of megabytes"
    return None
