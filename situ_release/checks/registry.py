"""Every check by its stable id, in report order. The table is the whole registration."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from situ_release.checks import (
    advisories,
    archive,
    code,
    coverage,
    cubins,
    families,
    licenses,
    manifest,
    naming,
    provenance,
    publication,
    recipe,
    runner,
    runner_contents,
    sbom,
)
from situ_release.checks.catalog import catalog
from situ_release.checks.context import Context
from situ_release.checks.model import CheckResult, Finding, Unchecked
from situ_release.errors import UsageError


@dataclass(frozen=True, slots=True)
class Check:
    """One check: what it is called and the function that answers."""

    id: str
    function: Callable[[Context], Iterable[Finding]]

    def run(self, context: Context) -> CheckResult:
        """Every finding, each with a remedy and an actor, and the status that follows from them."""
        findings: list[Finding] = []
        unchecked: Unchecked | None = None
        text = catalog()[self.id]
        try:
            for finding in self.function(context):
                if finding.severity != "note":
                    remedy, who = finding.remedy or text.remedy, finding.who or text.who
                    finding = replace(finding, remedy=remedy, who=who)
                findings.append(finding)
        except Unchecked as reason:
            unchecked = reason
        return CheckResult.of(self.id, findings, unchecked)


CHECKS = (
    Check("wheel.archive", archive.intact),
    Check("wheel.record", archive.record),
    Check("wheel.filename", naming.filename),
    Check("wheel.tags", naming.tags),
    Check("wheel.metadata", naming.metadata),
    Check("wheel.size", archive.size),
    Check("wheel.sbom", sbom.bill),
    Check("manifest.schema", manifest.schema),
    Check("manifest.files", manifest.files),
    Check("manifest.digests", manifest.digests),
    Check("manifest.recipe", recipe.facts),
    Check("manifest.locked", recipe.locked),
    Check("package.code", code.code),
    Check("cubin.format", cubins.readable),
    Check("cubin.arch", cubins.architecture),
    Check("cubin.symbol", cubins.symbol),
    Check("cubin.toolchain", cubins.toolchain),
    Check("families.counts", families.counts),
    Check("families.complete", families.complete),
    Check("runner.format", runner.readable),
    Check("runner.symbols", runner.symbols),
    Check("runner.needed", runner.needed),
    Check("runner.versions", runner.versions),
    Check("runner.rpath", runner.rpath),
    Check("runner.stack", runner.stack),
    Check("runner.table", runner_contents.table),
    Check("runner.devicecode", runner_contents.device_code),
    Check("runner.leaks", runner_contents.leaks),
    Check("coverage.closed", coverage.closed),
    Check("coverage.unreachable", coverage.unreachable),
    Check("licenses.files", licenses.files),
    Check("licenses.declared", licenses.declared),
    Check("advisories.known", advisories.known),
    Check("provenance.recovered", provenance.recovered),
    Check("provenance.snapshot", provenance.snapshot),
    Check("provenance.validated", provenance.validated),
)
"""The checks of every run."""

PUBLICATION_CHECKS = (
    Check("publication.approvals", publication.approvals),
    Check("publication.evidence", publication.evidence),
    Check("publication.index", publication.index),
)
"""The gate, after all others; it needs what reviewers and ``gpu-smoke`` took down."""


def choose(
    select: Sequence[str] = (), ignore: Sequence[str] = (), *, for_publication: bool = False
) -> tuple[Check, ...]:
    """The checks to run.

    Args:
        select: ids or their beginnings (``cubin``, ``runner.table``); none means all.
        ignore: the same, left out of what ``select`` chose.
        for_publication: every check and the gate; nothing may be left out then.

    Raises:
        UsageError: an entry fits no id, nothing is left, or the gate would lack something.
    """
    if for_publication:
        if select or ignore:
            raise UsageError.of(
                "a part of the checks says nothing about publication",
                "--for-publication",
                expected="neither --select nor --ignore",
                found=", ".join((*select, *ignore)),
                remedy="run all checks",
            )
        return CHECKS + PUBLICATION_CHECKS
    for option, entries in (("--select", select), ("--ignore", ignore)):
        unknown = [entry for entry in entries if not any(_fits(check, entry) for check in CHECKS)]
        if any(_fits(check, entry) for check in PUBLICATION_CHECKS for entry in unknown):
            raise UsageError.of(
                "the checks of the gate run all together, after all others",
                f"{option} {','.join(unknown)}",
                expected="--for-publication",
                found=", ".join(map(repr, unknown)),
                remedy="give --for-publication with --approvals, --allowed-signers and --evidence",
            )
        if unknown:
            raise UsageError.of(
                "there is no such check",
                f"{option} {','.join(unknown)}",
                expected=f"a beginning of one of {', '.join(check.id for check in CHECKS)}",
                found=", ".join(map(repr, unknown)),
                remedy="name a check or a group of checks",
            )
    chosen = tuple(
        check
        for check in CHECKS
        if (not select or any(_fits(check, entry) for entry in select))
        and not any(_fits(check, entry) for entry in ignore)
    )
    if not chosen:
        raise UsageError.of(
            "no check is left to run",
            "--select and --ignore",
            expected="at least one check",
            found=f"everything selected by {', '.join(select) or 'default'} is ignored",
            remedy="ignore less",
        )
    return chosen


def _fits(check: Check, entry: str) -> bool:
    return bool(entry) and check.id.startswith(entry)
