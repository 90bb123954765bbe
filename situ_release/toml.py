"""TOML documents, read strictly and on every supported Python."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from situ_release.canonical import check_depth
from situ_release.errors import InputError
from situ_release.reading import read_regular

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MAX_BYTES = 1 << 20
"""Larger documents are refused; the largest real one, a recipe, has 12 KB."""


def load(path: Path, document: str) -> tuple[bytes, dict[str, Any]]:
    """A TOML file's bytes and what they say.

    Args:
        path: the file.
        document: what it is ("recipe"), used in errors.

    Raises:
        InputError: unreadable, not UTF-8, or not TOML.
    """
    try:
        data = read_regular(path, document, MAX_BYTES)
        value = tomllib.loads(data.decode("utf-8"))
        check_depth(value)
        return data, value
    except (ValueError, RecursionError) as error:
        raise InputError.of(
            f"the {document} is not valid TOML",
            path,
            expected="UTF-8 TOML",
            found=str(error) or type(error).__name__,
            remedy="correct the file",
        ) from error
