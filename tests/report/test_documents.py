"""One document, three renderings: the decision, the sources, the schema, the same bytes again."""

from __future__ import annotations

import dataclasses
import html
import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from situ_release.checks.context import GateInputs
from situ_release.checks.registry import CHECKS, PUBLICATION_CHECKS
from situ_release.cli.schemas import schema
from situ_release.report.markdown import to_markdown
from situ_release.report.model import Document
from situ_release.report.render import to_html, to_json
from situ_release.report.write import write_report
from tests.checks.bundle import sound_wheel
from tests.report import given
from tests.report.conftest import Bundle
from tests.synth.wheel import PACKAGE, make_wheel, write_mini_recipe

DOCUMENTS = {
    "PROVENANCE.md",
    "RELEASE_NOTES.md",
    "SHA256SUMS",
    "provenance.html",
    "provenance.intoto.json",
    "provenance.json",
    "requirements.txt",
    "sbom.cdx.json",
}


@pytest.fixture(scope="module")
def document(sound: Bundle) -> Document:
    return sound.document()


def statements(value: Any) -> Iterator[tuple[dict[str, Any], str]]:
    """Every record with a source in the JSON, with what stands beside it."""
    if isinstance(value, dict):
        if isinstance(value.get("source"), dict):
            yield value, f"{value['source']['kind']}: {value['source']['ref']}"
        for item in value.values():
            yield from statements(item)
    elif isinstance(value, list):
        for item in value:
            yield from statements(item)


# --- the decision ------------------------------------------------------------------------------


def test_without_approvals_and_evidence_exactly_these_are_open(
    sound: Bundle, document: Document
) -> None:
    decision = document.decision
    assert not decision.cleared
    assert decision.headline == "Not cleared for publication"
    sources = [str(point.source) for point in decision.blocking]
    demanded = [f"approvals: {kind}" for kind in sound.recipe.publication.approvals]
    assert sources == [*demanded, "check: publication.evidence"]
    assert decision.attention == ()
    for point in decision.points:
        assert point.title
        assert point.who[0].isupper()
        assert point.action
        assert document.section(point.section)


def test_with_all_that_is_demanded_it_is_cleared(sound: Bundle, cleared: GateInputs) -> None:
    document = sound.document(cleared)
    assert document.decision.cleared
    assert document.decision.points == ()
    assert "Cleared for publication" in to_html(document)
    assert "NVIDIA B300" in document.section("validation").lead
    rows = document.section("approvals").blocks[0].rows  # type: ignore[union-attr]
    assert {row.cells["decision"] for row in rows} == {"approved"}


def test_any_changed_byte_voids_approvals_and_evidence(
    sound: Bundle, cleared: GateInputs, tmp_path: Path
) -> None:
    def reword(files: dict[str, bytes]) -> None:
        files[f"{PACKAGE}/licenses/FLASHINFER_NOTICE.txt"] += b" "

    changed = Bundle(sound_wheel(tmp_path / "wheel", edit=reword), sound.recipe_path)
    titles = [point.title for point in changed.document(cleared).decision.blocking]
    demanded = len(sound.recipe.publication.approvals)
    assert sum("does not count" in title for title in titles) == demanded
    assert sum("evidence is of another wheel" in title for title in titles) == 1
    assert len(titles) == demanded + 1


def test_evidence_of_another_file_is_open(sound: Bundle, cleared: GateInputs) -> None:
    other = given.evidence(sound.wheel, "5" * 64, sound.recipe)
    document = sound.document(dataclasses.replace(cleared, evidence=other))
    (point,) = document.decision.blocking
    assert "another wheel" in point.title
    assert document.section("validation").lead.startswith("Not validated")


def test_a_fault_blocks_and_a_warning_is_to_be_weighed(tmp_path: Path, sound: Bundle) -> None:
    published = Bundle(make_wheel(tmp_path), sound.recipe_path)
    decision = published.document().decision
    assert {str(point.source) for point in decision.attention} >= {"check: manifest.recipe"}
    faulty = Bundle(
        make_wheel(tmp_path, rpath="/home/someone/venv/lib"), sound.recipe_path
    ).document()
    assert "check: runner.rpath" in {str(point.source) for point in faulty.decision.blocking}


# --- sources -----------------------------------------------------------------------------------


def test_every_statement_has_a_source_that_exists(document: Document) -> None:
    tree = json.loads(to_json(document))
    found = list(statements(tree))
    assert len(found) > 50
    checks = {check.id for check in (*CHECKS, *PUBLICATION_CHECKS)} | {"all"}
    for record, source in found:
        kind, _, ref = source.partition(": ")
        assert ref, record
        if kind == "check":
            assert ref in checks, record


def test_keys_and_anchors_are_unique(document: Document) -> None:
    page = to_html(document)
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    targets = set(re.findall(r'href="#([^"]+)"', page))
    assert targets <= set(ids)
    keys = [
        fact.key
        for section in document.sections
        for block in section.blocks
        if block.kind == "facts"
        for fact in block.items
    ]
    assert len(keys) == len(set(keys))


# --- renderings --------------------------------------------------------------------------------


def test_json_fits_its_shipped_schema(document: Document) -> None:
    Draft202012Validator(schema("provenance")).validate(json.loads(to_json(document)))


def test_all_renderings_say_the_same(sound: Bundle, cleared: GateInputs) -> None:
    document = sound.document(cleared)
    page = html.unescape(re.sub(r"<[^>]+>", " ", to_html(document)))
    text = re.sub(r"\\([^A-Za-z0-9\s])", r"\1", to_markdown(document))
    page, text = " ".join(page.split()), " ".join(text.split())
    for section in document.sections:
        for shown in (page, text):
            assert section.title in shown
            assert section.lead in shown
        for block in section.blocks:
            if block.kind != "table":
                continue
            for row in block.rows:
                for value in row.cells.values():
                    if isinstance(value, str) and "`" not in value:
                        assert " ".join(value.split()) in page, value
                        assert " ".join(value.split()) in text, value


def test_blanks_are_shown_as_blanks(tmp_path: Path) -> None:
    folder = tmp_path / "recipe"
    folder.mkdir()
    bundle = Bundle(make_wheel(tmp_path / "wheel"), write_mini_recipe(folder))
    document = bundle.document()
    export = document.section("export")
    assert export.lead.startswith("Nobody has stated anything yet")
    assert {fact.value for fact in export.blocks[0].items} == {None}  # type: ignore[union-attr]
    section = re.search(
        r'<section class="chapter" id="export".*?</section>', to_html(document), re.DOTALL
    )
    assert section
    assert section.group().count('<span class="blank">not stated</span>') == 4
    assert to_markdown(document).count("*not stated*") >= 5  # and the runner's licence


def test_the_page_asks_nothing_of_anybody(document: Document) -> None:
    page = to_html(document)
    assert "default-src 'none'" in page
    for attribute in re.findall(r'\b(?:src|href|action|data|poster)="([^"]*)"', page):
        assert attribute.startswith("#"), attribute
    assert "url(" not in page
    assert "@import" not in page
    assert " style=" not in page
    assert not re.search(r"\son\w+=", page)


# --- files -------------------------------------------------------------------------------------


def test_the_documents_and_their_sums(sound: Bundle, tmp_path: Path) -> None:
    report = write_report(sound.read(), tmp_path / "out")
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == DOCUMENTS | {".situ-release.json"}
    assert {file.name for file in report.files} == DOCUMENTS
    (tmp_path / "out" / sound.wheel.name).write_bytes(sound.wheel.read_bytes())
    command = ["sha256sum", "--check", "--strict", "SHA256SUMS"]
    done = subprocess.run(
        command, cwd=tmp_path / "out", capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(": OK") == len(DOCUMENTS)


def test_the_bill_is_the_wheels_own_bytes(sound: Bundle, tmp_path: Path) -> None:
    write_report(sound.read(), tmp_path / "out")
    with zipfile.ZipFile(sound.wheel) as archive:
        (member,) = [name for name in archive.namelist() if name.endswith(".cdx.json")]
        assert archive.read(member) == (tmp_path / "out" / "sbom.cdx.json").read_bytes()


def test_a_bill_made_for_the_report_says_so(sound: Bundle, tmp_path: Path) -> None:
    published = Bundle(make_wheel(tmp_path / "wheel"), sound.recipe_path)
    report = write_report(published.read(), tmp_path / "out")
    assert not report.sbom_in_wheel
    bill = json.loads((tmp_path / "out" / "sbom.cdx.json").read_text())
    notes = [p["value"] for p in bill["metadata"]["properties"] if p["name"].endswith(":note")]
    assert notes == ["made by the report from manifest and recipe; the wheel carries none"]
    assert "carries no bill of materials" in (tmp_path / "out" / "PROVENANCE.md").read_text()


def test_reproducible_wherever_and_whenever(sound: Bundle, tmp_path: Path) -> None:
    """Another folder, umask, time zone, hash seed and user: the same bytes."""
    runs = []
    for number, environment in enumerate(
        ({"TZ": "UTC", "PYTHONHASHSEED": "1"}, {"TZ": "Asia/Tokyo", "PYTHONHASHSEED": "2"})
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        wheel = folder / sound.wheel.name
        wheel.write_bytes(sound.wheel.read_bytes())
        command = [sys.executable, "-m", "situ_release", "report", wheel.name, "--out", "out"]
        command += ["--recipe", str(sound.recipe_path)]
        variables = {
            "SOURCE_DATE_EPOCH": "1785500000",
            "USER": f"user{number}",
            "HOME": str(folder),
        }
        done = subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, **variables, **environment},
            umask=0o077 if number else 0o022,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        runs.append({path.name: path.read_bytes() for path in (folder / "out").iterdir()})
    assert runs[0] == runs[1]
    for data in runs[1].values():
        assert b"user1" not in data
        assert str(tmp_path).encode() not in data
