"""Texts of other people's files, made fit for a document that leaves the house.

Control and direction characters are spelled out, and absolute paths lose what tells where and by
whom something was built.
"""

from __future__ import annotations

import re
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar, cast

from situ_release.sources.embedded_paths import find_paths, mask_paths
from situ_release.text import printable

_MASKED_HOME = re.compile(r"/(?:home|Users|export/home|data/home|nfs/home|mnt/home)/<user>")
# While paths are looked for, a home that was replaced must not look like the end of a word.
_STANDS_FOR_HOME = "~home~"
_HOME = "<home>"
_ELSEWHERE = "<build>"

Record = TypeVar("Record")


def cleaned(record: Record) -> Record:
    """A tree of records, tuples and mappings with :func:`clean_text` applied to all texts."""
    return cast("Record", _cleaned(record))


def clean_text(text: str) -> str:
    """A text without control characters and absolute paths; a line stays a line."""
    return relative_paths(printable(text))


def relative_paths(text: str) -> str:
    """``/home/someone/x/y.h`` as ``<home>/x/y.h``, any other absolute path as ``<build>/x/y.h``.

    System folders (``/usr``) tell nothing and stay.
    """
    if "/" not in text:
        return text
    text = _MASKED_HOME.sub(_STANDS_FOR_HOME, text)
    paths = find_paths([text.encode("utf-8", "replace")])
    # Longest first: one path may begin with another.
    for path, masked in sorted(
        zip(paths, mask_paths(paths), strict=True), key=lambda pair: -len(pair[0])
    ):
        home = _MASKED_HOME.match(masked)
        shown = f"{_STANDS_FOR_HOME}{masked[home.end() :]}" if home else f"{_ELSEWHERE}{masked}"
        text = text.replace(path, shown)
    return text.replace(_STANDS_FOR_HOME, _HOME)


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, tuple):
        return tuple(_cleaned(item) for item in value)
    if isinstance(value, dict):
        return {key: _cleaned(item) for key, item in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return type(value)(
            **{field.name: _cleaned(getattr(value, field.name)) for field in fields(value)}
        )
    return value
