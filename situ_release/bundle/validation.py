"""What is missing before a piece of evidence counts as a bundle's validation on a GPU."""

from __future__ import annotations

from collections.abc import Iterator

from situ_release.bundle.evidence import DeviceCode, Evidence, terms_sha256
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
    remedy = _remedy(recipe)
    if evidence is None:
        tiers = ", ".join(recipe.smoke.mandatory)
        return (Problem("there is no evidence of a run on a GPU", _WHERE, tiers, "none", remedy),)
    problems = list(_run_gaps(evidence, recipe))
    if evidence.wheel.sha256 != wheel_sha256:
        expected, found = f"SHA-256 {wheel_sha256}", f"SHA-256 {evidence.wheel.sha256}"
        problem = Problem("the evidence is of another wheel", _WHERE, expected, found, remedy)
        problems.insert(0, problem)
    return tuple(problems)


def binaries_gaps(
    evidence: Evidence, recipe: Recipe, binaries: str, code: DeviceCode
) -> tuple[Problem, ...]:
    """Why binaries, in whatever wheel, do not count as validated; empty where they do.

    Evidence counts for the runner and cubins that ran, and for others with the same device code.

    Args:
        evidence: what ``gpu-smoke`` took down.
        recipe: its mandatory tiers, target devices and terms.
        binaries: :func:`situ_release.bundle.binaries.binaries_sha256` of the bundle.
        code: its device-code digests.
    """
    problems = list(_run_gaps(evidence, recipe))
    if evidence.recipe != recipe.name:
        what = "the evidence is of another recipe's bundle"
        problems.insert(0, Problem(what, _WHERE, recipe.name, evidence.recipe, _remedy(recipe)))
    elif evidence.wheel.binaries_sha256 != binaries and evidence.wheel.device_code != code:
        problems.insert(
            0,
            Problem(
                "the evidence is of other binaries",
                _WHERE,
                f"binaries {binaries}, or the device code {code.cubins_sha256} in the cubins and "
                f"{code.runner_sha256} in the runner",
                f"binaries {evidence.wheel.binaries_sha256}, with other device code",
                _remedy(recipe),
            ),
        )
    return tuple(problems)


def _remedy(recipe: Recipe) -> str:
    return f"run `situ-release gpu-smoke WHEEL --evidence FILE` on {_devices(recipe)}"


def _devices(recipe: Recipe) -> str:
    return " or ".join(f"sm_{sm}" for sm in recipe.target.sms)


def _run_gaps(evidence: Evidence, recipe: Recipe) -> Iterator[Problem]:
    """Why the run does not show enough, whatever it ran."""
    devices, remedy = _devices(recipe), _remedy(recipe)
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
