"""Pages become lines that fit, say what they leave out, and send nothing to the terminal."""

from __future__ import annotations

import re

import pytest

from situ_release.inspection.pages.page import Note, fields, items, page, section, table
from tests.inspection.golden import render

NAME = "bmm_" + "_".join(f"token{number}" for number in range(30))


def test_empty_parts_are_left_out() -> None:
    shown = render(page("Title", section("Nothing", table(("a",), ()), items(())), None))
    assert shown == "Title\n"


def test_fields_are_aligned_and_wrapped() -> None:
    shown = render(page("T", section("", fields(("name", NAME), ("none", None), ("n", 12345)))))
    lines = shown.splitlines()
    assert lines[2].startswith("  name          bmm_token0_")
    assert lines[3].startswith(" " * 16 + "token")
    assert "".join(line[16:] for line in lines[2:-1]) == NAME
    assert lines[-1] == "  n             12,345"


def test_a_digest_is_never_broken() -> None:
    digest = "ab" * 32
    shown = render(page("T", section("", fields(("a_label_that_is_quite_long", digest)))))
    assert digest in shown.splitlines()[3]


def test_long_lists_say_what_they_leave_out() -> None:
    entries = [f"entry {number}" for number in range(1500)]
    rows = [(entry, 1) for entry in entries]
    content = page("T", section("S", items(entries, 3), table(("a", "b"), rows, 2)))
    short, full = render(content), render(content, everything=True)
    assert "… and 1,497 more (--json or -v shows all)" in short
    assert "… and 1,498 more (--json or -v shows all)" in short
    assert "entry 3\n" not in short
    assert "more" not in full
    assert full.count("entry 1499") == 2


def test_tables_fit_and_numbers_are_aligned_right() -> None:
    content = page("T", section("S", table(("name", "count"), ((NAME, 7), ("short", 12345)))))
    header, first, second = render(content).splitlines()[3:]
    assert max(map(len, (header, first, second))) == 80
    assert first.startswith("  bmm_token0")
    assert "…" in first
    assert first.endswith("       7")
    assert second.endswith("  12,345")
    assert NAME in render(content, everything=True)


@pytest.mark.parametrize("width", [1, 40, 80, 200])
def test_every_width_works(width: int) -> None:
    content = page(
        NAME,
        section(NAME, fields(("x", NAME)), items([NAME]), Note("warn", f"{NAME} {NAME}")),
        section("S", table(("a", "b", "c"), ((NAME, NAME, 1),))),
    )
    widest = max(map(len, render(content, width=width).splitlines()))
    assert widest <= max(width, 40) + 32


def test_nothing_unprintable_leaves_a_page() -> None:
    evil = "a\x1b[2Jb\r\u202ec\nd\x00e\x9b"
    content = page(
        evil,
        section(evil, fields((evil, evil)), items([evil]), Note("note", evil)),
        section("S", table((evil,), ((evil,),)), items([evil], fit="keep")),
    )
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", render(content))
    assert render(content).count("\\x1b") == 9
