"""What is missing before a piece of evidence counts as a bundle's validation on a GPU."""

from __future__ import annotations

from collections.abc import Iterator

from situ_release.bundle.evidence import Evidence, terms_sha256
from situ_release.bundle.recipe import Recipe
from situ_release.errors import Problem

_WHERE = "evidence"


def evidence_gaps(
    evidence: Evidence | None, recipe: Recipe, wheel_sha256: str
) -> tuple[Problem, ...]:
    """Why a wheel does not count as validated; empty where it does.

    Args:
        evidence: what ``gpu-smoke`` took down, None where nothing did.
        recipe: its mandatory tiers, target devices and terms.
        wheel_sha256: digest of the wheel: evidence counts for the very file that ran.
    """
    return tuple(_gaps(evidence, recipe, wheel_sha256))


def _gaps(evidence: Evidence | None, recipe: Recipe, wheel_sha256: str) -> Iterator[Problem]:
    tiers = ", ".join(recipe.smoke.mandatory)
    devices = " or ".join(f"sm_{sm}" for sm in recipe.target.sms)
    remedy = f"run `situ-release gpu-smoke WHEEL --evidence FILE` on {devices}"
    if evidence is None:
        yield Problem("there is no evidence of a run on a GPU", _WHERE, tiers, "none", remedy)
        return
    if evidence.wheel.sha256 != wheel_sha256:
        expected, found = f"SHA-256 {wheel_sha256}", f"SHA-256 {evidence.wheel.sha256}"
        yield Problem("the evidence is of another wheel", _WHERE, expected, found, remedy)
    if evidence.terms_sha256 != terms_sha256(recipe):
        what = "the run met other demands than the recipe makes now"
        expected, found = f"terms {terms_sha256(recipe)}", f"terms {evidence.terms_sha256}"
        yield Problem(what, _WHERE, expected, found, remedy)
    if evidence.scope.short:
        what = "the run was a short one"
        yield Problem(what, _WHERE, "all token counts of the recipe", "a part of them", remedy)
    device = evidence.host.devices[0] if evidence.host else None
    if device is None or device.sm not in recipe.target.sms:
        what = "the run was not on a device that the bundle is made for"
        found = f"{device.name}, sm_{device.sm}" if device else "no device"
        yield Problem(what, _WHERE, devices, found, remedy)
    reasons = {entry.tier: entry.reason for entry in evidence.not_run}
    for tier in recipe.smoke.mandatory:
        status = evidence.status(tier)
        if status != "pass":
            found = status or reasons.get(tier, "not asked for")
            yield Problem(f"tier {tier} has not passed", _WHERE, "pass", found, remedy)
    missed = [mutant.name for mutant in evidence.mutants if not mutant.caught]
    if missed:
        what = "the comparison missed faults that were put in on purpose"
        yield Problem(what, _WHERE, "all caught", ", ".join(sorted(set(missed))), remedy)
