"""What stands beside a wheel: evidence of a complete run, and approvals with real signatures."""

from __future__ import annotations

import datetime as dt
import subprocess
from pathlib import Path
from typing import Any

from situ_release.bundle.approvals import Approvals, make_approval
from situ_release.bundle.evidence import Evidence, terms_sha256
from situ_release.bundle.recipe import Recipe
from situ_release.checks.context import GateInputs

TODAY = dt.date(2026, 8, 1)
REVIEWER = "reviewer@example.org"
NOTHING = GateInputs(approvals=None, allowed_signers=None, evidence=None, today=TODAY)


def evidence(wheel: Path, sha256: str, recipe: Recipe, **changes: Any) -> Evidence:
    """A run in which every mandatory tier passed on the target; ``changes`` replace top keys."""
    contracts = [contract.name for contract in recipe.contracts]
    figures = {"cosine": 0.99995, "relative_l2": 1.5e-4, "worst_token": 1e-3, "outside": 0.0}
    document: dict[str, Any] = {
        "schema": "situ-release/evidence/1",
        "recipe": recipe.name,
        "recipe_sha256": "0" * 64,
        "terms_sha256": terms_sha256(recipe),
        "tolerance": recipe.smoke.tolerance.model_dump(),
        "scope": {"short": False, "seeds": 1},
        "wheel": {
            "filename": wheel.name,
            "sha256": sha256,
            "runner_sha256": "1" * 64,
            "binaries_sha256": "2" * 64,
            "device_code": {"cubins_sha256": "3" * 64, "runner_sha256": "4" * 64},
        },
        "host": {
            "devices": [{"name": "NVIDIA B300", "sm": 103, "memory_bytes": 1 << 38}],
            "driver_version": "580.95",
            "driver_cuda": "13.0",
            "runtime_cuda": "13.0",
        },
        "versions": {
            "situ_release": "0.1.0",
            "python": "3.12.3",
            "glibc": "2.39",
            "apache_tvm_ffi": "0.1.12",
            "torch": None,
        },
        "tiers": [
            {"name": tier, "status": "pass", "problems": []} for tier in recipe.smoke.mandatory
        ],
        "cases": [
            {
                "tier": "numerics",
                "subject": f"tactic {number}",
                "status": "pass",
                "contract": contract,
                "tokens": 128,
                "figures": {**figures, "cosine": 0.99995 - number * 1e-5},
            }
            for contract in contracts
            for number in range(2)
        ],
        "mutants": [
            {
                "contract": contracts[0],
                "tokens": 128,
                "seed": 0,
                "name": "gate and up swapped",
                "caught": True,
                "broken": ["cosine"],
                "figures": {"cosine": 0.5},
            }
        ],
        "advisories": [],
        "not_run": [{"tier": "rehearsal", "reason": "a device is there"}],
        "times": {"started_at": "2026-07-30T10:00:00+00:00", "seconds": {"load": 0.2}},
    }
    known = Evidence.model_fields
    document = {key: value for key, value in (document | changes).items() if _known(key, known)}
    return Evidence.model_validate(document)


def _known(key: str, fields: Any) -> bool:
    return key == "schema" or key in fields


def approvals(folder: Path, wheel: Path, sha256: str, recipe: Recipe) -> tuple[Approvals, Path]:
    """Every demanded approval, signed by a fresh key, and the file of allowed signers."""
    key = folder / "key"
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(key)]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    signers = folder / "allowed_signers"
    public = key.with_suffix(".pub").read_text().strip()
    signers.write_text(f"{REVIEWER} {public}\n")
    records = [
        make_approval(
            key,
            kind=kind,
            decision="approved",
            wheel=wheel.name,
            sha256=sha256,
            text="Reviewed; nothing stands against it.",
            reference="case 4711",
            date=TODAY - dt.timedelta(days=1),
            identity=REVIEWER,
        )
        for kind in recipe.publication.approvals
    ]
    return Approvals.model_validate({"schema": 1, "approvals": records}), signers
