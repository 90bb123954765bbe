"""Puts the document together: decision first, then a chapter for each question."""

from __future__ import annotations

from situ_release.report.gate import decide
from situ_release.report.model import Document, WheelIdentity
from situ_release.report.sanitize import cleaned
from situ_release.report.sections.binaries import all_binaries, build_paths, platform, toolchains
from situ_release.report.sections.changes import bill, changes
from situ_release.report.sections.identity import identity
from situ_release.report.sections.origin import origin
from situ_release.report.sections.proof import advisories, findings, validation
from situ_release.report.sections.reach import coverage
from situ_release.report.sections.rights import approvals, export, licenses
from situ_release.report.subject import Subject

SECTIONS = (
    identity,
    origin,
    licenses,
    export,
    approvals,
    validation,
    advisories,
    findings,
    coverage,
    toolchains,
    build_paths,
    platform,
    changes,
    bill,
    all_binaries,
)
"""The chapters in reading order: what a licence or export reviewer asks comes first."""


def make_document(subject: Subject) -> Document:
    """Everything that is known of a wheel, with control characters and build paths taken out.

    Raises:
        InputError: the wheel carries no bill of materials and none can be made.
    """
    return cleaned(
        Document(
            wheel=WheelIdentity(
                filename=subject.wheel.filename,
                distribution=subject.name.distribution,
                version=subject.manifest.package_version,
                size=subject.wheel.size,
                sha256=subject.wheel.sha256,
            ),
            decision=decide(subject),
            sections=tuple(section(subject) for section in SECTIONS),
        )
    )
