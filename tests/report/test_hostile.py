"""Whatever stands in an input, it is shown, never obeyed."""

from __future__ import annotations

import dataclasses
import html
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from situ_release.report.document import make_document
from situ_release.report.markdown import code, escaped, to_markdown
from situ_release.report.notes import release_notes
from situ_release.report.render import prose, to_html, to_json
from situ_release.report.sanitize import clean_text, cleaned, relative_paths
from situ_release.report.statement import statement
from tests.checks.bundle import add_sbom, both, sound
from tests.report import given
from tests.report.conftest import Bundle
from tests.synth.wheel import DIST_INFO, PACKAGE, edit_manifest, make_wheel

MARKDOWN_ELEMENTS = {
    *("h1", "h2", "h3", "p", "em", "strong", "code", "pre", "ul", "ol", "li", "blockquote"),
    *("table", "thead", "tbody", "tr", "th", "td"),
}
SCRIPT = "<script>alert(1)</script>"
ATTRIBUTE = '" onmouseover="alert(2)'
IMAGE = "![x](https://evil.example/p.png)"
LINK = "[click](javascript:alert(3))"
ESCAPE = "\x1b]0;owned\x07\x1b[2J"
REORDER = "\u202egnp.exe"
HOSTILE = f"{SCRIPT}{ATTRIBUTE}{IMAGE}{LINK}`|{REORDER}</style></script><!--"
# What a closed document lets in; control characters are refused there.
IN_MANIFEST = HOSTILE


def poison(document: dict[str, Any]) -> None:
    """Every free text of the manifest."""
    document["package_version"] = HOSTILE
    document["limitations"] = [HOSTILE, "`" * 5, "| a | b |", "# heading", "* * *"]
    document["artifact_kind"] = HOSTILE
    document["generated_at"] = "2026-07-26T10:22:01+00:00"
    document["source_provenance"]["flashinfer_version"] = HOSTILE + ESCAPE
    document["source_provenance"]["flashinfer_branch"] = HOSTILE
    document["source_provenance"]["private_pool_name"] = "/home/alice/pool/x" + HOSTILE
    document["runner"]["source_module_name"] = HOSTILE
    document["runner"]["build_mode"] = HOSTILE
    for entry in document["cubins"]:
        entry["role"] = HOSTILE
        entry["toolchain"] = {"producer": HOSTILE, "version": HOSTILE, "options": HOSTILE + ESCAPE}


def hostile_files(files: dict[str, bytes]) -> None:
    files[f"{PACKAGE}/licenses/{SCRIPT.replace('/', '')}.txt"] = HOSTILE.encode()
    files[f"{PACKAGE}/licenses/FLASHINFER_NOTICE.txt"] = (HOSTILE + ESCAPE).encode()
    metadata = f"{DIST_INFO}/METADATA"
    files[metadata] = files[metadata].replace(b"Summary: ", b"Summary: " + SCRIPT.encode())


@pytest.fixture(scope="module")
def poisoned(sound_recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    edit = both(both(both(sound, edit_manifest(poison)), hostile_files), add_sbom)
    return Bundle(
        make_wheel(tmp_path_factory.mktemp("hostile"), style="ours", edit=edit), sound_recipe
    )


@pytest.fixture(scope="module")
def sound_recipe(sound: Bundle) -> Path:
    return sound.recipe_path


class Elements(HTMLParser):
    """Names and attributes of all elements of a page, as a browser would see them."""

    def __init__(self) -> None:
        super().__init__()
        self.names: dict[str, int] = {}
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names[tag] = self.names.get(tag, 0) + 1
        self.attributes.update(name for name, _ in attrs)


def test_nothing_becomes_markup(poisoned: Bundle, sound: Bundle) -> None:
    page = to_html(poisoned.document())
    found = Elements()
    found.feed(page)
    assert found.names["script"] == found.names["style"] == 1
    assert "img" not in found.names
    assert not {name for name in found.attributes if name.startswith("on")}
    assert "<!--" not in page
    assert html.escape(SCRIPT, quote=False) in page.replace("&#34;", '"')


def test_nothing_becomes_markdown(poisoned: Bundle) -> None:
    """A reader that even runs HTML inside Markdown sees nothing but text."""
    subject = poisoned.read()
    document = make_document(subject)
    reader = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    for text in (to_markdown(document), release_notes(subject, document.decision)):
        page = reader.render(text)
        found = Elements()
        found.feed(page)
        assert set(found.names) <= MARKDOWN_ELEMENTS
        assert found.attributes <= {"start"}
        assert html.escape(SCRIPT) in page


def test_no_control_character_reaches_a_document(poisoned: Bundle) -> None:
    subject = poisoned.read()
    document = make_document(subject)
    for text in (
        to_html(document),
        to_json(document),
        to_markdown(document),
        release_notes(subject, document.decision),
        statement(subject),
    ):
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]", text)
        assert "alice" not in text
        assert r"\x1b" in text or "options" not in text


def test_words_of_evidence_are_shown_too(sound: Bundle) -> None:
    taken = given.evidence(sound.wheel, sound.sha256, sound.recipe)
    host = taken.host
    assert host is not None
    named = host.devices[0].model_copy(update={"name": HOSTILE})
    hostile = taken.model_copy(update={"host": host.model_copy(update={"devices": [named]})})
    document = sound.document(dataclasses.replace(given.NOTHING, evidence=hostile))
    found = Elements()
    found.feed(to_html(document))
    assert found.names["script"] == 1
    assert "img" not in found.names


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/home/alice/work/x/y.h", "<home>/work/x/y.h"),
        ("/home/<user>/work/x.h, /home/<user>/b/c.cu", "<home>/work/x.h, <home>/b/c.cu"),
        ("at /tmp/build-123/x.cpp:4", "at <build>/tmp/build-123/x.cpp:4"),
        ("/root/a/b", "<build>/root/a/b"),
        ("/usr/lib/x/y.so", "/usr/lib/x/y.so"),
        (
            "https://github.com/lightseekorg/tokenspeed",
            "https://github.com/lightseekorg/tokenspeed",
        ),
        ("kernel/test/ops/x.py", "kernel/test/ops/x.py"),
        ("/home/alice/a and alice again", "<home>/a and alice again"),
    ],
)
def test_paths_lose_what_tells_of_the_build(text: str, shown: str) -> None:
    assert relative_paths(text) == shown


def test_cleaning_reaches_every_text() -> None:
    assert clean_text("a\nb\x1b[0m") == r"a\nb\x1b[0m"
    nested = cleaned({"key": ("\u202e", {"x": "\x07"}), "n": 3, "none": None})
    assert nested == {"key": (r"\u202e", {"x": r"\x07"}), "n": 3, "none": None}


@pytest.mark.parametrize("text", ["a`b", "``", "`", "x ``` y", "``a`", "plain"])
def test_code_spans_hold_any_backticks(text: str) -> None:
    span = code(text)
    fence = re.match("`+", span)
    assert fence
    inner = span[len(fence.group()) : -len(fence.group())]
    assert span.endswith(fence.group())
    assert fence.group() not in re.findall("`+", inner)
    assert inner.strip() == text


def test_markdown_shows_what_it_is_given() -> None:
    assert escaped("1. a *b* _c_ <d> [e](f) | g") == r"1\. a \*b\* \_c\_ \<d\> \[e\](f) \| g"
    assert escaped("# x") == r"\# x"
    assert escaped("- x") == r"\- x"
    assert escaped("line\n# next") == r"line # next"
    assert escaped("tokenspeed-situ 0.1.0") == "tokenspeed-situ 0.1.0"


def test_prose_sets_code_and_escapes_all() -> None:
    assert prose("run `a <b>` & c") == "run <code>a &lt;b&gt;</code> &amp; c"
    assert prose("one ` <i>") == "one ` &lt;i&gt;"
