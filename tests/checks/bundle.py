"""A synthetic bundle that passes every check without a warning, to break in one place at a time."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from situ_release import resources
from situ_release.bundle.lock import dump_lock, lock_of
from situ_release.bundle.manifest import read_manifest
from situ_release.bundle.recipe import Recipe, load_recipe
from situ_release.bundle.sbom import sbom
from situ_release.bundle.template import rendered_files, template_values
from situ_release.checks.model import CheckResult, VerifyReport
from situ_release.checks.verify import verify_wheel
from situ_release.digests import sha256_bytes
from situ_release.errors import InputError
from tests.synth.elf import make_cubin, make_fatbin
from tests.synth.wheel import (
    DIST_INFO,
    MANIFEST,
    RUNNER,
    VERSION,
    Edit,
    Files,
    bundle_files,
    cubin_of,
    cubin_path,
    edit_manifest,
    exchange,
    kernels,
    make_wheel,
    mini_recipe_text,
    runner_for,
)

PACKAGE = MANIFEST.split("/", 1)[0]
METADATA = f"{DIST_INFO}/METADATA"
SBOM = f"{DIST_INFO}/sboms/tokenspeed-situ.cdx.json"
EXPRESSION = "MIT AND Apache-2.0 AND LicenseRef-Proprietary"
FATBIN = make_fatbin(make_cubin("bmm_routing_sm103a"))
"""Device code for the recipe's one target, as the runner embeds it."""

KERNELS = [kernel for family in kernels().values() for kernel in family]
FC1 = KERNELS[0]
"""The first kernel: w4a16, FC1, sm103a."""
W4A8 = KERNELS[-1]
"""The last kernel: w4a8, FC2, sm100f."""


def cubin_member(kernel: str) -> str:
    return f"{PACKAGE}/{cubin_path(kernel)}"


def recipe_text() -> str:
    """The synthetic recipe with nothing left blank."""
    text = mini_recipe_text()
    for key, value in {
        "runner_license": "Apache-2.0",
        "classification": "EAR99",
        "basis": "synthetic",
        "reviewer": "A. Reviewer",
        "date": "2026-07-28",
    }.items():
        text = text.replace(f'{key} = ""', f'{key} = "{value}"')
    old = 'license_expression = "LicenseRef-Proprietary"'
    return text.replace(old, f'license_expression = "{EXPRESSION}"')


def sound(files: Files) -> None:
    """The edit that settles what the synthetic wheel leaves open: licence, recipe and snapshot."""
    old = b"License-Expression: LicenseRef-Proprietary"
    files[METADATA] = files[METADATA].replace(old, f"License-Expression: {EXPRESSION}".encode())

    recipe = sound_recipe()
    texts = rendered_files(
        resources.payload_templates() / recipe.template, template_values(recipe, VERSION)
    )
    for name, text in texts.items():
        if name.startswith("package/"):
            files[f"{PACKAGE}/{name.removeprefix('package/')}"] = text.encode()
        elif f"{DIST_INFO}/licenses/{name}" in files:
            files[f"{DIST_INFO}/licenses/{name}"] = text.encode()

    def settle(document: dict[str, Any]) -> None:
        document["recipe"] = {
            "name": "kimi-k3-situ",
            "sha256": sha256_bytes(recipe_text().encode()),
        }
        document["snapshot"] = {
            "version": "0.6.13rc1",
            "kind": "git",
            "commit": "c0" * 20,
            "tree": "7e" * 20,
            "dirty": False,
            "branch": "main",
        }

    edit_manifest(settle)(files)


def add_sbom(files: Files) -> None:
    """The edit that gives a wheel its bill of materials, unless it has one or cannot have one."""
    if SBOM in files or MANIFEST not in files:
        return
    with suppress(InputError):
        manifest = read_manifest(files[MANIFEST], MANIFEST)
        files[SBOM] = sbom(manifest, files[MANIFEST], sound_recipe())


@cache
def sound_recipe() -> Recipe:
    """The recipe of the sound bundle."""
    with tempfile.TemporaryDirectory() as folder:
        return load_recipe(str(write_recipe(Path(folder), lock=False))).recipe


def both(first: Edit, second: Edit | None) -> Edit:
    """``first``, then ``second``."""

    def edit(files: Files) -> None:
        first(files)
        if second:
            second(files)

    return edit


def write_recipe(folder: Path, text: str | None = None, lock: bool = True) -> Path:
    """The recipe and, beside it, the lock of the sound bundle's binaries."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "kimi-k3-situ.toml"
    path.write_text(text or recipe_text(), encoding="utf-8")
    if lock:
        manifest = read_manifest(bundle_files(fatbin=FATBIN, style="ours")[MANIFEST], MANIFEST)
        text = dump_lock(lock_of(manifest, "kimi-k3-situ"))
        (folder / "kimi-k3-situ.lock.json").write_text(text, encoding="utf-8")
    return path


def sound_wheel(
    folder: Path,
    *,
    edit: Edit | None = None,
    tamper: Edit | None = None,
    **knobs: Any,
) -> Path:
    """The sound bundle, broken by the given knobs (see ``make_wheel``)."""
    knobs.setdefault("fatbin", FATBIN)
    return make_wheel(
        folder, style="ours", edit=both(both(sound, edit), add_sbom), tamper=tamper, **knobs
    )


def verify(
    folder: Path,
    *,
    recipe: str | None = None,
    lock: Callable[[dict[str, Any]], object] | None = None,
    after: Callable[[Path], object] | None = None,
    **knobs: Any,
) -> VerifyReport:
    """Verify the sound bundle after breaking it.

    Args:
        folder: where recipe and wheel are written.
        recipe: the recipe's text, instead of the sound one.
        lock: changes the lock's document.
        after: changes the finished wheel's file.
        knobs: see :func:`sound_wheel`.
    """
    recipe_path = write_recipe(folder, recipe)
    if lock:
        lock_path = recipe_path.with_suffix(".lock.json")
        document = json.loads(lock_path.read_text())
        lock(document)
        lock_path.write_text(json.dumps(document))
    wheel = sound_wheel(folder, **knobs)
    if after:
        after(wheel)
    return verify_wheel(wheel, recipe=str(recipe_path))


def compiled_with(changed: Mapping[str, bytes], *, also: Mapping[str, bytes] = {}) -> Edit:
    """Exchange cubins (by kernel) and the runner, so that everything but the content agrees.

    Args:
        changed: new bytes of bundled kernels.
        also: further kernels for the runner's table only.
    """
    cubins = {kernel: cubin_of(kernel) for kernel in KERNELS} | changed

    def edit(files: Files) -> None:
        for kernel, data in changed.items():
            exchange(cubin_member(kernel), data)(files)
        exchange(RUNNER, runner_for({**cubins, **also}, fatbin=FATBIN))(files)

    return edit


def result(report: VerifyReport, check_id: str) -> CheckResult:
    """The result of one check."""
    (found,) = (check for check in report.checks if check.id == check_id)
    return found


def statuses(report: VerifyReport) -> dict[str, str]:
    """Status by id of every check that did not pass."""
    return {check.id: check.status for check in report.checks if check.status != "pass"}
