"""A bundle wheel opened: its manifest, its recipe, and the binaries' own words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from situ_release.bundle.manifest import MANIFEST_NAME, Manifest, read_manifest
from situ_release.bundle.recipe import LoadedRecipe, find_recipe, load_recipe
from situ_release.sources.kernel_name import kernel_of_filename
from situ_release.sources.runner import Runner, read_runner
from situ_release.wheel.archive import MemberContent, WheelArchive, on_all_cores, open_wheel
from situ_release.wheel.contents import package_folder


@dataclass(frozen=True)
class BundleWheel:
    """A wheel with exactly one import package that has a manifest.

    Attributes:
        archive: the opened file.
        package: the import package's folder in it.
        manifest: the package's manifest.
        loaded: the recipe: the caller's, the manifest's, or that of the distribution.
    """

    archive: WheelArchive
    package: str
    manifest: Manifest
    loaded: LoadedRecipe

    @property
    def runner_member(self) -> str:
        """The runner's name in the archive."""
        return f"{self.package}/{self.manifest.runner.path}"

    @cached_property
    def runner_bytes(self) -> bytes:
        """The runner's content (InputError where the archive does not hold it)."""
        return self.archive.read(self.runner_member)

    @cached_property
    def runner(self) -> Runner:
        """What the runner says about itself (InputError where it is no library)."""
        return read_runner(self.runner_bytes, f"{self.archive.path}: {self.runner_member}")

    @cached_property
    def cubins(self) -> Mapping[str, MemberContent]:
        """The cubins that the archive really holds undamaged, by kernel name, without their bytes.

        Raises:
            InputError: the manifest names a file that is no kernel's.
        """
        kernels = {
            f"{self.package}/{entry.path}": kernel_of_filename(entry.filename)
            for entry in self.manifest.cubins
        }
        members = [member for member in self.archive.files if member.name in kernels]
        contents = on_all_cores(lambda member: self.archive.content(member, keep=False), members)
        return {
            kernels[member.name]: content
            for member, content in zip(members, contents, strict=True)
            if content.fault is None
        }

    @property
    def digests(self) -> Mapping[str, str]:
        """SHA-256 of the bundled cubins by kernel name: the files', not the manifest's."""
        return {kernel: content.sha256 for kernel, content in self.cubins.items()}

    @property
    def sizes(self) -> Mapping[str, int]:
        """Bytes of the bundled cubins by kernel name."""
        return {kernel: content.size for kernel, content in self.cubins.items()}


def open_bundle(wheel: Path, recipe: str | None = None) -> BundleWheel:
    """Open a bundle wheel and find its recipe.

    Args:
        wheel: the file.
        recipe: a shipped recipe's name or a path, instead of the one that the wheel names.

    Raises:
        InputError: no sound wheel, no or several manifests, or no recipe for it.
        UsageError: there is no recipe of the given name.
    """
    archive = open_wheel(wheel)
    package = package_folder((member.name for member in archive.files), str(wheel))
    member = f"{package}/{MANIFEST_NAME}"
    manifest = read_manifest(archive.read(member), f"{wheel}: {member}")
    if recipe is not None:
        loaded = load_recipe(recipe)
    else:
        named = manifest.recipe.name if manifest.recipe else None
        loaded = find_recipe(wheel.name.split("-", 1)[0], named, str(wheel))
    return BundleWheel(archive, package, manifest, loaded)
