"""Canonical JSON: one spelling for one value, so that equal content has equal bytes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from situ_release.errors import InputError
from situ_release.reading import read_regular

MAX_BYTES = 256 << 20
"""Larger documents are not read."""

MAX_DEPTH = 64
"""Most levels of nesting of a document: eight times what the deepest one that is written has."""


def dumps(value: Any) -> str:
    """Sorted keys, two-space indent, no NaN, one newline at the end."""
    return json.dumps(value, sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def loads(text: str | bytes, where: str) -> Any:
    """Parse JSON strictly: duplicate keys, NaN and infinities are refused.

    Args:
        text: the document (bytes are decoded as UTF-8).
        where: the name used in errors.

    Raises:
        InputError: not UTF-8, not JSON, nested too deeply, or a duplicate key.
    """

    def no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(pairs)
        if len(result) != len(pairs):
            keys = [key for key, _ in pairs]
            twice = sorted({key for key in keys if keys.count(key) > 1})
            raise ValueError(f"duplicate keys {twice}")
        return result

    def no_constant(name: str) -> Any:
        raise ValueError(f"{name} is not JSON")

    try:
        if isinstance(text, bytes):
            text = text.decode("utf-8")
        value = json.loads(text, object_pairs_hook=no_duplicates, parse_constant=no_constant)
        check_depth(value)
        return value
    except (ValueError, RecursionError) as error:
        raise InputError.of(
            "not a valid JSON document",
            where,
            expected=f"UTF-8 JSON without duplicate keys, at most {MAX_DEPTH} levels deep",
            found=str(error) or type(error).__name__,
            remedy="restore the file from the tool that wrote it",
        ) from error


def check_depth(value: Any) -> None:
    """Refuse a parsed document that is nested too deeply to be walked by recursion.

    Raises:
        ValueError: it has more than :data:`MAX_DEPTH` levels.
    """
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [
            inner
            for outer in level
            if isinstance(outer, (dict, list))
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return
    raise ValueError(f"nested more than {MAX_DEPTH} levels deep")


def load(path: Path) -> Any:
    """:func:`loads` for a file; one that is missing, unreadable or too large is an InputError."""
    return loads(read_regular(path, "JSON document", MAX_BYTES), str(path))
