"""Text from untrusted files, made safe to show."""

from __future__ import annotations

import unicodedata


def printable(text: str, *, keep_newlines: bool = False) -> str:
    r"""``text`` with every control, format and surrogate character spelled as an escape.

    Names, options and texts come out of wheels and cubins; shown raw they could move the cursor,
    reorder a line or end it. Tabs become a space.
    """
    shown = []
    for char in text:
        if char == "\t":
            shown.append(" ")
        elif (char == "\n" and keep_newlines) or not unicodedata.category(char).startswith(
            ("C", "Zl", "Zp")
        ):
            shown.append(char)
        else:
            shown.append(char.encode("unicode_escape", "backslashreplace").decode("ascii"))
    return "".join(shown)


def size_text(count: int) -> str:
    """A byte count for people: ``8,985,891 bytes``."""
    return f"{count:,} bytes"
