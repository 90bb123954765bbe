from __future__ import annotations

import pytest

from situ_release.checks.model import (
    CheckResult,
    Finding,
    Status,
    Unchecked,
    VerifyReport,
    WheelFacts,
    fail,
    from_problem,
    note,
    warn,
)
from situ_release.errors import Problem


def report(*statuses: Status, strict: bool = False) -> VerifyReport:
    checks = tuple(CheckResult(f"a.{number}", status, ()) for number, status in enumerate(statuses))
    return VerifyReport(WheelFacts("a.whl", 1, "0" * 64), None, strict, checks)


@pytest.mark.parametrize(
    ("findings", "unchecked", "status"),
    [
        ([], False, "pass"),
        ([note("a", "b")], False, "pass"),
        ([note("a", "b"), warn("a", "b")], False, "warn"),
        ([warn("a", "b"), fail("a", "b")], False, "fail"),
        ([], True, "skip"),
        ([warn("a", "b")], True, "skip"),
        ([fail("a", "b")], True, "fail"),
    ],
)
def test_the_status_is_the_worst_finding(
    findings: list[Finding], unchecked: bool, status: str
) -> None:
    reason = Unchecked("wheel.archive", "a.whl") if unchecked else None
    result = CheckResult.of("wheel.record", findings, reason)
    assert result.status == status
    assert list(result.findings[: len(findings)]) == findings


def test_a_check_that_stops_short_says_which_check_tells_why() -> None:
    (finding,) = CheckResult.of("a.b", [], Unchecked("wheel.archive", "a.whl")).findings
    assert finding.subject == "a.whl"
    assert "wheel.archive" in finding.message
    assert "wheel.archive" in finding.remedy


@pytest.mark.parametrize(
    ("statuses", "strict", "ok"),
    [
        (("pass",), False, True),
        (("pass", "warn"), False, True),
        (("pass", "warn"), True, False),
        (("pass",), True, True),
        (("pass", "skip"), False, False),
        (("pass", "fail"), False, False),
    ],
)
def test_a_skip_is_no_success_and_strict_takes_no_warning(
    statuses: tuple[Status, ...], strict: bool, ok: bool
) -> None:
    outcome = report(*statuses, strict=strict)
    assert outcome.ok is ok
    assert outcome.exit_code == (0 if ok else 1)


def test_the_summary_counts_checks_by_status() -> None:
    counted = report("pass", "pass", "warn", "skip").summary
    assert counted == {"pass": 2, "warn": 1, "fail": 0, "skip": 1}


def test_a_message_says_what_was_expected_and_found() -> None:
    finding = fail("x.so", "wrong size", expected="1 byte", found="2 bytes", remedy="build again")
    assert finding == Finding(
        "fail", "x.so", "wrong size: expected 1 byte, found 2 bytes", "build again"
    )
    assert from_problem(Problem("wrong", "x.so", found="2", remedy="r")) == Finding(
        "fail", "x.so", "wrong: found 2", "r"
    )
