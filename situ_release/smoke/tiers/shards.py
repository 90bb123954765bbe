"""Tier ``shards``: the ranks' partial outputs add up, on one GPU and over several."""

from __future__ import annotations

import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from situ_release.bundle.evidence import NotRun
from situ_release.smoke.run import Run, TierResult, conclude
from situ_release.smoke.supervise import Outcome
from situ_release.smoke.tiers.numerics import tolerance_of

LIMIT_S = 300.0


def shards(run: Run) -> TierResult:
    """All shards on the first GPU; then, where there are more, one process on each."""
    assert run.host is not None
    outcomes = [_process(run, run.options.device, 0, 1, None)]
    problems = run.record("shards", outcomes[0])
    alike = [device for device in run.host.devices if device.sm == run.sm]
    if len(alike) < 2 or len(alike) < len(run.host.devices):
        found = f"{len(alike)} device{'s' if len(alike) > 1 else ''} of this kind"
        reason = f"one process per GPU over NCCL: the host has {found}"
        run.not_run.append(NotRun(tier="shards", reason=reason))
        return conclude(outcomes, problems)
    together = _processes(run, len(alike))
    outcomes += together
    for outcome in together:
        problems += run.record("shards", outcome)
    return conclude(outcomes, problems)


def _processes(run: Run, world: int) -> list[Outcome]:
    with (
        tempfile.TemporaryDirectory(prefix="situ-shards-") as folder,
        ThreadPoolExecutor(world) as pool,
    ):
        store = str(Path(folder) / "store")
        started = [
            pool.submit(_process, run, run.options.device_of(rank), rank, world, store)
            for rank in range(world)
        ]
        return [future.result() for future in started]


def _process(run: Run, device: str, rank: int, world: int, store: str | None) -> Outcome:
    request = run.request(
        device=device,
        contracts=[contract.model_dump() for contract in run.recipe.contracts],
        tokens=[tokens for tokens in run.recipe.smoke.tokens if tokens],
        tolerance=tolerance_of(run),
        rank=rank,
        world=world,
        store=store,
    )
    return run.child("shards", "shards", request, LIMIT_S)
