"""Tier ``cubins``: the driver loads every cubin that is made for this device."""

from __future__ import annotations

from collections import defaultdict

from situ_release.bundle.evidence import NotRun
from situ_release.smoke.run import Run, TierResult, conclude
from situ_release.sources.kernel_name import kernel_of_filename
from situ_release.sources.sm_target import runs_on, target_name

LIMIT_S = 120.0


def cubins(run: Run) -> TierResult:
    """Load the cubins, grouped by role and architecture."""
    groups: dict[str, list[dict[str, str]]] = defaultdict(list)
    foreign: dict[str, int] = defaultdict(int)
    for entry in run.bundle.manifest.cubins:
        kernel = kernel_of_filename(entry.filename)
        arch = kernel.rpartition("_")[2]
        if runs_on(int(arch.strip("smaf")), arch.lstrip("sm0123456789"), run.sm):
            groups[f"{entry.role} {arch}"].append({"path": entry.path, "kernel": kernel})
        else:
            foreign[arch] += 1
    for arch, count in sorted(foreign.items()):
        reason = f"{count} cubins for {arch}, which {target_name(run.sm)} does not run"
        run.not_run.append(NotRun(tier="cubins", reason=reason))
    request = {
        "driver_soname": run.recipe.runtime.cuda_driver_soname,
        "folder": str(run.bundle.root / run.bundle.package),
        "groups": [{"name": name, "cubins": files} for name, files in sorted(groups.items())],
    }
    outcome = run.child("cubins", "cubins", request, LIMIT_S)
    return conclude([outcome], run.record("cubins", outcome))
