"""Fields of ``approve``."""

from __future__ import annotations

from dataclasses import dataclass

from situ_release.cli.output.common import FileDigest


@dataclass(frozen=True)
class ApproveOutput:
    """The decision that was recorded; ``expires`` is null for one without an end.

    ``checked`` tells whether the signature was held against a file of allowed signers.
    """

    approvals: str
    wheel: FileDigest
    kind: str
    decision: str
    text: str
    reference: str
    date: str
    expires: str | None
    identity: str
    checked: bool
