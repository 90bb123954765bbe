"""Coverage of a wheel: its runner's selection against the cubins it holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from situ_release.bundle.coverage import CoverageModel, DeviceCoverage
from situ_release.bundle.recipe import LoadedRecipe
from situ_release.errors import UsageError
from situ_release.sources.runner import Runner
from situ_release.wheel.bundle import open_bundle

KNOWN_SMS = (75, 80, 86, 87, 88, 89, 90, 100, 101, 103, 110, 120, 121)
"""SM numbers that CUDA 13 compiles for."""

COMPARED_SMS = (90, 100, 103, 120)
"""Devices that are shown beside the targets: what a bundle would do elsewhere."""


@dataclass(frozen=True, slots=True)
class WheelCoverage:
    """The coverage of one wheel.

    Attributes:
        sha256: digest of the wheel as it was read.
        loaded: its recipe.
        runner: what its runner says.
        model: the runner's selection, to ask for tactic lists.
        sizes: bytes of each bundled cubin by kernel name.
        devices: one per SM number, ascending.
    """

    sha256: str
    loaded: LoadedRecipe
    runner: Runner
    model: CoverageModel
    sizes: Mapping[str, int]
    devices: tuple[DeviceCoverage, ...]

    def runs_on(self, sm: int) -> bool:
        """Whether any device code embedded in the runner runs there (true where it has none)."""
        modules = self.runner.device_modules
        return not modules or any(module.runs_on(sm) for module in modules)


def cover_wheel(wheel: Path, recipe: str | None, sms: Iterable[int] | None) -> WheelCoverage:
    """Compute a wheel's coverage.

    Args:
        wheel: the bundle wheel.
        recipe: instead of the one that the wheel names.
        sms: SM numbers; the recipe's targets and :data:`COMPARED_SMS` by default.

    Raises:
        UsageError: an SM number that no device has.
        InputError: no sound bundle wheel, or a kernel name that the grammar does not know.
    """
    unknown = [sm for sm in sms or () if sm not in KNOWN_SMS]
    if unknown:
        raise UsageError.of(
            "there is no such device",
            "--sm",
            expected=f"one of {', '.join(map(str, KNOWN_SMS))}",
            found=", ".join(map(str, unknown)),
            remedy="give the SM number: 103 for sm_103",
        )
    bundle = open_bundle(wheel, recipe)
    model = CoverageModel(bundle.loaded.recipe, bundle.runner.kernel_table)
    targets = bundle.loaded.recipe.target.sms
    wanted = sorted({*(sms or COMPARED_SMS), *(targets if not sms else ())})
    return WheelCoverage(
        bundle.archive.sha256,
        bundle.loaded,
        bundle.runner,
        model,
        bundle.sizes,
        tuple(model.device(sm, bundle.digests) for sm in wanted),
    )
