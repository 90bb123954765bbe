"""Checks of where the binaries come from."""

from __future__ import annotations

from collections.abc import Iterator

from situ_release.checks.context import Context
from situ_release.checks.model import Finding, warn


def recovered(context: Context) -> Iterator[Finding]:
    """Pool and snapshot are originals, not taken out of a published wheel."""
    origin = context.manifest.recovered_from
    if origin is not None:
        yield warn(
            context.manifest_member,
            f"pool and snapshot were recovered from {origin.wheel} (SHA-256 {origin.sha256}); what "
            "the manifest says of the originals are that wheel's claims",
        )


def snapshot(context: Context) -> Iterator[Finding]:
    """The sources are named by the commit of a clean git checkout."""
    member, source = context.manifest_member, context.manifest.snapshot
    if source is None:
        yield warn(member, "the sources are not named", expected="a snapshot with its commit")
    elif source.kind != "git" or source.commit is None:
        yield warn(
            member,
            "the sources are not named by a commit",
            expected="a git checkout",
            found=f"a snapshot of kind {source.kind}, version {source.version}",
        )
    elif source.dirty is not False:
        state = "uncommitted changes" if source.dirty else "not known whether it was clean"
        yield warn(
            member,
            f"the snapshot at commit {source.commit} was not clean",
            expected="a clean checkout",
            found=state,
        )


def validated(context: Context) -> Iterator[Finding]:
    """Nobody takes the manifest's word for a run on a GPU: only evidence shows it.

    Whether evidence that was given shows it, ``publication.evidence`` tells.
    """
    if context.manifest.gpu_validated and not context.has_evidence:
        yield warn(
            context.manifest_member,
            "the manifest claims GPU validation, and no evidence was given that could show it",
            expected="evidence of a run of this very wheel",
            found="gpu_validated true",
        )
