"""Findings as data: one result model that feeds the terminal, JSON, SARIF and the report.

A check answers with findings; its status follows from them. A check that could not be carried out
is ``skip``, and a report with a skipped check is never ok: what could not be checked is no success.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from situ_release.errors import Problem

Severity = Literal["note", "warn", "fail"]
Status = Literal["pass", "warn", "fail", "skip"]

_NONE = "nothing"
_MAINTAINER = "maintainer"

STATUSES: tuple[Status, ...] = ("pass", "warn", "fail", "skip")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a check saw.

    Attributes:
        severity: ``fail`` makes the report fail; ``warn`` only a strict one; ``note`` never.
        subject: the archive member, file name or manifest key it is about.
        message: what it is, what was expected and what was found, in one line.
        remedy: what to do about it; "" only for notes.
        who: who must act; "" only for notes.
    """

    severity: Severity
    subject: str
    message: str
    remedy: str = ""
    who: str = ""


def fail(
    subject: str,
    what: str,
    *,
    expected: str = "",
    found: str = "",
    remedy: str = "",
    who: str = "",
) -> Finding:
    """A fault. An empty remedy or actor is filled with the check's own from the catalog."""
    return Finding("fail", subject, _sentence(what, expected, found), remedy, who)


def warn(
    subject: str, what: str, *, expected: str = "", found: str = "", remedy: str = ""
) -> Finding:
    """Something a person must know and may accept."""
    return Finding("warn", subject, _sentence(what, expected, found), remedy)


def note(subject: str, message: str) -> Finding:
    """A fact worth showing; nothing to do."""
    return Finding("note", subject, message)


def false_claim(subject: str, key: str, claimed: object, found: object) -> Finding:
    """The manifest says something of a binary that the binary does not."""
    return fail(
        subject,
        f"the manifest's {key} is not the binary's",
        expected=_NONE if claimed is None else str(claimed) or _NONE,
        found=_NONE if found is None else str(found) or _NONE,
        remedy="stage the payload again, so that the manifest says what the binaries say",
    )


def from_problem(problem: Problem, who: str = "") -> Finding:
    """The finding for a problem that a reader of the file raised."""
    return Finding(
        "fail",
        problem.where,
        _sentence(problem.what, problem.expected, problem.found),
        problem.remedy,
        who,
    )


def _sentence(what: str, expected: str, found: str) -> str:
    contrast = ", ".join(
        f"{label} {text}" for label, text in (("expected", expected), ("found", found)) if text
    )
    return f"{what}: {contrast}" if contrast else what


class Unchecked(Exception):  # noqa: N818 - not an error: the reason why a check stops short
    """A check cannot go on, because what it needs could not be read.

    Args:
        prerequisite: id of the check that reports why.
        subject: the member or file that could not be read.
    """

    def __init__(self, prerequisite: str, subject: str) -> None:
        super().__init__(prerequisite, subject)
        self.prerequisite = prerequisite
        self.subject = subject


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The outcome of one check.

    Attributes:
        id: the check's stable id.
        status: ``skip`` where a prerequisite could not be read, else the worst severity.
        findings: in the order the check found them.
    """

    id: str
    status: Status
    findings: tuple[Finding, ...]

    @classmethod
    def of(
        cls, check_id: str, findings: Iterable[Finding], unchecked: Unchecked | None = None
    ) -> CheckResult:
        """The result of a check that gave ``findings`` and, where it is set, stopped short.

        The status is the worst of what was found; ``skip`` stands between warn and fail.
        """
        found = list(findings)
        if unchecked is not None:
            found.append(
                Finding(
                    "warn",
                    unchecked.subject,
                    f"not checked: {unchecked.prerequisite} could not read what this check needs",
                    f"settle {unchecked.prerequisite} first, then verify again",
                    _MAINTAINER,
                )
            )
        severities = {finding.severity for finding in found}
        status: Status = "pass"
        if "fail" in severities:
            status = "fail"
        elif unchecked is not None:
            status = "skip"
        elif "warn" in severities:
            status = "warn"
        return cls(check_id, status, tuple(found))


@dataclass(frozen=True, slots=True)
class WheelFacts:
    """The verified file: its name, its size in bytes and the SHA-256 the report is bound to."""

    filename: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """Every check's result, in the registry's order.

    Attributes:
        wheel: what was verified.
        recipe: name of the recipe it was verified against, None when none was found.
        strict: warnings count as faults.
        checks: one result per selected check.
        for_publication: the checks of the gate are among them.
    """

    wheel: WheelFacts
    recipe: str | None
    strict: bool
    checks: tuple[CheckResult, ...]
    for_publication: bool = False

    @property
    def summary(self) -> dict[str, int]:
        """Number of checks by status."""
        return {status: sum(check.status == status for check in self.checks) for status in STATUSES}

    @property
    def ok(self) -> bool:
        """No fault, nothing left unchecked, and in a strict report no warning."""
        counted = self.summary
        return not (counted["fail"] or counted["skip"] or (self.strict and counted["warn"]))

    @property
    def verdict(self) -> str:
        """The outcome in words."""
        if self.for_publication:
            return "may be published" if self.ok else "may NOT be published"
        return "ok" if self.ok else "NOT ok"

    @property
    def open_points(self) -> tuple[tuple[CheckResult, Finding], ...]:
        """All that keeps the report from being ok, each with its check."""
        against = {"fail", "warn"} if self.strict else {"fail"}
        return tuple(
            (check, finding)
            for check in self.checks
            for finding in check.findings
            if finding.severity in against
            # What stopped a check short is the last that it says.
            or (check.status == "skip" and finding is check.findings[-1])
        )

    @property
    def exit_code(self) -> int:
        """0 when :attr:`ok`, else 1."""
        return 0 if self.ok else 1
