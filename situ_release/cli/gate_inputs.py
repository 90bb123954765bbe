"""What the gate to publication looks at, from the options of the commands that judge by it."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from situ_release.checks.context import GateInputs


def gate_inputs(
    approvals: Path | None,
    allowed_signers: Path | None,
    evidence: Path | None,
    *,
    reproducible: bool = False,
) -> GateInputs:
    """Read approvals and evidence, as far as they were given.

    Args:
        approvals: file of ``approve``.
        allowed_signers: identities and keys.
        evidence: file of ``gpu-smoke``.
        reproducible: whether an approval has expired is judged by SOURCE_DATE_EPOCH where it is
            set. That is for documents; the gate itself goes by the clock, because no environment
            may make an expired approval count.

    Raises:
        InputError: a file cannot be read or is malformed.
        UsageError: SOURCE_DATE_EPOCH is not usable.
        HostError: there are signatures to check and this host cannot.
    """
    from situ_release.bundle.approvals import load_approvals
    from situ_release.bundle.evidence import load_evidence
    from situ_release.bundle.provenance import source_date_epoch
    from situ_release.bundle.ssh_signature import find_ssh_keygen
    from situ_release.checks.context import GateInputs

    if approvals is not None and allowed_signers is not None:
        # Before any check runs: a host that cannot check signatures has found no fault yet.
        find_ssh_keygen()
    epoch = source_date_epoch(os.environ) if reproducible else None
    utc = dt.timezone.utc
    now = dt.datetime.now(utc) if epoch is None else dt.datetime.fromtimestamp(epoch, utc)
    return GateInputs(
        approvals=None if approvals is None else load_approvals(approvals),
        allowed_signers=allowed_signers,
        evidence=None if evidence is None else load_evidence(evidence),
        today=now.date(),
    )
