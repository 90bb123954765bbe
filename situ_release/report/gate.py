"""The decision: what stands against publication, who must act, and what is to be weighed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from situ_release.checks.catalog import catalog
from situ_release.checks.model import CheckResult, Finding
from situ_release.report.approvals import ApprovalState, actor, approval_text
from situ_release.report.model import Decision, OpenPoint, Severity, Source
from situ_release.report.subject import Subject

_TITLE_LENGTH = 110
_ON_TARGET = "Maintainer, on a target GPU"

_STATES = {
    "missing": "is missing",
    "invalid": "does not hold for this wheel",
    "rejected": "was refused",
    "conditional": "was given under conditions",
    "approved": "is given",
}


def decide(subject: Subject) -> Decision:
    """Whether a wheel may be published: every approval given, evidence complete, no fault."""
    points = (*_approvals(subject), *_evidence(subject), *_findings(subject))
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
    return Decision(not blocking, headline, summary, ordered)


def _approvals(subject: Subject) -> Iterator[OpenPoint]:
    for state in subject.approvals:
        if state.satisfied:
            continue
        text = approval_text(state.kind)
        yield OpenPoint(
            severity="blocking",
            title=f"{text.title} {_STATES[state.decision]}",
            who=text.who,
            action=_approval_action(state, text.action),
            section="export"
            if state.kind == "export-control"
            else "licenses"
            if state.kind in ("license", "nvidia-redistribution")
            else "origin",
            source=Source("approvals", state.kind),
        )


def _approval_action(state: ApprovalState, action: str) -> str:
    return f"{state.text}. {action}" if state.text else action


def _evidence(subject: Subject) -> Iterator[OpenPoint]:
    for gap in subject.gaps:
        yield OpenPoint(
            severity="blocking",
            title=_sentence(gap.what)
            if gap.found == "none"
            else f"{_sentence(gap.what)}: {gap.found}",
            who=_ON_TARGET,
            action=_sentence(gap.remedy),
            section="validation",
            source=Source("evidence", "tiers"),
        )


def _findings(subject: Subject) -> Iterator[OpenPoint]:
    for check in subject.verified.checks:
        if check.status == "pass":
            continue
        severity: Severity = "blocking" if check.status in ("fail", "skip") else "attention"
        shown = [finding for finding in check.findings if finding.severity != "note"]
        yield OpenPoint(
            severity=severity,
            title=_finding_title(check, shown),
            who=actor(check.id),
            action=_sentence(shown[0].remedy if len(shown) == 1 else catalog()[check.id].remedy),
            section="findings",
            source=Source("check", check.id),
        )


def _finding_title(check: CheckResult, shown: Sequence[Finding]) -> str:
    """What the check found first, without the figures, and how much more there is."""
    if check.status == "skip":
        title = catalog()[check.id].title
        return f"Could not be checked: {title[0].lower()}{title[1:]}"
    message = _sentence(shown[0].message.partition(": expected ")[0])
    if len(message) > _TITLE_LENGTH:
        message = f"{message[:_TITLE_LENGTH].rpartition(' ')[0]} …"
    more = len(shown) - 1
    return f"{message} (and {more} more)" if more else message


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
