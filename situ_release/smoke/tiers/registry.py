"""Every tier, in the order they run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from situ_release.bundle.smoke_policy import SmokeTier
from situ_release.smoke.rehearsal.tier import rehearsal
from situ_release.smoke.run import Run, TierResult
from situ_release.smoke.tiers import needs
from situ_release.smoke.tiers.cubins import cubins
from situ_release.smoke.tiers.load import load
from situ_release.smoke.tiers.numerics import numerics
from situ_release.smoke.tiers.repeated import determinism, memory
from situ_release.smoke.tiers.shards import shards


@dataclass(frozen=True, slots=True)
class TierSpec:
    """One tier.

    Attributes:
        name: what it is called.
        run: does it.
        needs: what must be there first; everything that is lacking is named at once.
        default: it runs unless other tiers are asked for.
    """

    name: SmokeTier
    run: Callable[[Run], TierResult]
    needs: tuple[needs.Need, ...]
    default: bool = True


_HOST = (needs.libraries, needs.device)
_TARGET = (*_HOST, needs.target)
_NUMERIC = (*_TARGET, needs.torch, needs.reference)

TIERS: tuple[TierSpec, ...] = (
    TierSpec("load", load, _HOST),
    TierSpec("cubins", cubins, _TARGET),
    TierSpec("numerics", numerics, _NUMERIC),
    TierSpec("memory", memory, _NUMERIC),
    TierSpec("determinism", determinism, _NUMERIC),
    TierSpec("shards", shards, _NUMERIC),
    TierSpec("rehearsal", rehearsal, (needs.tvm_ffi,), default=False),
)

TIER_NAMES = tuple(spec.name for spec in TIERS)
DEFAULT_TIERS = tuple(spec.name for spec in TIERS if spec.default)
