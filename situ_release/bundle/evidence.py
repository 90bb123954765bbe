"""The evidence of a smoke run: what ran, on which device, with which figures, and what did not run.

A closed document bound to the wheel's and the runner's SHA-256. Two runs of the same wheel on the
same device differ in ``times`` only. Digests are lower-case hexadecimal SHA-256.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from situ_release import canonical
from situ_release.bundle.manifest import Sha256
from situ_release.bundle.model_faults import validation_problems
from situ_release.bundle.recipe import Recipe, Text
from situ_release.bundle.smoke_policy import SmokeTier, SmokeTolerance
from situ_release.digests import sha256_bytes
from situ_release.errors import InputError
from situ_release.reading import read_regular

Status = Literal["pass", "fail", "refused"]
"""``refused``: this host or device cannot run it, which is neither success nor fault."""

Count = Annotated[int, Field(ge=0)]
Figure = int | float


class _Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class DeviceFacts(_Closed):
    """One device. ``sm`` is 103 for sm_103."""

    name: Text
    sm: Annotated[int, Field(ge=10)]
    memory_bytes: Count


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
    """Versions of the software that ran; null where it is not installed."""

    situ_release: Text
    python: Text
    glibc: Text
    apache_tvm_ffi: Text
    torch: Text | None


class DeviceCode(_Closed):
    """Digests over what the GPU executes, whatever else is in the files around it.

    Attributes:
        cubins_sha256: over a line ``<device code digest>  <path>`` for each cubin, sorted by path.
        runner_sha256: over a line ``<digest>  <target>`` for each module embedded in the runner,
            sorted.
    """

    cubins_sha256: Sha256
    runner_sha256: Sha256


class WheelFacts(_Closed):
    """The wheel under test. ``binaries_sha256`` covers the runner and all cubins."""

    filename: Text
    sha256: Sha256
    runner_sha256: Sha256
    binaries_sha256: Sha256
    device_code: DeviceCode


class Scope(_Closed):
    """How much of the suite was asked for.

    Attributes:
        short: 1 and 128 tokens only, every kernel at both.
        seeds: sets of random inputs in the numerics, numbered from 0.
    """

    short: bool
    seeds: Annotated[int, Field(ge=1)]


class ProblemEntry(_Closed):
    """:class:`situ_release.errors.Problem` in the document."""

    what: str
    where: str
    expected: str
    found: str
    remedy: str


class Tier(_Closed):
    """The outcome of one tier that was asked for.

    ``peak_memory_bytes`` is the most GPU memory that the reference and the inputs took from the
    driver in one of its processes; null where the tier takes none.
    """

    name: SmokeTier
    status: Status
    problems: list[ProblemEntry]
    peak_memory_bytes: Count | None = None


class NotRun(_Closed):
    """A tier, or a part of one, that gives no evidence, and why."""

    tier: SmokeTier
    reason: Text


class Case(_Closed):
    """One thing that was tried.

    Attributes:
        tier: the tier it belongs to.
        subject: what was tried, unique among the cases of the same tier, contract, tokens and seed:
            "default tactic", "tactic (8, 3)", "graph replay".
        status: pass or fail.
        figures: what was measured, by name.
        contract: the recipe's contract; null where it is not about one.
        tokens: number of tokens; null where it is not about a number.
        seed: number of the random inputs; null where there are none.
        output_sha256: digest of the output's bytes, where those are what counts.
    """

    tier: SmokeTier
    subject: Text
    status: Status
    figures: dict[str, Figure]
    contract: Text | None = None
    tokens: Count | None = None
    seed: Count | None = None
    output_sha256: Sha256 | None = None


class MutantEntry(_Closed):
    """A fault put into the reference, and whether the comparison with the output saw it.

    ``broken`` names the bounds that did not hold; empty for a mutant that nothing caught.
    """

    contract: Text
    tokens: Count
    seed: Count
    name: Text
    caught: bool
    broken: list[Text]
    figures: dict[str, Figure]


class AdvisoryOutcome(_Closed):
    """What a tier showed about an advisory of the runner under test.

    Attributes:
        reference: the advisory's, as in the recipe.
        tier: the tier that settles it.
        outcome: ``reproduced`` or ``not reproduced``; ``open`` where the tier gave no evidence.
    """

    reference: Text
    tier: Literal["memory"]
    outcome: Literal["reproduced", "not reproduced", "open"]


class Times(_Closed):
    """Everything that differs from run to run. Seconds of wall time by tier."""

    started_at: Text
    seconds: dict[str, float]


class Evidence(_Closed):
    """The whole document. Read with :func:`read_evidence`, write with :meth:`canonical`.

    ``terms_sha256`` is :func:`terms_sha256` of the recipe.
    """

    schema_: Literal["situ-release/evidence/1"] = Field(alias="schema")
    recipe: Text
    recipe_sha256: Sha256
    terms_sha256: Sha256
    tolerance: SmokeTolerance
    scope: Scope
    wheel: WheelFacts
    host: HostFacts | None
    versions: Versions
    tiers: list[Tier]
    cases: list[Case]
    mutants: list[MutantEntry]
    advisories: list[AdvisoryOutcome]
    not_run: list[NotRun]
    times: Times

    def canonical(self) -> str:
        """Canonical JSON."""
        return canonical.dumps(self.model_dump(mode="json", by_alias=True))

    def status(self, tier: SmokeTier) -> Status | None:
        """The outcome of a tier, None where it was not asked for."""
        return next((entry.status for entry in self.tiers if entry.name == tier), None)


def read_evidence(data: bytes, where: str) -> Evidence:
    """Parse and validate an evidence document.

    Raises:
        InputError: not strict JSON, or not evidence; every wrong key is listed.
    """
    try:
        return Evidence.model_validate(canonical.loads(data, where))
    except ValidationError as error:
        raise InputError(*validation_problems(error, where, "evidence")) from error


def load_evidence(path: Path) -> Evidence:
    """:func:`read_evidence` for a file; one that cannot be read is an InputError."""
    return read_evidence(read_regular(path, "evidence", canonical.MAX_BYTES), str(path))


def terms_sha256(recipe: Recipe) -> str:
    """Digest of what a recipe demands of a run: contracts, families, token counts and tolerances.

    A new version number or other words leave it alone; a laxer tolerance does not.
    """
    terms = recipe.model_dump(
        mode="json",
        include={"contracts": True, "families": True, "smoke": True},
        exclude={"smoke": {"tolerance": {"reason"}}},
    )
    return sha256_bytes(canonical.dumps(terms).encode())
