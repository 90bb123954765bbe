"""What GitHub Actions shows, and what a hostile wheel cannot make it do."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from situ_release.checks.model import CheckResult, Finding, Unchecked, VerifyReport, WheelFacts
from situ_release.cli.github import annotation_lines, inert, inert_json, summary
from tests.checks.breakages import put
from tests.checks.bundle import PACKAGE, sound_wheel, write_recipe
from tests.cli.run import situ

COMMAND = re.compile(r"^\s*::(?P<name>[a-z-]+)(?: (?P<properties>[^:]*))?::(?P<data>.*)$")
HOSTILE = "::stop-commands::x\n::error::y % , : ##[add-mask]z \x1b[31m | `<b>` @user [a](b) $x$ *_~"


def report_of(*findings: Finding, stopped: bool = False) -> VerifyReport:
    reason = Unchecked("cubin.format", "x") if stopped else None
    check = CheckResult.of("cubin.arch", findings, reason)
    return VerifyReport(WheelFacts("a.whl", 1234, "0" * 64), None, False, (check,))


def parsed(line: str) -> tuple[str, dict[str, str], str]:
    """As the runner parses a line: name, properties, data, each unescaped."""

    def unescaped(text: str) -> str:
        for code, char in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
            text = text.replace(code, char)
        return text

    match = COMMAND.match(line)
    assert match, line
    pairs = (pair.split("=", 1) for pair in match["properties"].split(","))
    properties = {name: unescaped(value) for name, value in pairs}
    return match["name"], properties, unescaped(match["data"])


def test_every_fault_and_warning_is_annotated() -> None:
    report = report_of(
        Finding("fail", "a.so", "bad", "mend it", "maintainer"),
        Finding("warn", "b.so", "odd", "look", "reviewer"),
        Finding("note", "c.so", "fine"),
        stopped=True,
    )
    lines = [parsed(line) for line in annotation_lines(report, Path("dist/a.whl"))]
    where = {"file": "dist/a.whl", "title": "cubin.arch"}
    assert lines[:2] == [
        ("error", where, "a.so: bad -> maintainer: mend it"),
        ("warning", where, "b.so: odd -> reviewer: look"),
    ]
    assert len(lines) == 3
    skipped = annotation_lines(report_of(stopped=True), Path("a.whl"))
    assert [parsed(line)[0] for line in skipped] == ["error"]


def test_an_annotation_is_one_command_whatever_the_texts_are() -> None:
    report = report_of(Finding("fail", HOSTILE, HOSTILE, HOSTILE, HOSTILE))
    (line,) = annotation_lines(report, Path(HOSTILE))
    assert "\n" not in line
    assert "\x1b" not in line
    name, properties, data = parsed(line)
    assert (name, set(properties)) == ("error", {"file", "title"})
    assert data.startswith("::stop-commands::x\\n::error::y % ,")


@given(st.text())
def test_no_text_becomes_a_command(text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GITHUB_ACTIONS", "true")
        for shown in (inert(text), inert(f"       {text}"), inert(f"::error::{text}")):
            assert not shown.lstrip().startswith("::")
            assert "##[" not in shown
        spelled = json.dumps({"a": text}, ensure_ascii=False)
        assert "##[" not in inert_json(spelled)
        assert json.loads(inert_json(spelled)) == {"a": text}
        patch.setenv("GITHUB_ACTIONS", "false")
        assert inert(text) == text
        assert inert_json(spelled) == spelled


def test_the_summary_is_a_table_of_literal_texts() -> None:
    text = summary(report_of(Finding("fail", HOSTILE, HOSTILE, HOSTILE, "maintainer")))
    assert text.startswith("### a.whl: NOT ok\n")
    (row,) = [line for line in text.splitlines() if line.startswith("| fail")]
    assert len(re.findall(r"(?<!\\)\|", row)) == 6
    for markup in ("<b>", "`<", "[a](", "$x", "@user", "##["):
        assert markup not in re.sub(r"\\[^\w\s]", "", row)
    assert "\x1b" not in text


def test_the_summary_is_bounded() -> None:
    long = [Finding("warn", f"{n}.so", "x" * 5000, "r", "w") for n in range(1000)]
    text = summary(report_of(*long))
    assert len(text.encode()) < 1 << 20
    assert "800 further findings" in text


@pytest.fixture
def hostile_wheel(tmp_path: Path) -> Path:
    """A wheel with members whose names are workflow commands."""
    first, second = f"{PACKAGE}/##[stop-commands]pwned.bin", "::stop-commands::pwned/x.bin"

    def both(files: dict[str, bytes]) -> None:
        put(first, b"\x7fELF")(files)
        put(second, b"\x7fELF")(files)

    return sound_wheel(tmp_path, edit=both)


@pytest.mark.parametrize("options", [[], ["--json"], ["-v"]], ids=["text", "json", "verbose"])
def test_a_hostile_wheel_in_a_workflow(
    hostile_wheel: Path, tmp_path: Path, options: list[str]
) -> None:
    step = tmp_path / "summary.md"
    result = situ(
        *("verify", hostile_wheel, f"--recipe={write_recipe(tmp_path)}", *options),
        GITHUB_ACTIONS="true",
        GITHUB_STEP_SUMMARY=str(step),
    )
    assert result.code == 1
    lines = (result.stdout + result.stderr).splitlines()
    commands = [line for line in lines if line.lstrip().startswith("::")]
    assert {parsed(line)[0] for line in commands} == {"error"}
    assert not [line for line in lines if "##[" in line and line not in commands]
    assert any("pwned" in line for line in commands)
    if options == ["--json"]:
        subjects = [f["subject"] for c in result.json["checks"] for f in c["findings"]]
        assert "::stop-commands::pwned/x.bin" in subjects
        assert not any(line.startswith("::") for line in result.stdout.splitlines())
    assert "NOT ok" in step.read_text()


def test_a_step_adds_to_the_summary_of_the_steps_before(tmp_path: Path) -> None:
    step = tmp_path / "summary.md"
    step.write_text("# before\n")
    wheel, recipe = sound_wheel(tmp_path), write_recipe(tmp_path)
    result = situ("verify", wheel, f"--recipe={recipe}", GITHUB_STEP_SUMMARY=str(step))
    assert step.read_text() == "# before\n", "not in a workflow"
    situ(
        *("verify", wheel, f"--recipe={recipe}"),
        GITHUB_ACTIONS="true",
        GITHUB_STEP_SUMMARY=str(step),
    )
    text = step.read_text()
    assert text.startswith("# before\n### ")
    assert "| status |" not in text
    assert result.code == 0


def test_a_summary_that_cannot_be_written(tmp_path: Path) -> None:
    result = situ(
        *("verify", sound_wheel(tmp_path), f"--recipe={write_recipe(tmp_path)}", "--json"),
        GITHUB_ACTIONS="true",
        GITHUB_STEP_SUMMARY=str(tmp_path),
    )
    assert result.code == 3
    assert "step summary" in result.json["error"]["what"]
