"""Checks of the gate to publication; they run only with ``--for-publication``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from situ_release.checks.context import Context
from situ_release.checks.model import Finding, fail, from_problem, note, warn

# What the gate alone needs is imported when it runs: a plain verify must start fast.
if TYPE_CHECKING:
    from situ_release.bundle.approval_state import ApprovalState

_HOLDS_NOT = {
    "missing": "is missing",
    "invalid": "does not count",
    "rejected": "was refused",
    "conditional": "was given under conditions only",
}
_ON_TARGET = "maintainer, on a target device"


def approvals(context: Context) -> Iterator[Finding]:
    """Every approval that the recipe demands is given for this very wheel, and none is against."""
    from situ_release.bundle.approval_state import approval_states

    given = context.gate
    states = approval_states(
        context.recipe.publication.approvals,
        given.approvals,
        context.sha256,
        given.allowed_signers,
        given.today,
    )
    for state in states:
        yield _approval(state)


def _approval(state: ApprovalState) -> Finding:
    from situ_release.bundle.approval_state import approval_texts

    text = approval_texts()[state.kind]
    if state.satisfied:
        last = f", until {state.expires}" if state.expires else ""
        return note(
            state.kind,
            f"{text.title}: approved by {state.reviewer} on {state.date}{last} "
            f"({state.reference}): {state.text}",
        )
    words = f"{text.title} {_HOLDS_NOT[state.decision]}"
    if state.text:
        by = f"{state.reviewer}, {state.date}: " if state.reviewer else ""
        words += f" ({by}{state.text})"
    return fail(state.kind, words, remedy=text.action, who=text.who)


def evidence(context: Context) -> Iterator[Finding]:
    """All mandatory tiers of gpu-smoke passed on a target device, with this very wheel."""
    from situ_release.bundle.validation import evidence_gaps

    given = context.gate.evidence
    for problem in evidence_gaps(given, context.recipe, context.sha256):
        yield from_problem(problem, who=_ON_TARGET)
    if given is not None and given.host is not None:
        tiers = ", ".join(f"{tier.name} {tier.status}" for tier in given.tiers)
        yield note("evidence", f"run on {given.host.devices[0].name}: {tiers}")


def index(context: Context) -> Iterator[Finding]:
    """The index takes this file: a public version, a manylinux tag, its size, its metadata."""
    from situ_release.checks.archive import size
    from situ_release.checks.index_rules import metadata_faults, tag_faults, version_faults

    metadata, member = context.metadata, f"{context.dist_info}/METADATA"
    yield from version_faults(metadata.version, member)
    yield from tag_faults(context.filename)
    yield from size(context)
    yield from metadata_faults(metadata, member)
    if metadata.version.is_prerelease:
        yield warn(
            member,
            "the version is a pre-release, which installers pass over unless asked for it",
            expected="a final or post-release version",
            found=str(metadata.version),
            remedy="make sure that this is meant",
        )
