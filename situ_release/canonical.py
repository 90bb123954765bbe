"""Canonical JSON: one spelling for one value, so that equal content has equal bytes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from situ_release.errors import InputError
from situ_release.reading import read_regular

MAX_BYTES = 256 << 20
"""Larger documents are not read."""


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
        return json.loads(text, object_pairs_hook=no_duplicates, parse_constant=no_constant)
    except (ValueError, RecursionError) as error:
        raise InputError.of(
            "not a valid JSON document",
            where,
            expected="UTF-8 JSON without duplicate keys",
            found=str(error) or type(error).__name__,
            remedy="restore the file from the tool that wrote it",
        ) from error


def load(path: Path) -> Any:
    """:func:`loads` for a file; one that is missing, unreadable or too large is an InputError."""
    return loads(read_regular(path, "JSON document", MAX_BYTES), str(path))
