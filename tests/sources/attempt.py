"""For properties over arbitrary input: a call either answers or refuses with an InputError."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from situ_release.errors import InputError

T = TypeVar("T")


def attempt(call: Callable[[], T]) -> tuple[T | None, InputError | None]:
    """The answer and None, or None and the refusal; any other exception fails the test."""
    try:
        return call(), None
    except InputError as refusal:
        return None, refusal


def is_complete(refusal: InputError) -> bool:
    """Whether every problem says where, what was expected, what was found and what to do."""
    return all(
        each.what and each.where and each.expected and each.found and each.remedy
        for each in refusal.problems
    )
