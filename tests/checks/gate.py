"""What the gate looks at beside a wheel: a signer, signed decisions, evidence."""

from __future__ import annotations

import datetime as dt
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from situ_release.bundle.approvals import NAMESPACE, Approval, Approvals, make_approval
from situ_release.bundle.evidence import Evidence
from situ_release.bundle.publication_policy import APPROVAL_KINDS
from situ_release.checks.context import GateInputs
from situ_release.digests import sha256_file
from situ_release.wheel.bundle import open_bundle
from tests.smoke.synth_evidence import good_evidence

IDENTITY = "reviewer@example.org"
TODAY = dt.date(2026, 8, 3)
DECIDED = dt.date(2026, 8, 1)


@dataclass(frozen=True)
class Signer:
    """A key made for a test, and a file that allows it everything."""

    key: Path
    allowed: Path

    def allow(self, path: Path, *, identity: str = IDENTITY, namespaces: str = "") -> Path:
        """Another file of allowed signers with this key."""
        options = f' namespaces="{namespaces}"' if namespaces else ""
        public = self.key.with_suffix(".pub").read_text().split()
        path.write_text(f"{identity}{options} {public[0]} {public[1]}\n")
        return path

    def approve(self, wheel: Path, kind: str, **changes: Any) -> Approval:
        """A signed record about the wheel."""
        fields = {
            "kind": kind,
            "decision": "approved",
            "wheel": wheel.name,
            "sha256": sha256_file(wheel),
            "text": f"Nothing stands against it as far as {kind} goes.",
            "reference": "CASE-7",
            "date": DECIDED,
            "identity": IDENTITY,
        }
        return make_approval(self.key, **{**fields, **changes})

    def approve_all(self, wheel: Path) -> list[Approval]:
        return [self.approve(wheel, kind) for kind in APPROVAL_KINDS]


def make_signer(folder: Path) -> Signer:
    if shutil.which("ssh-keygen") is None:
        pytest.skip("ssh-keygen is not on the PATH")
    folder.mkdir(parents=True, exist_ok=True)
    key = folder / "id_ed25519"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    signer = Signer(key, folder / "allowed_signers")
    signer.allow(signer.allowed, namespaces=f"{NAMESPACE}/*")
    return signer


def evidence_of(wheel: Path, recipe: Path | None = None, **changes: Any) -> Evidence:
    """Evidence of a run of this wheel that went well."""
    bundle = open_bundle(wheel, str(recipe) if recipe else None)
    good = good_evidence(bundle.loaded.recipe, bundle.manifest, bundle.runner)
    own = good.wheel.model_copy(update={"filename": wheel.name, "sha256": sha256_file(wheel)})
    return good.model_copy(update={"wheel": own, **changes})


def document(records: list[Approval]) -> Approvals:
    return Approvals.model_validate({"schema": 1, "approvals": records})


def gate(
    records: list[Approval] | None, signers: Path | None, evidence: Evidence | None
) -> GateInputs:
    """The inputs of the gate on :data:`TODAY`."""
    return GateInputs(None if records is None else document(records), signers, evidence, TODAY)
