"""The evidence of a smoke run: what ran, on which device, with which figures, and what did not run.

A closed document bound to the wheel's and the runner's SHA-256. Two runs of the same wheel on the
same device differ in ``times`` only. Digests are lower-case hexadecimal SHA-256.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from situ_release import canonical
from situ_release.bundle.manifest import Sha256
from situ_release.bundle.recipe import Text, validation_problems
from situ_release.errors import InputError

Status = Literal["pass", "fail", "refused"]
"""``refused``: this host or device cannot run it, which is neither success nor fault."""


class _Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class DeviceFacts(_Closed):
    """One device. ``sm`` is 103 for sm_103."""

    name: Text
    sm: Annotated[int, Field(ge=10)]
    memory_bytes: Annotated[int, Field(ge=0)]


class HostFacts(_Closed):
    """The driver and the CUDA runtime that were used.

    Attributes:
        devices: the devices that the driver shows; the first is the one tested on.
        driver_version: as NVML says it; null where NVML does not tell.
        driver_cuda: the newest CUDA version that the driver serves.
        runtime_cuda: version of the CUDA runtime library.
    """

    devices: Annotated[list[DeviceFacts], Field(min_length=1)]
    driver_version: Text | None
    driver_cuda: Text
    runtime_cuda: Text


class Versions(_Closed):
    """Versions of the software that ran; null where it is not installed or was not needed."""

    situ_release: Text
    python: Text
    glibc: Text
    apache_tvm_ffi: Text


class WheelFacts(_Closed):
    """The wheel under test. ``binaries_sha256`` covers the runner and all cubins."""

    filename: Text
    sha256: Sha256
    runner_sha256: Sha256
    binaries_sha256: Sha256


class ProblemEntry(_Closed):
    """:class:`situ_release.errors.Problem` in the document."""

    what: str
    where: str
    expected: str
    found: str
    remedy: str


class Tier(_Closed):
    """The outcome of one tier that was asked for."""

    name: Text
    status: Status
    problems: list[ProblemEntry]


class NotRun(_Closed):
    """A tier or case that gives no evidence, and why."""

    tier: Text
    reason: Text


class Case(_Closed):
    """One thing that was tried.

    Attributes:
        tier: the tier it belongs to.
        contract: the recipe's contract.
        tokens: number of tokens.
        status: pass or fail.
        figures: what was measured, by name.
    """

    tier: Text
    contract: Text
    tokens: Annotated[int, Field(ge=0)]
    status: Status
    figures: dict[str, int | float]


class Times(_Closed):
    """Everything that differs from run to run. Seconds of wall time by tier."""

    started_at: Text
    seconds: dict[str, float]


class Evidence(_Closed):
    """The whole document. Read with :func:`read_evidence`, write with :meth:`canonical`."""

    schema_: Literal["situ-release/evidence/1"] = Field(alias="schema")
    recipe: Text
    recipe_sha256: Sha256
    wheel: WheelFacts
    host: HostFacts | None
    versions: Versions
    tiers: list[Tier]
    cases: list[Case]
    not_run: list[NotRun]
    times: Times

    def canonical(self) -> str:
        """Canonical JSON."""
        return canonical.dumps(self.model_dump(mode="json", by_alias=True))


def read_evidence(data: bytes, where: str) -> Evidence:
    """Parse and validate an evidence document.

    Raises:
        InputError: not strict JSON, or not evidence; every wrong key is listed.
    """
    try:
        return Evidence.model_validate(canonical.loads(data, where))
    except ValidationError as error:
        raise InputError(*validation_problems(error, where, "evidence")) from error
