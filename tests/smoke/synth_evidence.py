"""Evidence of a run that went well, to be changed."""

from __future__ import annotations

from typing import Any

from situ_release.bundle.binaries import binaries_sha256, device_code
from situ_release.bundle.evidence import Evidence, terms_sha256
from situ_release.bundle.manifest import Manifest
from situ_release.bundle.recipe import Recipe
from situ_release.sources.runner import Runner


def good_evidence(
    recipe: Recipe, manifest: Manifest, runner: Runner, /, **changes: Any
) -> Evidence:
    """Every mandatory tier passed on the first target device.

    Args:
        recipe: what was demanded.
        manifest: of the wheel that ran, with device-code digests.
        runner: its runner.
        changes: top-level keys, instead of the good ones.
    """
    digests = {entry.path: entry.device_code_sha256 or "" for entry in manifest.cubins}
    document: dict[str, Any] = {
        "schema": "situ-release/evidence/1",
        "recipe": recipe.name,
        "recipe_sha256": "0" * 64,
        "terms_sha256": terms_sha256(recipe),
        "tolerance": recipe.smoke.tolerance,
        "scope": {"short": False, "seeds": 1},
        "wheel": {
            "filename": "bundle.whl",
            "sha256": "1" * 64,
            "runner_sha256": manifest.runner.sha256,
            "binaries_sha256": binaries_sha256(manifest),
            "device_code": device_code(digests, runner.device_modules),
        },
        "host": {
            "devices": [{"name": "NVIDIA B300", "sm": recipe.target.sms[0], "memory_bytes": 1}],
            "driver_version": "580.1",
            "driver_cuda": "13.0",
            "runtime_cuda": "13.0",
        },
        "versions": {
            "situ_release": "0.1.0",
            "python": "3.12.3",
            "glibc": "2.39",
            "apache_tvm_ffi": "0.1.15",
            "torch": "2.11.0",
        },
        "tiers": [
            {"name": name, "status": "pass", "problems": []} for name in recipe.smoke.mandatory
        ],
        "cases": [],
        "mutants": [],
        "advisories": [],
        "not_run": [],
        "times": {"started_at": "2026-07-27T04:03:28+00:00", "seconds": {}},
    }
    return Evidence.model_validate({**document, **changes})
