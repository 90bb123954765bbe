"""``make demo``: rebuild the published wheel with the five commands, and compare.

Without a reachable index the same runs on a small synthetic bundle that the demo makes itself.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

from tests.compare import compare_wheels
from tests.pipeline import rebuild
from tests.published import CURRENT, NotFetchedError, cache_folder, published

FOLDER = Path("build/demo")


def main() -> None:
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    recipe = None
    try:
        print(f"tokenspeed-situ {CURRENT} from the package index, kept in {cache_folder()}")
        wheel = published()
    except NotFetchedError as error:
        print(f"The published wheel cannot be fetched: {error}")
        print(
            "The same on a SYNTHETIC bundle of 8 small cubins follows; it proves the commands only."
        )
        wheel, recipe = synthetic_release(FOLDER / "synthetic")
    run = rebuild(wheel, FOLDER, recipe)
    # The synthetic wheel was not recovered, so its manifest is the shorter one.
    rows = compare_wheels(wheel, run.wheel, with_size=recipe is None)
    title = "published" if recipe is None else "SYNTHETIC"
    print(f"\n{run.wheel.name}\nrebuilt, against the {title} wheel {wheel.name}\n")
    width = max(len(row.what) for row in rows)
    for row in rows:
        print(f"  {'same     ' if row.same else 'DIFFERENT'}  {row.what:<{width}}  {row.detail}")
    print()
    for step in run.steps:
        print(f"  {step.command:<13} {step.seconds:6.2f} s  {step.peak_mib:5.0f} MiB peak")
    print(f"  {'together':<13} {run.seconds:6.2f} s")
    if not all(row.same for row in rows):
        sys.exit("the rebuilt wheel differs from the published one")


def synthetic_release(folder: Path) -> tuple[Path, Path]:
    """A bundle wheel of synthetic cubins, made by the tool itself, and its recipe."""
    from situ_release.wheel.build import build_wheel
    from situ_release.wheel.repair import repair_wheel
    from tests.synth.inputs import make_inputs

    os.environ.setdefault("SOURCE_DATE_EPOCH", "1785024000")
    inputs = make_inputs(folder, layout="files")
    # A version of its own, so that nobody takes the wheel for a release.
    inputs.edit_recipe(lambda text: re.sub(r'(?m)^version = ".*"$', 'version = "0.dev0"', text))
    staged = inputs.stage()
    raw = build_wheel(staged.payload, folder / "raw")
    repaired = repair_wheel(raw.path, folder / "dist", inputs.recipe.recipe)
    return repaired.path, inputs.recipe_path


if __name__ == "__main__":
    main()
