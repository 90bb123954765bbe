"""Two JSON documents compared key by key; entries of lists are matched by what names them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

_NAME_OF_ENTRY = re.compile(r"\[[^\]]*\]")
_NAMES = ("filename", "name", "path", "id", "target")
"""Keys that identify an entry of a list, the first that every entry has and none shares."""


@dataclass(frozen=True, slots=True)
class Change:
    """One key that differs.

    Attributes:
        key: its place, as ``cubins[Bmm_x.cubin].sha256``; "" for the document itself.
        change: what happened to it; ``reordered`` for a list of equal entries in another
            order, ``respelled`` for a document whose text differs and whose values do not.
        old: the old value; None where it was added.
        new: the new value; None where it was removed.
    """

    key: str
    change: Literal["added", "removed", "changed", "reordered", "respelled"]
    old: Any
    new: Any


def compare_documents(old: Any, new: Any, key: str = "") -> tuple[Change, ...]:
    """Every difference between two JSON values, in the old one's order.

    Args:
        old: a JSON value.
        new: another.
        key: where they stand, put before every key.
    """
    return tuple(_changes(old, new, key))


def without_names(key: str) -> str:
    """A key with the names in brackets left out: equal for equal keys of a list's entries."""
    return _NAME_OF_ENTRY.sub("[*]", key)


def _changes(old: Any, new: Any, key: str) -> Iterator[Change]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        yield from _keyed(old, new, lambda name: f"{key}.{name}" if key else str(name))
    elif _is_list(old) and _is_list(new):
        yield from _lists(old, new, key)
    elif type(old) is not type(new) or old != new:
        yield Change(key, "changed", old, new)


def _keyed(old: Mapping[Any, Any], new: Mapping[Any, Any], place: Any) -> Iterator[Change]:
    for name, value in old.items():
        if name in new:
            yield from _changes(value, new[name], place(name))
        else:
            yield Change(place(name), "removed", value, None)
    for name, value in new.items():
        if name not in old:
            yield Change(place(name), "added", None, value)


def _lists(old: Sequence[Any], new: Sequence[Any], key: str) -> Iterator[Change]:
    name = _naming_key(old, new)
    if name:
        before, after = ({entry[name]: entry for entry in side} for side in (old, new))
        found = list(_keyed(before, after, lambda entry: f"{key}[{entry}]"))
        yield from found
        if not found and list(before) != list(after):
            yield Change(key, "reordered", list(before), list(after))
    elif all(_is_scalar(entry) for entry in (*old, *new)):
        yield from _scalars(old, new, key)
    else:
        for index in range(max(len(old), len(new))):
            place = f"{key}[{index}]"
            if index >= len(new):
                yield Change(place, "removed", old[index], None)
            elif index >= len(old):
                yield Change(place, "added", None, new[index])
            else:
                yield from _changes(old[index], new[index], place)


def _scalars(old: Sequence[Any], new: Sequence[Any], key: str) -> Iterator[Change]:
    gone = [entry for entry in old if entry not in new]
    fresh = [entry for entry in new if entry not in old]
    if not gone and not fresh and list(old) != list(new):
        yield Change(key, "reordered", list(old), list(new))
    for entry in gone:
        yield Change(key, "removed", entry, None)
    for entry in fresh:
        yield Change(key, "added", None, entry)


def _naming_key(old: Sequence[Any], new: Sequence[Any]) -> str:
    if not all(isinstance(entry, Mapping) for entry in (*old, *new)) or not (old or new):
        return ""
    for name in _NAMES:
        values = [[entry.get(name) for entry in side] for side in (old, new)]
        if all(all(isinstance(v, str) for v in side) for side in values) and all(
            len(set(side)) == len(side) for side in values
        ):
            return name
    return ""


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple))


def _is_scalar(value: Any) -> bool:
    return value is None or isinstance(value, (str, int, float))
