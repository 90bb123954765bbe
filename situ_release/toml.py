"""TOML documents, read strictly and on every supported Python."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from situ_release.errors import InputError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def load(path: Path, document: str) -> tuple[bytes, dict[str, Any]]:
    """A TOML file's bytes and what they say.

    Args:
        path: the file.
        document: what it is ("recipe"), used in errors.

    Raises:
        InputError: unreadable, not UTF-8, or not TOML.
    """
    try:
        data = path.read_bytes()
        return data, tomllib.loads(data.decode("utf-8"))
    except OSError as error:
        raise InputError.of(
            f"cannot read the {document}",
            path,
            expected="a readable TOML file",
            found=error.strerror or str(error),
            remedy="check the path",
        ) from error
    except (ValueError, RecursionError) as error:
        raise InputError.of(
            f"the {document} is not valid TOML",
            path,
            expected="UTF-8 TOML",
            found=str(error) or type(error).__name__,
            remedy="correct the file",
        ) from error
