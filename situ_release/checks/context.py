"""What checks look at: every fact about a wheel is read once, when the first check asks for it.

A fact that cannot be read raises :class:`Unchecked` naming the check that reports why, so that a
check never has to ask whether what it needs is there.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from packaging.metadata import Metadata

from situ_release.bundle.coverage import CoverageModel, DeviceCoverage
from situ_release.bundle.lock import Lock, load_lock
from situ_release.bundle.manifest import MANIFEST_NAME, CubinEntry, Manifest, read_manifest
from situ_release.bundle.recipe import LoadedRecipe, Recipe, find_recipe
from situ_release.checks.model import Unchecked
from situ_release.errors import InputError, Problem
from situ_release.sources.content_kind import describe_content
from situ_release.sources.cubin import Cubin, read_cubin
from situ_release.sources.kernel_name import kernel_of_filename
from situ_release.sources.runner import Runner, read_runner
from situ_release.wheel.archive import MemberContent, WheelArchive
from situ_release.wheel.contents import package_folder
from situ_release.wheel.dist_info import dist_info_folder, read_metadata

if TYPE_CHECKING:
    from situ_release.bundle.approvals import Approvals
    from situ_release.bundle.evidence import Evidence

Fact = TypeVar("Fact")


@dataclass(frozen=True, slots=True)
class BundledCubin:
    """A cubin of the manifest and, where its member can be read, what its ELF says.

    Attributes:
        entry: the manifest's entry.
        member: its name in the archive.
        cubin: None where the member is missing, damaged or no cubin.
        problems: why it is no cubin; empty where the member is missing or damaged, which the
            checks of the archive and of the manifest report.
    """

    entry: CubinEntry
    member: str
    cubin: Cubin | None
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class GateInputs:
    """What was taken down about the wheel beside it.

    Attributes:
        approvals: the reviewers' decisions, None where no file was given.
        allowed_signers: identities and keys of those who may decide, None where none was given.
        evidence: of a smoke run, None where none was given.
        today: decides whether an approval has expired.
    """

    approvals: Approvals | None
    allowed_signers: Path | None
    evidence: Evidence | None
    today: dt.date


class Context:
    """One wheel under verification.

    Args:
        archive: the examined file.
        contents: gives the scan of every file member, bytes included.
        recipe: the recipe the caller chose, None to find it.
        gate: what the checks of the gate look at, None where they do not run.
    """

    def __init__(
        self,
        archive: WheelArchive,
        contents: Callable[[], dict[str, MemberContent]],
        recipe: LoadedRecipe | None = None,
        gate: GateInputs | None = None,
    ) -> None:
        self.archive = archive
        self._contents = contents
        self._chosen_recipe = recipe
        self._gate = gate

    @property
    def filename(self) -> str:
        """The wheel's file name."""
        return self.archive.path.name

    @property
    def gate(self) -> GateInputs:
        """What was taken down beside the wheel."""
        if self._gate is None:
            raise LookupError("a check of the gate runs without its inputs")
        return self._gate

    @property
    def has_evidence(self) -> bool:
        """Whether the evidence of a smoke run is looked at, too."""
        return self._gate is not None and self._gate.evidence is not None

    @cached_property
    def sha256(self) -> str:
        """The digest of the whole file, which approvals and evidence are bound to."""
        return self.archive.sha256

    # --- members ---------------------------------------------------------------------------

    @cached_property
    def scanned(self) -> Mapping[str, MemberContent]:
        """Every file member that the archive lists, damaged ones included; empty for no archive."""
        return self._contents()

    @property
    def contents(self) -> Mapping[str, MemberContent]:
        """Every file member; there is at least one."""
        if not self.scanned:
            raise Unchecked("wheel.archive", self.filename)
        return self.scanned

    def data(self, member: str) -> bytes | None:
        """A member's bytes; None where it is missing or damaged."""
        content = self.contents.get(member)
        return None if content is None else content.data

    @cached_property
    def dist_info_or_problems(self) -> str | tuple[Problem, ...]:
        """The one ``*.dist-info`` folder, or why there is none."""
        try:
            return dist_info_folder(self.contents, self.filename)
        except InputError as error:
            return error.problems

    @property
    def dist_info(self) -> str:
        """The one ``*.dist-info`` folder."""
        return _or_unchecked(self.dist_info_or_problems, "wheel.metadata", self.filename)

    @cached_property
    def metadata_or_problems(self) -> Metadata | tuple[Problem, ...]:
        """METADATA, or why it cannot be read."""
        member = f"{self.dist_info}/METADATA"
        data = self.data(member)
        if data is None:
            found = "it is damaged" if member in self.contents else "none"
            return (Problem("the wheel has no readable METADATA", member, "the file", found),)
        try:
            return read_metadata(data, member)
        except InputError as error:
            return error.problems

    @property
    def metadata(self) -> Metadata:
        """METADATA."""
        member = f"{self.dist_info}/METADATA"
        return _or_unchecked(self.metadata_or_problems, "wheel.metadata", member)

    # --- manifest and recipe ---------------------------------------------------------------

    @cached_property
    def package_or_problems(self) -> str | tuple[Problem, ...]:
        """The import package's folder, which is the one with a manifest, or why there is none."""
        try:
            return package_folder(self.contents, self.filename)
        except InputError as error:
            return error.problems

    @property
    def package(self) -> str:
        """The import package's folder."""
        return _or_unchecked(self.package_or_problems, "manifest.schema", self.filename)

    @property
    def manifest_member(self) -> str:
        """The manifest's name in the archive."""
        return f"{self.package}/{MANIFEST_NAME}"

    @cached_property
    def manifest_or_problems(self) -> Manifest | tuple[Problem, ...]:
        """The manifest, or why there is none."""
        if isinstance(self.package_or_problems, tuple):
            return self.package_or_problems
        data = self.data(self.manifest_member)
        if data is None:
            return (Problem("the manifest is damaged in the archive", self.manifest_member),)
        try:
            return read_manifest(data, self.manifest_member)
        except InputError as error:
            return error.problems

    @property
    def manifest(self) -> Manifest:
        """The manifest."""
        return _or_unchecked(self.manifest_or_problems, "manifest.schema", self.filename)

    @cached_property
    def loaded_recipe_or_problems(self) -> LoadedRecipe | tuple[Problem, ...]:
        """The recipe: the caller's, the manifest's, else the one of this distribution."""
        if self._chosen_recipe is not None:
            return self._chosen_recipe
        manifest = self.manifest_or_problems if self.scanned else ()
        named = None if isinstance(manifest, tuple) else manifest.recipe
        try:
            distribution = self.filename.split("-", 1)[0]
            return find_recipe(distribution, named.name if named else None, self.filename)
        except InputError as error:
            return error.problems

    @property
    def loaded_recipe(self) -> LoadedRecipe:
        """The recipe with its digest and path."""
        return _or_unchecked(self.loaded_recipe_or_problems, "manifest.recipe", self.filename)

    @property
    def recipe(self) -> Recipe:
        """The recipe."""
        return self.loaded_recipe.recipe

    @cached_property
    def lock(self) -> Lock | None:
        """The reviewed digests beside the recipe, None where there are none."""
        return load_lock(self.loaded_recipe.path)

    # --- binaries --------------------------------------------------------------------------

    @cached_property
    def cubins(self) -> tuple[BundledCubin, ...]:
        """The manifest's cubins, read."""
        return tuple(self._read(entry) for entry in self.manifest.cubins)

    def each_cubin(self) -> Iterator[tuple[BundledCubin, Cubin]]:
        """The cubins that can be read; ends in :class:`Unchecked` when one cannot."""
        unread = None
        for bundled in self.cubins:
            if bundled.cubin is None:
                unread = unread or bundled
            else:
                yield bundled, bundled.cubin
        if unread:
            there = unread.member in self.contents
            raise Unchecked("cubin.format" if there else "manifest.files", unread.member)

    def _read(self, entry: CubinEntry) -> BundledCubin:
        member = f"{self.package}/{entry.path}"
        data = self.data(member)
        if data is None:
            return BundledCubin(entry, member, None)
        try:
            return BundledCubin(entry, member, read_cubin(data, member))
        except InputError as error:
            return BundledCubin(entry, member, None, error.problems)

    @property
    def runner_member(self) -> str:
        """The runner's name in the archive."""
        return f"{self.package}/{self.manifest.runner.path}"

    @cached_property
    def runner_or_problems(self) -> Runner | tuple[Problem, ...]:
        """The runner, or why the file is no x86-64 shared object."""
        member = self.runner_member
        content = self.contents.get(member)
        if content is None:
            raise Unchecked("manifest.files", member)
        if content.data is None:
            return (Problem("the runner is damaged in the archive", member),)
        try:
            runner = read_runner(content.data, member)
        except InputError as error:
            return error.problems
        if not runner.is_x86_64_shared_object:
            return (
                Problem(
                    "the runner is not an x86-64 shared object",
                    member,
                    expected="an ELF shared object for x86-64",
                    found=describe_content(content.data),
                ),
            )
        return runner

    @property
    def runner(self) -> Runner:
        """The runner."""
        return _or_unchecked(self.runner_or_problems, "runner.format", self.runner_member)

    # --- coverage --------------------------------------------------------------------------

    @cached_property
    def bundled(self) -> Mapping[str, str]:
        """SHA-256 of the manifest's cubins that are there, by kernel name.

        Raises:
            InputError: a file name that is no kernel's.
        """
        members = {entry.filename: f"{self.package}/{entry.path}" for entry in self.manifest.cubins}
        return {
            kernel_of_filename(filename): self.contents[member].sha256
            for filename, member in members.items()
            if member in self.contents
        }

    @cached_property
    def coverage(self) -> tuple[DeviceCoverage, ...]:
        """Coverage on the recipe's targets.

        Raises:
            InputError: a kernel name that the grammar does not know, or unknown tactic rules.
        """
        model = CoverageModel(self.recipe, self.runner.kernel_table)
        return tuple(model.device(sm, self.bundled) for sm in self.recipe.target.sms)


def _or_unchecked(fact: Fact | tuple[Problem, ...], prerequisite: str, subject: str) -> Fact:
    if isinstance(fact, tuple):
        raise Unchecked(prerequisite, subject)
    return fact
