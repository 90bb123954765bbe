"""The decision: what stands against publication, who must act, and what is to be weighed.

It is that of ``verify --for-publication``, put into sentences: a fault or a check that could not be
carried out blocks, a warning is to be weighed.
"""

from __future__ import annotations

from collections.abc import Iterator

from situ_release.checks.catalog import catalog
from situ_release.checks.model import CheckResult, Finding
from situ_release.report.model import Decision, OpenPoint, Severity, Source
from situ_release.report.subject import Subject

_APPROVALS = "publication.approvals"
_EACH = (_APPROVALS, "publication.evidence", "publication.index")
"""Checks whose findings are points by themselves; of any other the check is one point."""

_TITLE_LENGTH = 110

_SECTIONS = {
    "export-control": "export",
    "license": "licenses",
    "nvidia-redistribution": "licenses",
    "release-provenance": "origin",
    "model-owner": "approvals",
    "publication.evidence": "validation",
}


def decide(subject: Subject) -> Decision:
    """Whether a wheel may be published: every approval given, evidence complete, no fault."""
    points = tuple(_points(subject))
    ordered = tuple(sorted(points, key=lambda point: point.severity != "blocking"))
    blocking = sum(point.severity == "blocking" for point in ordered)
    attention = len(ordered) - blocking
    if not blocking:
        headline = "Cleared for publication"
        summary = (
            "Every demanded approval is given for this very file, the evidence is complete, and no "
            "check found a fault."
        )
    else:
        headline = "Not cleared for publication"
        verb = "point stands" if blocking == 1 else "points stand"
        summary = f"{blocking} {verb} against it; each is listed with who must act."
    if attention:
        verb = "matter is" if attention == 1 else "matters are"
        summary += f" {attention} further {verb} to be weighed."
    return Decision(not blocking, headline, summary, Source("check", "all"), ordered)


def _points(subject: Subject) -> Iterator[OpenPoint]:
    """The gate's own checks first: approvals and evidence are what most wheels wait for."""
    checks = sorted(subject.verified.checks, key=lambda check: check.id not in _EACH)
    for check in checks:
        shown = [finding for finding in check.findings if finding.severity != "note"]
        if check.id in _EACH:
            for finding in shown:
                yield _point(check, finding, "fail" if check.status == "skip" else finding.severity)
        elif check.status != "pass":
            yield _point(check, shown[0], check.status, len(shown) - 1)


def _point(check: CheckResult, finding: Finding, status: str, more: int = 0) -> OpenPoint:
    severity: Severity = "attention" if status == "warn" else "blocking"
    kind = finding.subject if check.id == _APPROVALS else ""
    remedy = catalog()[check.id].remedy if more else finding.remedy
    return OpenPoint(
        severity=severity,
        title=_title(check, finding, more),
        who=_sentence(finding.who),
        action=_sentence(remedy),
        section=_SECTIONS.get(kind or check.id, "findings"),
        source=Source("approvals", kind) if kind in _SECTIONS else Source("check", check.id),
    )


def _title(check: CheckResult, finding: Finding, more: int) -> str:
    """What was found first, without figures that tell more below, and how much more there is."""
    if check.status == "skip":
        title = catalog()[check.id].title
        return f"Could not be checked: {title[0].lower()}{title[1:]}"
    what, _, contrast = finding.message.partition(": expected ")
    _, _, found = contrast.rpartition(", found ")
    message = _sentence(what)
    if check.id in _EACH and found not in ("", "none"):
        message = f"{message}: {found}"
    if len(message) > _TITLE_LENGTH:
        message = f"{message[:_TITLE_LENGTH].rpartition(' ')[0]} …"
    return f"{message} (and {more} more)" if more else message


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
