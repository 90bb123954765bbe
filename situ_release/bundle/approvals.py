"""``approvals.toml``: what reviewers decided about wheels, each decision signed.

A record is bound to a wheel's SHA-256: it says nothing of a file that differs in a byte. What is
signed is :meth:`Approval.statement`, so the layout of the TOML does not matter, and its namespace
names the kind of approval, so that a key can be allowed to decide on some kinds only.
"""

from __future__ import annotations

import datetime as dt
import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
)

from situ_release import canonical, toml
from situ_release.atomic import new_file
from situ_release.bundle.manifest import Sha256
from situ_release.bundle.model_faults import validation_problems
from situ_release.bundle.publication_policy import ApprovalKind
from situ_release.bundle.recipe import Text
from situ_release.bundle.ssh_signature import sign, signature_fault
from situ_release.errors import InputError, Problem, UsageError

NAMESPACE = "situ-release-approval"
"""Signatures are made for ``situ-release-approval/<kind>``."""


def _day(value: object) -> object:
    # Options are text; a TOML date is one already. Seconds and other spellings are refused.
    if isinstance(value, str) and _DAY.fullmatch(value):
        return dt.date.fromisoformat(value)
    return value


_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
Day = Annotated[dt.date, BeforeValidator(_day)]
Decision = Literal["approved", "conditional", "rejected"]
Identity = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._%+@=-]{1,320}$")]
Signature = Annotated[
    str,
    StringConstraints(
        pattern=r"^-----BEGIN SSH SIGNATURE-----\n"
        r"[A-Za-z0-9+/=\n]{1,16384}-----END SSH SIGNATURE-----\n?$"
    ),
]

_STATEMENT = "situ-release/approval/1"
_HEADER = (
    "# What reviewers decided, each bound to a wheel's SHA-256 and signed. Written by\n"
    "# `situ-release approve`; a record that is changed by hand no longer counts.\n"
    "schema = 1\n"
)


class _Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)


class Approval(_Closed):
    """One decision.

    Attributes:
        wheel: file name of the wheel when it was decided on.
        sha256: of the wheel.
        text: the reviewer's words: what was decided, and under which conditions.
        reference: where the decision is on file.
        expires: the last day on which it counts; None for no end.
        identity: who decided, as the file of allowed signers names them.
        signature: of :meth:`statement`, armoured.
    """

    kind: ApprovalKind
    decision: Decision
    wheel: Text
    sha256: Sha256
    text: Text
    reference: Text
    date: Day
    expires: Day | None = None
    identity: Identity
    signature: Signature

    @property
    def namespace(self) -> str:
        """The purpose of the signature."""
        return namespace(self.kind)

    def statement(self) -> bytes:
        """What is signed: canonical JSON of every other field."""
        return _statement(self.model_dump(mode="json", exclude={"signature"}))


class Approvals(_Closed):
    """The whole document, in the order in which the decisions were recorded."""

    schema_: Annotated[Literal[1], Field(alias="schema")]
    approvals: list[Approval] = []

    def dumps(self) -> str:
        """The document as TOML, one spelling for one content."""
        return "\n".join([_HEADER, *map(_toml, self.approvals)])


def namespace(kind: ApprovalKind) -> str:
    """What a signature of this kind of approval is made for."""
    return f"{NAMESPACE}/{kind}"


def load_approvals(path: Path) -> Approvals:
    """Read and validate a file of approvals; signatures are not looked at.

    Raises:
        InputError: unreadable, not TOML, or not approvals; every wrong key is listed.
    """
    _, document = toml.load(path, "file of approvals")
    try:
        return Approvals.model_validate(document)
    except ValidationError as error:
        raise InputError(*validation_problems(error, str(path), "approvals")) from error


def make_approval(key: Path, **fields: Any) -> Approval:
    """A signed record.

    Args:
        key: a private SSH key, or the public key of one in an agent.
        fields: those of :class:`Approval` but the signature.

    Raises:
        UsageError: a field does not fit, each named by its option.
        HostError, InputError, ToolError: see :func:`situ_release.bundle.ssh_signature.sign`.
    """
    unsigned = {**fields, "signature": _PLACEHOLDER}
    try:
        record = Approval.model_validate(unsigned)
    except ValidationError as error:
        raise UsageError(*_option_problems(error)) from error
    if record.expires is not None and record.expires < record.date:
        raise UsageError.of(
            "the approval would expire before it was given",
            f"--expires {record.expires}",
            expected=f"{record.date} or later",
            found=str(record.expires),
            remedy="correct one of the dates",
        )
    signature = sign(record.statement(), key, record.namespace)
    return Approval.model_validate({**fields, "signature": signature})


def check_signature(record: Approval, allowed_signers: Path) -> None:
    """Whether the record would count for those who know these signers.

    Raises:
        InputError: it would not, or the file cannot be read.
        HostError: no ``ssh-keygen``.
    """
    fault = signature_fault(
        record.statement(), record.signature, record.identity, record.namespace, allowed_signers
    )
    if fault is not None:
        raise InputError.of(
            "the decision would not count",
            allowed_signers,
            expected=f"a line that lets {record.identity} sign {record.namespace} with this key",
            found=fault,
            remedy="sign with the key of that line, or have the line added",
        )


def add_approval(path: Path, record: Approval) -> Approvals:
    """Append a record to a file of approvals, which is made if it is not there.

    Raises:
        InputError: the file is malformed, cannot be written, or has a decision of this kind on this
            wheel already.
    """
    with _alone(path):
        earlier = load_approvals(path).approvals if path.exists() else []
        for other in earlier:
            if (other.kind, other.sha256) == (record.kind, record.sha256):
                raise InputError.of(
                    "there is a decision of this kind on this wheel already",
                    path,
                    expected=f"one {record.kind} for {record.wheel}",
                    found=f"{other.decision} by {other.identity} on {other.date}",
                    remedy="remove the earlier record if it no longer holds, then approve again",
                )
        document = Approvals.model_validate({"schema": 1, "approvals": [*earlier, record]})
        with new_file(path) as fresh:
            fresh.write_text(document.dumps(), encoding="utf-8")
    return document


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Keep other processes from changing the file between reading and replacing it.

    The lock is on the folder: the file itself is replaced, and a lock file would stay behind.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise _not_locked(path, error) from error
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
        except OSError as error:
            raise _not_locked(path, error) from error
        yield
    finally:
        os.close(folder)


def _not_locked(path: Path, error: OSError) -> InputError:
    problem = Problem(
        "cannot lock the folder of the file of approvals",
        str(path.parent),
        expected="a folder that can be read, on a file system with locks",
        found=error.strerror or str(error),
        remedy="name a file in such a folder with --approvals",
    )
    return InputError(problem)


def _option_problems(error: ValidationError) -> Iterator[Problem]:
    for item in error.errors(include_url=False):
        option = f"--{'.'.join(map(str, item['loc']))}"
        yield Problem(
            "the value does not fit",
            option,
            expected=item["msg"].removeprefix("Input should be "),
            found=repr(item["input"])[:120],
            remedy=f"correct {option}; `situ-release approve --help` tells what it takes",
        )


_PLACEHOLDER = "-----BEGIN SSH SIGNATURE-----\nAAAA\n-----END SSH SIGNATURE-----\n"


def _statement(fields: dict[str, Any]) -> bytes:
    return canonical.dumps({"schema": _STATEMENT, **fields}).encode()


def _toml(record: Approval) -> str:
    lines = ["[[approvals]]"]
    for name, value in record:
        if name == "signature":
            lines.append(f"{name} = '''\n{value}'''\n")
        elif isinstance(value, dt.date):
            lines.append(f"{name} = {value.isoformat()}")
        elif value is not None:
            lines.append(f"{name} = {_quoted(value)}")
    return "\n".join(lines)


def _quoted(text: str) -> str:
    # No field holds a control character, so these two are all that a TOML string must escape.
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
