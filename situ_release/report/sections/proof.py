"""What was run and what was found: GPU validation, advisories, the checks."""

from __future__ import annotations

from collections.abc import Iterator

from situ_release.bundle.evidence import Case, Evidence
from situ_release.bundle.recipe import Advisory
from situ_release.checks.catalog import catalog
from situ_release.report.model import (
    Block,
    Column,
    Fact,
    Facts,
    Note,
    Row,
    Section,
    Source,
    Table,
    Tone,
)
from situ_release.report.subject import Subject


def validation(subject: Subject) -> Section:
    """Evidence of a run on a GPU, or that there is none."""
    evidence, gaps = subject.evidence, subject.gaps
    if evidence is None:
        lead = "Not validated: there is no evidence of a run on a GPU."
    elif gaps:
        lead = "Not validated: the evidence does not show all that the recipe demands."
    else:
        device = evidence.host.devices[0].name if evidence.host else ""
        lead = f"Validated on {device}: every mandatory tier passed for this very file."
    blocks: list[Block] = [
        Note(
            f"{gap.what[:1].upper()}{gap.what[1:]}: expected {gap.expected}, found {gap.found}.",
            Source("evidence", "tiers"),
            "bad",
        )
        for gap in gaps
    ]
    if evidence is not None:
        blocks += _evidence_blocks(evidence)
    blocks.append(_demands(subject))
    return Section(
        "validation", "GPU validation", lead, Source("check", "publication.evidence"), tuple(blocks)
    )


def _evidence_blocks(evidence: Evidence) -> Iterator[Block]:
    yield Facts(tuple(_where(evidence)))
    counts = {
        tier.name: [c for c in evidence.cases if c.tier == tier.name] for tier in evidence.tiers
    }
    yield Table(
        key="tiers",
        title="What ran",
        columns=(
            Column("tier", "Tier", "code"),
            Column("status", "Outcome", "status"),
            Column("cases", "Cases", "number"),
            Column("failed", "Failed", "number"),
            Column("reason", "Why not"),
        ),
        rows=(
            *(
                Row(
                    {
                        "tier": tier.name,
                        "status": tier.status,
                        "cases": len(counts[tier.name]),
                        "failed": sum(case.status != "pass" for case in counts[tier.name]),
                        "reason": "; ".join(problem.what for problem in tier.problems),
                    }
                )
                for tier in evidence.tiers
            ),
            *(
                Row(
                    {
                        "tier": entry.tier,
                        "status": "not run",
                        "cases": 0,
                        "failed": 0,
                        "reason": entry.reason,
                    },
                    source=Source("evidence", "not_run"),
                )
                for entry in evidence.not_run
            ),
        ),
        source=Source("evidence", "tiers"),
    )
    yield _figures(evidence)
    caught = sum(mutant.caught for mutant in evidence.mutants)
    if evidence.mutants:
        total = len(evidence.mutants)
        yield Note(
            f"{caught} of {total} faults that were put in on purpose were seen by the comparison.",
            Source("evidence", "mutants"),
            "good" if caught == total else "bad",
        )


def _where(evidence: Evidence) -> Iterator[Fact]:
    host, versions = evidence.host, evidence.versions
    device = host.devices[0] if host else None
    for key, label, value in (
        ("device", "Device", f"{device.name}, sm_{device.sm}" if device else None),
        ("devices", "Devices", str(len(host.devices)) if host else None),
        ("driver", "Driver", host.driver_version if host else None),
        ("cuda", "CUDA runtime", host.runtime_cuda if host else None),
    ):
        yield Fact(f"evidence.{key}", label, value, Source("evidence", "host"))
    for key, label, value in (
        ("tvm_ffi", "apache-tvm-ffi", versions.apache_tvm_ffi),
        ("torch", "torch", versions.torch),
        ("glibc", "glibc", versions.glibc),
    ):
        yield Fact(f"evidence.{key}", label, value, Source("evidence", f"versions.{key}"))
    yield Fact(
        "evidence.wheel",
        "Wheel that ran, SHA-256",
        evidence.wheel.sha256,
        Source("evidence", "wheel.sha256"),
        "digest",
    )


def worst_figures(evidence: Evidence) -> list[tuple[str, int, float | None, float | None]]:
    """By contract: cases with numerics, the least cosine, and the largest relative L2 error."""
    by_contract: dict[str, list[Case]] = {}
    for case in evidence.cases:
        if case.tier == "numerics" and case.contract is not None:
            by_contract.setdefault(case.contract, []).append(case)
    rows = []
    for contract, cases in sorted(by_contract.items()):
        cosines = [case.figures["cosine"] for case in cases if "cosine" in case.figures]
        errors = [case.figures["relative_l2"] for case in cases if "relative_l2" in case.figures]
        rows.append((contract, len(cases), min(cosines, default=None), max(errors, default=None)))
    return rows


def _figures(evidence: Evidence) -> Table:
    tolerance = evidence.tolerance
    return Table(
        key="figures",
        title=f"Numerics against the reference (cosine ≥ {tolerance.cosine}, relative L2 ≤ "
        f"{tolerance.relative_l2})",
        columns=(
            Column("contract", "Contract", "code"),
            Column("cases", "Cases", "number"),
            Column("cosine", "Least cosine", "number"),
            Column("relative_l2", "Largest relative L2", "number"),
        ),
        rows=tuple(
            Row({"contract": name, "cases": count, "cosine": cosine, "relative_l2": error})
            for name, count, cosine, error in worst_figures(evidence)
        ),
        source=Source("evidence", "cases"),
        empty="no numerics were measured",
    )


def _demands(subject: Subject) -> Table:
    smoke, evidence = subject.recipe.smoke, subject.evidence
    return Table(
        key="mandatory_tiers",
        title="What the recipe demands",
        columns=(Column("tier", "Tier", "code"), Column("status", "For this wheel", "status")),
        rows=tuple(
            Row(
                {
                    "tier": tier,
                    "status": (evidence.status(tier) if evidence else None) or "not run",
                }
            )
            for tier in smoke.mandatory
        ),
        source=Source("recipe", "smoke.mandatory"),
    )


def advisories(subject: Subject) -> Section:
    """What is known about the very binaries in the wheel."""
    members: dict[str, list[str]] = {}
    for name, content in subject.context.contents.items():
        members.setdefault(content.sha256, []).append(name)
    blocks: list[Block] = []
    count = 0
    for index, advisory in enumerate(subject.recipe.advisories):
        if advisory.sha256 in members:
            count += 1
            blocks += _advisory(subject, advisory, index, members[advisory.sha256])
    lead = "Nothing is known against any binary of this wheel."
    if count:
        lead = (
            f"Advisories that concern binaries of this wheel: {count}. Each belongs to a "
            "SHA-256 and so holds for every release that carries the same bytes."
        )
    return Section(
        "advisories", "Advisories", lead, Source("check", "advisories.known"), tuple(blocks)
    )


def _advisory(
    subject: Subject, advisory: Advisory, index: int, members: list[str]
) -> Iterator[Block]:
    source = Source("recipe", f"advisories[{index}]")
    tones: dict[str, Tone] = {"reported": "warn", "reproduced": "bad", "refuted": "good"}
    yield Note(advisory.text, source, tones[advisory.status])
    taken = subject.evidence.advisories if subject.evidence else ()
    outcomes = {entry.reference: entry.outcome for entry in taken}
    key = f"advisory.{index}"
    shown = outcomes.get(advisory.reference, "nothing: no run on a GPU has settled it")
    yield Facts(
        (
            Fact(f"{key}.status", "Status", advisory.status, source, "status"),
            Fact(f"{key}.binary", "Binary", ", ".join(members), source, "code"),
            Fact(f"{key}.sha256", "SHA-256", advisory.sha256, source, "digest"),
            Fact(f"{key}.shown", "Shown by evidence", shown, Source("evidence", "advisories")),
            Fact(f"{key}.reference", "Reference", advisory.reference, source),
        )
    )


def findings(subject: Subject) -> Section:
    """Every check with its outcome, and every finding."""
    summary = subject.verified.summary
    counts = ", ".join(f"{count} {status}" for status, count in summary.items() if count)
    checks = subject.verified.checks
    return Section(
        key="findings",
        title="Checks and findings",
        lead=f"{len(checks)} checks compared what the wheel claims with what its files say: "
        f"{counts}.",
        source=Source("check", "all"),
        blocks=(
            Table(
                key="findings",
                title="Findings",
                columns=(
                    Column("check", "Check", "code"),
                    Column("severity", "Severity", "status"),
                    Column("subject", "About", "code"),
                    Column("message", "Finding"),
                    Column("remedy", "What to do"),
                ),
                rows=tuple(
                    Row(
                        {
                            "check": check.id,
                            "severity": finding.severity,
                            "subject": finding.subject,
                            "message": finding.message,
                            "remedy": finding.remedy,
                        }
                    )
                    for check in checks
                    for finding in check.findings
                ),
                source=Source("check", "all"),
                empty="no check found anything",
            ),
            Table(
                key="checks",
                title="Checks",
                columns=(
                    Column("check", "Check", "code"),
                    Column("status", "Outcome", "status"),
                    Column("statement", "What holds when it passes"),
                ),
                rows=tuple(
                    Row(
                        {
                            "check": check.id,
                            "status": check.status,
                            "statement": catalog()[check.id].title,
                        },
                        anchor=f"check-{check.id}",
                    )
                    for check in checks
                ),
                source=Source("check", "all"),
            ),
        ),
    )
