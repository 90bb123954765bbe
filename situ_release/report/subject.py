"""What a report is about: one wheel, read once, and everything that is known beside it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from situ_release.bundle.approval_state import ApprovalState, approval_states
from situ_release.bundle.coverage import CoverageModel, DeviceCoverage
from situ_release.bundle.evidence import Evidence
from situ_release.bundle.families import cubins_by_family
from situ_release.bundle.manifest import CubinEntry, Manifest
from situ_release.bundle.recipe import Recipe, load_recipe
from situ_release.bundle.validation import evidence_gaps
from situ_release.checks.context import Context, GateInputs
from situ_release.checks.model import CheckResult, Unchecked, VerifyReport, WheelFacts
from situ_release.checks.registry import choose
from situ_release.errors import InputError, Problem, raise_all
from situ_release.inspection.diff.compare import Difference, compare_paths
from situ_release.sources.kernel_name import kernel_of_filename
from situ_release.sources.runner import Runner
from situ_release.wheel.archive import MemberContent, examine_wheel, in_wheel
from situ_release.wheel.dist_info import SBOMS, WheelName, parse_wheel_name


@dataclass(frozen=True, slots=True)
class Sbom:
    """A bill of materials: its bytes, and whether the wheel carries them."""

    data: bytes
    in_wheel: bool


@dataclass(frozen=True, slots=True)
class Previous:
    """The release before: its file name, and in what this wheel differs from it."""

    filename: str
    version: str
    difference: Difference


@dataclass(frozen=True)
class Subject:
    """One wheel with all that its documents are made from.

    Attributes:
        context: the wheel as the checks read it.
        verified: the result of every check, the gate's among them.
        gate: approvals and evidence, as far as they were given.
        previous: None where no earlier release was given.
    """

    context: Context
    verified: VerifyReport
    gate: GateInputs
    previous: Previous | None

    @property
    def evidence(self) -> Evidence | None:
        """Evidence of a smoke run; None without."""
        return self.gate.evidence

    @cached_property
    def approvals(self) -> tuple[ApprovalState, ...]:
        """Every demanded approval, and every other decision on this wheel, as it stands."""
        return approval_states(
            self.recipe.publication.approvals,
            self.gate.approvals,
            self.wheel.sha256,
            self.gate.allowed_signers,
            self.gate.today,
        )

    @property
    def wheel(self) -> WheelFacts:
        """Name, size and digest of the file."""
        return self.verified.wheel

    @cached_property
    def name(self) -> WheelName:
        """The parts of the file's name."""
        return parse_wheel_name(self.wheel.filename)

    @property
    def manifest(self) -> Manifest:
        """The bundle's manifest."""
        return self.context.manifest

    @property
    def recipe(self) -> Recipe:
        """The recipe that the wheel is judged by."""
        return self.context.recipe

    @cached_property
    def families(self) -> dict[str, list[CubinEntry]]:
        """The cubins by family."""
        return cubins_by_family(self.manifest, self.recipe)

    @cached_property
    def runner(self) -> Runner | None:
        """The runner, None where it cannot be read: ``runner.format`` says why."""
        try:
            found = self.context.runner_or_problems
        except Unchecked:
            return None
        return found if isinstance(found, Runner) else None

    @cached_property
    def coverage(self) -> tuple[DeviceCoverage, ...] | None:
        """Coverage on the recipe's targets; None where it cannot be computed."""
        if self.runner is None:
            return None
        try:
            model = CoverageModel(self.recipe, self.runner.kernel_table)
            entries = self.manifest.cubins
            bundled = {kernel_of_filename(e.filename): e.sha256 for e in entries}
        except InputError:
            return None
        return tuple(model.device(sm, bundled) for sm in self.recipe.target.sms)

    @cached_property
    def gaps(self) -> tuple[Problem, ...]:
        """What the evidence lacks; empty for a validated wheel."""
        return evidence_gaps(self.evidence, self.recipe, self.wheel.sha256)

    @cached_property
    def sbom(self) -> Sbom:
        """The wheel's own bill of materials, else one made now that says so.

        Raises:
            InputError: the wheel has none, and its manifest tells no time to make one for.
        """
        member = f"{self.context.dist_info}/{SBOMS}{self.recipe.sbom_name}"
        carried = self.context.data(member)
        if carried is not None:
            return Sbom(carried, in_wheel=True)
        from situ_release.bundle.sbom import sbom

        text = self.context.data(self.context.manifest_member) or b""
        note = "made by the report from manifest and recipe; the wheel carries none"
        return Sbom(sbom(self.manifest, text, self.recipe, note), in_wheel=False)

    def check(self, check_id: str) -> CheckResult | None:
        """The result of a check, None for one that does not exist."""
        return next((check for check in self.verified.checks if check.id == check_id), None)

    def passed(self, check_id: str) -> bool:
        """Whether a check ran and found no fault."""
        found = self.check(check_id)
        return found is not None and found.status in ("pass", "warn")


def read_subject(
    wheel: Path,
    *,
    gate: GateInputs,
    recipe: str | None = None,
    previous: Path | None = None,
) -> Subject:
    """Read a bundle wheel, run every check, and put beside it what else was given.

    Args:
        wheel: the wheel; its binaries may be faulty, which the checks then say.
        gate: approvals and evidence, as far as there are any.
        recipe: instead of the one that the wheel names.
        previous: an earlier release to compare with.

    Raises:
        InputError: no sound wheel with a manifest and a recipe, or another input is malformed.
        HostError: signatures must be checked and this host cannot.
        UsageError: there is no such recipe, or ``previous`` is no wheel.
    """
    archive = examine_wheel(wheel)
    raise_all(InputError, in_wheel(wheel, archive.faults))
    name = parse_wheel_name(wheel.name)
    scanned: dict[str, MemberContent] = archive.scan(lambda member: True)
    context = Context(archive, lambda: scanned, load_recipe(recipe) if recipe else None, gate)
    for required in (
        context.dist_info_or_problems,
        context.manifest_or_problems,
        context.loaded_recipe_or_problems,
    ):
        if isinstance(required, tuple):
            raise_all(InputError, in_wheel(wheel, required))
    results = tuple(check.run(context) for check in choose(for_publication=True))
    facts = WheelFacts(wheel.name, archive.size, archive.sha256)
    return Subject(
        context=context,
        verified=VerifyReport(
            facts, context.recipe.name, strict=False, checks=results, for_publication=True
        ),
        gate=gate,
        previous=None if previous is None else _compare(previous, wheel, name.distribution),
    )


def _compare(previous: Path, wheel: Path, distribution: str) -> Previous:
    name = parse_wheel_name(previous.name)
    if name.distribution != distribution:
        raise InputError.of(
            "the previous release is another distribution",
            previous,
            expected=distribution,
            found=name.distribution,
            remedy="name an earlier release of the same distribution",
        )
    return Previous(previous.name, str(name.version), compare_paths(previous, wheel))
