"""The published wheel's real runner, rehearsed. ``SITU_SYSROOT`` names a newer system's folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from situ_release.bundle.recipe import load_recipe
from situ_release.smoke.run import Options
from situ_release.smoke.suite import SmokeReport, run_smoke
from situ_release.smoke.tiers.needs import host_glibc

pytestmark = pytest.mark.gcc

NEEDED_GLIBC = (2, 38)


@pytest.fixture(scope="module")
def sysroot() -> Path | None:
    if given := os.environ.get("SITU_SYSROOT"):
        return Path(given)
    found = host_glibc()
    if found == "none" or tuple(map(int, found.split("."))) < NEEDED_GLIBC:
        pytest.skip(f"glibc {found} is too old for the runner, and SITU_SYSROOT is not set")
    return None


def rehearse(wheel: Path, sysroot: Path | None, sm: int | None = None) -> SmokeReport:
    options = Options(claim_sm=sm, sysroot=sysroot)
    return run_smoke(wheel, ["rehearsal"], recipe=load_recipe(), options=options)


def test_on_claimed_sm_103(published_wheel: Path, sysroot: Path | None) -> None:
    report = rehearse(published_wheel, sysroot)
    assert report.exit_code == 0, report.problems
    figures = {(case.contract, case.tokens): case.figures for case in report.evidence.cases}
    wide, deep = "kimi-k3-moe-tp8-ep1", "kimi-k3-moe-tp1-ep8"
    assert figures[f"{wide}-mxfp4-situ", 1]["tactics"] == 144
    assert figures[f"{deep}-mxfp4-situ", 1]["tactics"] == 144
    assert figures[f"{wide}-mxfp8-mxfp4-situ", 1]["tactics"] == 1684
    assert figures[f"{deep}-mxfp8-mxfp4-situ", 3585]["tactics"] == 50
    for contract, selectable in (
        (f"{wide}-mxfp4-situ", 56),
        (f"{deep}-mxfp4-situ", 56),
        (f"{wide}-mxfp8-mxfp4-situ", 161),
        (f"{deep}-mxfp8-mxfp4-situ", 165),
    ):
        kernels = {"selectable": selectable, "requested": selectable}
        assert figures[contract, None] == kernels
    called = [figure for (_, tokens), figure in figures.items() if tokens is not None]
    assert sum(figure["outside"] for figure in called) == 0
    assert sum(figure["calls"] for figure in called) == 524
    # Routing, FC1 and FC2 in every call, and finalize in every other.
    assert sum(figure["launches"] for figure in called) == 524 * 7 // 2


def test_tactics_on_other_claimed_devices(published_wheel: Path, sysroot: Path | None) -> None:
    report = rehearse(published_wheel, sysroot, 90)
    assert report.exit_code == 0, report.problems
    figures = {(case.contract, case.tokens): case.figures for case in report.evidence.cases}
    assert figures["kimi-k3-moe-tp8-ep1-mxfp4-situ", 1] == {"tactics": 576}
    assert figures["kimi-k3-moe-tp8-ep1-mxfp8-mxfp4-situ", 1] == {"tactics": 1684}
