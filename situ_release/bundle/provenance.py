"""Where a bundle's content comes from, and when: facts of the sources, claims, declared fields.

Claims (what a published wheel's manifest said of the originals) are used only from a marked pool,
and only where the recovered source cannot tell itself. Declared fields come from the recipe; a
claim that contradicts one is an error.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone

from situ_release.bundle.recipe import Recipe
from situ_release.errors import InputError, Problem, UsageError, raise_all
from situ_release.sources.marker import RecoveredClaims, RecoveredMarker
from situ_release.sources.pool import Pool
from situ_release.sources.snapshot import Snapshot
from situ_release.text import printable

# Zip members cannot be older than 1980 nor younger than 2107.
_USABLE_SECONDS = range(315532800, 4354819200)
_USABLE = "whole seconds between 315532800 (1980) and 4354819199 (2107)"


@dataclass(frozen=True, slots=True)
class Provenance:
    """The facts the manifest states of its sources.

    Attributes:
        metadata_sha256: of the metadata header the runner was compiled with.
        source: the manifest's ``source_provenance`` object.
        generated_at: ISO 8601 time with offset.
        marker: the wheel that pool and snapshot were recovered from, None for originals.
    """

    metadata_sha256: str
    source: dict[str, str | int | None]
    generated_at: str
    marker: RecoveredMarker | None


def trace(recipe: Recipe, snapshot: Snapshot, pool: Pool) -> Provenance:
    """Collect provenance from the sources and the recipe.

    Raises:
        InputError: pool and snapshot were recovered from different wheels or only one of them was,
            or a claim contradicts the recipe.
        UsageError: nothing says when the bundle was made.
    """
    marker = _common_marker(snapshot, pool)
    claims = marker.claims if marker else RecoveredClaims()
    _check_claims(recipe, claims)
    metadata = claims.metadata_sha256 or pool.header.sha256
    prefix = recipe.provenance.pool_key_prefix
    counts = {family.name: family.count for family in recipe.families}
    source: dict[str, str | int | None] = {
        **recipe.provenance.declared,
        **{
            key: sum(counts[name] for name in names)
            for key, names in recipe.provenance.counts.items()
        },
        "flashinfer_version": snapshot.version,
        "source_pool_cubin_count": (
            len(pool.header) if claims.pool_cubin_count is None else claims.pool_cubin_count
        ),
        f"{prefix}name": claims.pool_name or printable(pool.name),
        f"{prefix}config_sha256": claims.config_sha256 or pool.config_sha256,
        f"{prefix}metadata_sha256": metadata,
    }
    return Provenance(metadata, source, _generated_at(snapshot, claims), marker)


def _common_marker(snapshot: Snapshot, pool: Pool) -> RecoveredMarker | None:
    ours, theirs = pool.marker, snapshot.marker
    if ours == theirs:
        return ours

    def origin(marker: RecoveredMarker | None) -> str:
        return (
            f"recovered from {marker.wheel} ({marker.wheel_sha256[:12]}…)" if marker else "original"
        )

    raise InputError.of(
        "pool and snapshot do not have one origin",
        f"{pool.where} and {snapshot.where}",
        expected="both original, or both recovered from one wheel",
        found=f"pool {origin(ours)}, snapshot {origin(theirs)}",
        remedy="give the pool and the snapshot that belong together",
    )


def _check_claims(recipe: Recipe, claims: RecoveredClaims) -> None:
    problems = []
    stated: dict[str, tuple[str | None, str | None]] = {
        "runner.build_mode": (recipe.runner.build_mode, claims.build_mode)
    }
    for key, value in claims.branches.items():
        stated[f"provenance.declared.{key}"] = (recipe.provenance.declared.get(key), value)
    for key, (declared, claimed) in stated.items():
        if claimed is not None and declared is not None and claimed != declared:
            problems.append(
                Problem(
                    "the recovered wheel's claim contradicts the recipe",
                    f"recipe {recipe.name}: {key}",
                    expected=declared,
                    found=f"{claimed} (claimed)",
                    remedy="recover a wheel of this bundle, or review the recipe",
                )
            )
    raise_all(InputError, problems)


def _generated_at(snapshot: Snapshot, claims: RecoveredClaims) -> str:
    epoch = source_date_epoch(os.environ)
    if epoch is None and snapshot.checkout is not None:
        epoch = _usable_commit_time(snapshot)
    if epoch is not None:
        return datetime.fromtimestamp(epoch, timezone.utc).isoformat()
    if claims.generated_at is not None:
        return claims.generated_at
    raise UsageError.of(
        "nothing says when the bundle was made",
        snapshot.where,
        expected="SOURCE_DATE_EPOCH, a git snapshot with a commit time, or a recovered claim",
        found="none of them",
        remedy="set SOURCE_DATE_EPOCH to the snapshot's time in seconds; the clock is never used",
    )


def _usable_commit_time(snapshot: Snapshot) -> int:
    seconds = snapshot.commit_time
    if seconds is not None and seconds in _USABLE_SECONDS:
        return seconds
    raise UsageError.of(
        "the snapshot's commit has no usable time",
        snapshot.where,
        expected=f"a committer date with {_USABLE}",
        found="none that git can read" if seconds is None else f"{seconds} seconds",
        remedy="set SOURCE_DATE_EPOCH to the snapshot's time in seconds; the clock is never used",
    )


def source_date_epoch(environment: Mapping[str, str]) -> int | None:
    """``SOURCE_DATE_EPOCH`` in seconds, None where it is not set.

    Raises:
        UsageError: it is set and not a number of seconds that zip files and dates can hold.
    """
    text = environment.get("SOURCE_DATE_EPOCH")
    if text is None:
        return None
    if text.isascii() and text.isdigit() and len(text) <= 12 and int(text) in _USABLE_SECONDS:
        return int(text)
    raise UsageError.of(
        "SOURCE_DATE_EPOCH is not usable",
        "environment",
        expected=_USABLE,
        found=text[:40] or "an empty value",
        remedy="set it to a commit's time, e.g. from git log -1 --format=%ct",
    )
