"""``provenance.html`` in a real browser: nothing fails, nothing is asked for, people can use it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from situ_release.report.render import to_html
from tests.published import cache_folder
from tests.report.browser import Browser, Page, chromium, running
from tests.report.conftest import Bundle

pytestmark = [pytest.mark.browser, pytest.mark.slow]

AXE = "axe-core@4.14.1"
SIZES = {"desktop": (1280, 900), "phone": (390, 844)}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    program = chromium()
    if program is None:
        pytest.skip("no chromium on the PATH (Debian: apt install chromium)")
    with running(program) as started:
        yield started


@pytest.fixture(scope="module")
def html(sound: Bundle, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("html") / "provenance.html"
    path.write_text(to_html(sound.document()), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def axe() -> str:
    """The source of axe-core: out of the cache, or from the npm registry by its client."""
    kept = cache_folder() / "tools" / f"{AXE.replace('@', '-')}.min.js"
    if not kept.exists():
        npm = shutil.which("npm")
        if npm is None:
            pytest.skip("axe-core is not cached and there is no npm to fetch it")
        kept.parent.mkdir(parents=True, exist_ok=True)
        command = [npm, "pack", AXE, "--silent", "--pack-destination", str(kept.parent)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        if done.returncode:
            pytest.skip(f"cannot fetch {AXE}: {done.stderr.strip().splitlines()[-1:]}")
        archive = kept.parent / done.stdout.split()[-1]
        with tarfile.open(archive) as packed:
            source = packed.extractfile("package/axe.min.js")
            assert source is not None
            kept.write_bytes(source.read())
        archive.unlink()
    return kept.read_text(encoding="utf-8")


def opened(browser: Browser, html: Path, size: str, scheme: str = "light", **options: Any) -> Page:
    page = browser.page(**options)
    width, height = SIZES[size]
    page.resize(width, height, mobile=size == "phone")
    page.media(scheme=scheme)
    page.open(html)
    return page


@pytest.mark.parametrize("size", SIZES)
def test_no_error_and_no_request_leaves_the_file(browser: Browser, html: Path, size: str) -> None:
    page = opened(browser, html, size)
    page.run("window.scrollTo(0, document.body.scrollHeight)")
    assert page.messages == []
    assert page.requests == [html.resolve().as_uri()]


@pytest.mark.parametrize("size", SIZES)
def test_the_decision_is_in_the_first_screen(browser: Browser, html: Path, size: str) -> None:
    page = opened(browser, html, size)
    width, height = SIZES[size]
    box = page.run(
        "(() => { const r = document.querySelector('.points li').getBoundingClientRect();"
        " const h = document.getElementById('decision').getBoundingClientRect();"
        " return [h.top, h.bottom, r.top, r.right] })()"
    )
    top, bottom, first_point, right = box
    assert 0 <= top < bottom < height
    assert first_point < height
    assert right <= width
    assert page.run("document.documentElement.scrollWidth") <= width
    assert page.run("document.getElementById('decision').innerText").endswith(
        "Not cleared for publication"
    )


@pytest.mark.parametrize("size", SIZES)
def test_the_search_narrows_the_list(
    browser: Browser, html: Path, sound: Bundle, size: str
) -> None:
    page = opened(browser, html, size)
    entry = sound.read().manifest.cubins[3]

    def search(words: str) -> list[str]:
        page.run(
            "(() => { const i = document.querySelector('input[type=search]');"
            f" i.value = {json.dumps(words)}; i.dispatchEvent(new Event('input')) }})()"
        )
        rows = "[...document.querySelectorAll('#table-binaries tbody tr')]"
        return page.run(f"{rows}.filter((r) => !r.hidden).map((r) => r.cells[0].innerText)")

    assert len(search("")) == 9
    assert search(entry.sha256[5:40].upper()) == [entry.path]
    assert len(search("fc1_situ SM103A")) == 2
    assert search("no such kernel") == []
    assert page.run("document.querySelector('.found').innerText") == "0 of 9 rows"
    assert page.run("document.querySelector('.found').getAttribute('role')") == "status"


def test_without_javascript_everything_is_there(browser: Browser, html: Path) -> None:
    page = opened(browser, html, "desktop", javascript=False)
    snapshot = page.send("DOMSnapshot.captureSnapshot", computedStyles=[])
    assert sum(text.startswith("cubins/") for text in snapshot["strings"]) == 8
    document = page.send("DOM.getDocument", depth=0)["root"]["nodeId"]
    node = page.send("DOM.querySelector", nodeId=document, selector=".search")["nodeId"]
    attributes = page.send("DOM.getAttributes", nodeId=node)["attributes"]
    assert "hidden" in attributes  # a field that could do nothing is not offered


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_contrast_landmarks_and_names_pass_axe(
    browser: Browser, html: Path, axe: str, size: str, scheme: str
) -> None:
    page = opened(browser, html, size, scheme)
    page.run(f"{axe};0")
    result = json.loads(
        page.run(
            "axe.run(document).then((r) => JSON.stringify({passes: r.passes.map((p) => p.id),"
            " violations: r.violations.map((v) => [v.id, v.nodes.map((n) => n.html)]),"
            " incomplete: r.incomplete.map((v) => v.id)}))"
        )
    )
    assert result["violations"] == []
    assert {"color-contrast", "region", "landmark-one-main", "document-title"} <= set(
        result["passes"]
    )
    # A single character is too short for axe to judge its contrast.
    assert set(result["incomplete"]) <= {"color-contrast"}


def test_the_keyboard_reaches_decision_contents_and_search(browser: Browser, html: Path) -> None:
    page = opened(browser, html, "desktop")
    reached = []
    for _ in range(80):
        for kind in ("rawKeyDown", "keyUp"):
            page.send("Input.dispatchKeyEvent", type=kind, key="Tab", windowsVirtualKeyCode=9)
        reached.append(
            page.run("(document.activeElement.className || document.activeElement.tagName)")
        )
    assert reached[0] == "skip"
    assert "scroll" in reached  # wide tables can be scrolled without a mouse
    assert page.run("document.querySelector('nav').ariaLabel") == "Contents"


def test_prints_on_a4_with_every_row(browser: Browser, html: Path, tmp_path: Path) -> None:
    page = opened(browser, html, "desktop")
    page.run(
        "(() => { const i = document.querySelector('input[type=search]');"
        " i.value = 'nothing'; i.dispatchEvent(new Event('input')) })()"
    )
    page.media("print")
    rows = "[...document.querySelectorAll('#table-binaries tbody tr')]"
    shown = page.run(f"{rows}.filter((r) => getComputedStyle(r).display !== 'none').length")
    assert shown == 9
    assert page.run("getComputedStyle(document.querySelector('nav')).display") == "none"
    page.pdf(tmp_path / "page.pdf")
    data = (tmp_path / "page.pdf").read_bytes()
    boxes = set(re.findall(rb"/MediaBox \[([\d. ]+)\]", data))
    assert boxes
    for box in boxes:
        left, bottom, right, top = map(float, box.split())
        assert (round(right - left), round(top - bottom)) in {(595, 842), (594, 841), (595, 841)}
