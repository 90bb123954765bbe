"""Every check id is provoked, names the file, and nothing else fails that need not."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from situ_release.checks.model import VerifyReport
from situ_release.checks.registry import CHECKS
from tests.checks.breakages import BREAKAGES, Breakage
from tests.checks.bundle import result, statuses, verify

GOLDEN = Path(__file__).parent / "golden" / "messages.txt"


def test_the_sound_bundle_passes_every_check(tmp_path: Path) -> None:
    report = verify(tmp_path)
    assert statuses(report) == {}
    assert (report.ok, report.exit_code, report.recipe) == (True, 0, "kimi-k3-situ")
    assert {f.severity for check in report.checks for f in check.findings} == {"note"}


def test_every_check_has_a_broken_wheel() -> None:
    assert {breakage.check for breakage in BREAKAGES} == {check.id for check in CHECKS}


@pytest.fixture(scope="module")
def report_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Breakage], VerifyReport]:
    """The report on a broken wheel, made once."""

    @cache
    def verify_number(number: int) -> VerifyReport:
        return verify(tmp_path_factory.mktemp("broken"), **BREAKAGES[number].knobs)

    return lambda breakage: verify_number(BREAKAGES.index(breakage))


@pytest.mark.parametrize("breakage", BREAKAGES, ids=str)
def test_a_broken_wheel_is_reported_by_its_check(
    breakage: Breakage, report_of: Callable[[Breakage], VerifyReport]
) -> None:
    report = report_of(breakage)
    expected = {breakage.check: breakage.status, **breakage.others}
    assert statuses(report) == {k: v for k, v in expected.items() if v != "pass"}
    assert report.exit_code == (1 if {"fail", "skip"} & set(expected.values()) else 0)
    findings = result(report, breakage.check).findings
    assert (breakage.severity, breakage.subject) in {(f.severity, f.subject) for f in findings}
    told = [f for check in report.checks for f in check.findings if f.severity != "note"]
    assert all(f.remedy and f.who for f in told)


def test_messages_read_as_they_were_agreed(
    report_of: Callable[[Breakage], VerifyReport],
) -> None:
    """Set SITU_GOLDEN=write to accept changed wording, then read the difference."""
    lines = []
    for breakage in BREAKAGES:
        if not breakage.golden:
            continue
        lines.append(f"# {breakage.check}: {breakage.name}")
        for finding in result(report_of(breakage), breakage.check).findings:
            lines.append(f"{finding.severity} {finding.subject}: {finding.message}")
            lines += [f"     -> {finding.remedy}"] if finding.remedy else []
        lines.append("")
    text = "\n".join(lines)
    # What depends on the synthetic binaries, the compressor or installed versions.
    for pattern, mask in (
        (r"[0-9a-f]{64}", "<digest>"),
        (r"urn:uuid:[0-9a-f-]{36}", "<serial number>"),
        (r"CRC-32 [0-9a-f]{8}, found [0-9a-f]{8}", "CRC-32 <crc>, found <crc>"),
        (r"found [\d,]+ bytes", "found <n> bytes"),
        (r"expected [\d,]+ bytes as recorded", "expected <n> bytes as recorded"),
        (r"\([\d,]+ bytes\)", "(<n> bytes)"),
        (r"apache-tvm-ffi \d\S*", "apache-tvm-ffi <version>"),
    ):
        text = re.sub(pattern, mask, text)
    if os.environ.get("SITU_GOLDEN") == "write":
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text(text, encoding="utf-8")
    assert text == GOLDEN.read_text(encoding="utf-8")
