"""``situ-release approve``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from situ_release.cli.command import Outcome, execute
from situ_release.cli.console import Console

if TYPE_CHECKING:
    from situ_release.bundle.approvals import Approval

_KINDS = "nvidia-redistribution, model-owner, export-control, license or release-provenance"


def approve(
    wheel: Annotated[Path, typer.Argument(readable=False, help="The wheel that was decided on.")],
    kind: Annotated[str, typer.Option(help=f"What was decided: {_KINDS}.")],
    decision: Annotated[str, typer.Option(help="approved, conditional or rejected.")],
    text: Annotated[str, typer.Option(help="The decision in words, conditions included.")],
    reference: Annotated[str, typer.Option(help="Where the decision is on file.")],
    key: Annotated[
        Path,
        typer.Option(
            readable=False, help="SSH key to sign with: private, or public with an agent."
        ),
    ],
    identity: Annotated[
        str, typer.Option(help="Who decides, as the file of allowed signers names them.")
    ],
    approvals: Annotated[
        Path, typer.Option(readable=False, help="File that the decision is appended to.")
    ] = Path("approvals.toml"),
    date: Annotated[
        Optional[str], typer.Option(help="Day of the decision, YYYY-MM-DD. [default: today]")
    ] = None,
    expires: Annotated[
        Optional[str], typer.Option(help="Last day on which it counts, YYYY-MM-DD.")
    ] = None,
    allowed_signers: Annotated[
        Optional[Path],
        typer.Option(
            readable=False, help="Record only what these signers may decide, as in ssh-keygen(1)."
        ),
    ] = None,
) -> None:
    """Record a reviewer's decision, bound to the wheel's SHA-256 and signed."""

    def work(console: Console) -> Outcome:
        import datetime as dt

        from situ_release.atomic import check_new_file
        from situ_release.bundle.approvals import add_approval, check_signature, make_approval
        from situ_release.digests import sha256_file
        from situ_release.wheel.archive import open_wheel

        check_new_file(approvals, [wheel, key, allowed_signers])
        open_wheel(wheel)  # anything else is not what somebody decided on
        record = make_approval(
            key,
            kind=kind,
            decision=decision,
            wheel=wheel.name,
            sha256=sha256_file(wheel),
            text=text,
            reference=reference,
            date=date or dt.datetime.now(dt.timezone.utc).date().isoformat(),
            expires=expires,
            identity=identity,
        )
        if allowed_signers is not None:
            check_signature(record, allowed_signers)
        add_approval(approvals, record)
        return _outcome(wheel, approvals, record, checked=allowed_signers is not None)

    execute("approve", work)


def _outcome(wheel: Path, approvals: Path, record: Approval, *, checked: bool) -> Outcome:
    from situ_release.cli.output.approve import ApproveOutput
    from situ_release.cli.output.common import FileDigest

    def show(console: Console) -> None:
        until = f", until {record.expires}" if record.expires else ""
        console.line(f"{record.kind}: {record.decision} by {record.identity}{until}")
        console.line(f"  wheel      {record.wheel}")
        console.line(f"  SHA-256    {record.sha256}")
        console.line(f"  reference  {record.reference}")
        console.line(f"  text       {record.text}")
        console.line(f"appended to {approvals}")
        if not checked:
            console.line("Not checked whether this signer may decide (--allowed-signers).")

    return Outcome(
        ApproveOutput(
            approvals=str(approvals),
            wheel=FileDigest(str(wheel), record.sha256),
            kind=record.kind,
            decision=record.decision,
            text=record.text,
            reference=record.reference,
            date=record.date.isoformat(),
            expires=record.expires.isoformat() if record.expires else None,
            identity=record.identity,
            checked=checked,
        ),
        show,
    )
