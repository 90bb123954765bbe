"""The lock beside a recipe: digests of the binaries that were reviewed.

No binary is tracked in the project; the lock says which ones a person looked at. ``stage-assets
--locked`` refuses any other, without the flag a difference is reported.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from situ_release import canonical
from situ_release.atomic import new_file
from situ_release.bundle.manifest import Manifest, Sha256
from situ_release.bundle.model_faults import validation_problems
from situ_release.errors import InputError

Name = Annotated[str, StringConstraints(min_length=1)]


class Lock(BaseModel):
    """Reviewed digests. ``cubins`` maps file names to SHA-256."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)

    schema_: Annotated[Literal[1], Field(alias="schema")]
    recipe: Name
    package_version: Name
    runner_sha256: Sha256
    cubins: dict[Name, Sha256]


@dataclass(frozen=True, slots=True)
class LockDifference:
    """One binary that is not the reviewed one; None stands for "not there"."""

    file: str
    reviewed: str | None
    staged: str | None

    def __str__(self) -> str:
        if self.staged is None:
            return f"{self.file}: reviewed, but not staged"
        if self.reviewed is None:
            return f"{self.file}: staged, but never reviewed"
        return f"{self.file}: reviewed {self.reviewed[:12]}…, staged {self.staged[:12]}…"


def lock_path(recipe: Path) -> Path:
    """The lock's path beside a recipe's."""
    return recipe.with_suffix(".lock.json")


def load_lock(recipe: Path) -> Lock | None:
    """The lock beside a recipe file, None where there is none.

    Raises:
        InputError: it is there and cannot be read, or is malformed.
    """
    path = lock_path(recipe)
    if not path.exists():
        return None
    try:
        return Lock.model_validate(canonical.load(path))
    except ValidationError as error:
        raise InputError(*validation_problems(error, str(path), "lock")) from error


def lock_of(manifest: Manifest, recipe: str) -> Lock:
    """The lock that calls the binaries of a manifest reviewed."""
    return Lock.model_validate(
        {
            "schema": 1,
            "recipe": recipe,
            "package_version": manifest.package_version,
            "runner_sha256": manifest.runner.sha256,
            "cubins": {entry.filename: entry.sha256 for entry in manifest.cubins},
        }
    )


def dump_lock(lock: Lock) -> str:
    """Canonical JSON of a lock."""
    return canonical.dumps(lock.model_dump(mode="json", by_alias=True))


def write_lock_file(path: Path, manifest: Manifest, recipe: str) -> None:
    """Write the lock of a manifest's binaries, whole or not at all."""
    with new_file(path) as fresh:
        fresh.write_text(dump_lock(lock_of(manifest, recipe)), encoding="utf-8")


def compare(
    lock: Lock, runner_name: str, runner_sha256: str, cubins: Mapping[str, str]
) -> tuple[LockDifference, ...]:
    """What differs from the reviewed binaries: the runner first, then cubins by file name.

    Args:
        lock: the reviewed digests.
        runner_name: how to call the runner in a difference.
        runner_sha256: the runner's digest.
        cubins: digest by file name.
    """
    differences = []
    if runner_sha256 != lock.runner_sha256:
        differences.append(LockDifference(runner_name, lock.runner_sha256, runner_sha256))
    for name in sorted({*lock.cubins, *cubins}):
        reviewed, staged = lock.cubins.get(name), cubins.get(name)
        if reviewed != staged:
            differences.append(LockDifference(name, reviewed, staged))
    return tuple(differences)
