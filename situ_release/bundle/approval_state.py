"""Where the demanded approvals stand for one very wheel."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from situ_release import resources, toml
from situ_release.bundle.approvals import Approval, Approvals
from situ_release.bundle.publication_policy import APPROVAL_KINDS, ApprovalKind
from situ_release.bundle.ssh_signature import signature_fault

_ELSEWHERE = dt.timedelta(days=1)  # where the day begins earlier than in UTC

Standing = Literal["approved", "conditional", "rejected", "invalid", "missing"]


@dataclass(frozen=True, slots=True)
class ApprovalText:
    """What people read about a kind of approval: its subject, who gives it, what to do."""

    title: str
    who: str
    action: str


@dataclass(frozen=True, slots=True)
class ApprovalState:
    """One approval as it stands for a wheel.

    Attributes:
        kind: ``export-control``.
        decision: what the reviewer decided; ``invalid`` where there is a record that does not count
            (of another wheel, expired, contradicted, or without a good signature), ``missing``
            where there is none.
        demanded: the recipe asks for it; the others are decisions that nobody had to make.
        text: the reviewer's words, or why the record does not count.
    """

    kind: ApprovalKind
    decision: Standing
    demanded: bool = True
    reviewer: str = ""
    date: str = ""
    expires: str = ""
    reference: str = ""
    text: str = ""

    @property
    def satisfied(self) -> bool:
        """Whether it stands no longer against publication.

        Conditions are for people to judge: once they are met, the reviewer approves.
        """
        return self.decision == "approved"


@cache
def approval_texts() -> dict[str, ApprovalText]:
    """The texts of every kind."""
    _, document = toml.load(resources.DATA / "approvals.toml", "file of approval texts")
    return {kind: ApprovalText(**texts) for kind, texts in document.items()}


def approval_states(
    demanded: Iterable[ApprovalKind],
    approvals: Approvals | None,
    wheel_sha256: str,
    allowed_signers: Path | None,
    today: dt.date,
) -> tuple[ApprovalState, ...]:
    """Every demanded approval, and every other decision on this wheel, as it stands.

    Args:
        demanded: the kinds that the recipe asks for.
        approvals: what reviewers recorded, None where nothing was given.
        wheel_sha256: of the wheel that is to be published.
        allowed_signers: identities and keys, None where none were given: then no record counts.
        today: decides whether an approval has expired.

    Raises:
        HostError: a signature must be checked and this host has no ``ssh-keygen``.
        InputError: the file of allowed signers cannot be read.
    """
    wanted = set(demanded)
    records = approvals.approvals if approvals else []
    decided = {record.kind for record in records if record.sha256 == wheel_sha256}
    return tuple(
        _state(
            kind,
            [record for record in records if record.kind == kind],
            wheel_sha256,
            allowed_signers,
            today,
            kind in wanted,
        )
        for kind in APPROVAL_KINDS
        if kind in wanted | decided
    )


def _state(
    kind: ApprovalKind,
    records: list[Approval],
    wheel_sha256: str,
    allowed_signers: Path | None,
    today: dt.date,
    demanded: bool,
) -> ApprovalState:
    mine = [record for record in records if record.sha256 == wheel_sha256]
    if not records:
        return ApprovalState(kind, "missing", demanded)
    if len(mine) > 1:
        each = ", ".join(f"{record.decision} by {record.identity}" for record in mine)
        return ApprovalState(kind, "invalid", demanded, text=f"there are {len(mine)}: {each}")
    if not mine:
        other = records[-1]
        return ApprovalState(
            kind,
            "invalid",
            demanded,
            reviewer=other.identity,
            date=str(other.date),
            reference=other.reference,
            text=f"it was given for another wheel, {other.wheel} (SHA-256 {other.sha256})",
        )
    (record,) = mine
    faults = "; ".join(_faults(record, allowed_signers, today))
    return ApprovalState(
        kind,
        "invalid" if faults else record.decision,
        demanded,
        reviewer=record.identity,
        date=str(record.date),
        expires=str(record.expires or ""),
        reference=record.reference,
        text=faults or record.text,
    )


def _faults(record: Approval, allowed_signers: Path | None, today: dt.date) -> Iterator[str]:
    if record.date > today + _ELSEWHERE:
        yield f"it is dated {record.date}, which is still to come"
    if record.expires is not None and record.expires < today:
        yield f"it expired on {record.expires}"
    if allowed_signers is None:
        yield "its signature was not checked, because no allowed signers were given"
        return
    fault = signature_fault(
        record.statement(), record.signature, record.identity, record.namespace, allowed_signers
    )
    if fault is not None:
        yield fault
