"""Two text files compared line by line."""

from __future__ import annotations

import difflib

LONGEST = 20_000
"""Lines beyond which a comparison line by line is not tried: it may take quadratic time."""


def as_text(data: bytes) -> str | None:
    """``data`` as text; None where it is none."""
    if b"\0" in data:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def unified_diff(old: str, new: str) -> tuple[str, ...] | None:
    """The lines of a unified diff, file names left out; None where one text is too long."""
    before, after = old.splitlines(), new.splitlines()
    if max(len(before), len(after)) > LONGEST:
        return None
    lines = difflib.unified_diff(before, after, lineterm="", n=2)
    return tuple(lines)[2:]
