"""The five commands on the real published wheel (marker ``network``)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from situ_release.digests import sha256_file
from tests.cli.run import situ
from tests.compare import compare_wheels
from tests.pipeline import Run, rebuild

pytestmark = pytest.mark.network


@pytest.fixture(scope="module")
def run(published_wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return rebuild(published_wheel, tmp_path_factory.mktemp("rebuild"), quiet=True)


def test_rebuilt_wheel_equals_the_published_one(published_wheel: Path, run: Run) -> None:
    rows = compare_wheels(published_wheel, run.wheel)
    assert [row for row in rows if not row.same] == []
    assert rows[0].detail == "268 of 268"


def test_staged_families(run: Run, tmp_path: Path) -> None:
    inputs = run.wheel.parent.parent / "inputs"
    (module,) = inputs.glob("*.so")
    sources = [f"--snapshot-root={inputs / 'snapshot'}", f"--pool-root={inputs / 'pool'}"]
    sources += [f"--module={module}", f"--out={tmp_path / 'p'}", "--locked"]
    document = situ("stage-assets", *sources, "--json").json
    assert document["ok"]
    assert document["cubin_count"] == 267
    assert [family["selected"] for family in document["families"]] == [30, 30, 106, 101]
    assert document["lock"]["matches"] is True
    assert document["recovered_from"]["sha256"].startswith("3d92a31b")
    assert document["generated_at"] == "2026-07-26T10:22:01.948560+00:00"


def test_rebuilt_twice_gives_the_same_bytes(
    published_wheel: Path, run: Run, tmp_path: Path
) -> None:
    mask = os.umask(0o077)
    try:
        again = rebuild(published_wheel, tmp_path, quiet=True)
    finally:
        os.umask(mask)
    assert sha256_file(again.wheel) == sha256_file(run.wheel)


def test_published_wheel_has_warnings_only(published_wheel: Path) -> None:
    document = situ("verify", published_wheel, "--json").json
    assert document["ok"]
    assert document["summary"]["fail"] == document["summary"]["skip"] == 0
    severities = {f["severity"] for check in document["checks"] for f in check["findings"]}
    assert severities <= {"warn", "note"}
    assert situ("verify", published_wheel, "--strict").code == 1


def test_nothing_recovered_passes_for_an_original(run: Run) -> None:
    document = situ("verify", run.wheel, "--json").json
    (check,) = [c for c in document["checks"] if c["id"] == "provenance.recovered"]
    assert check["status"] == "warn"


def test_coverage_of_the_published_wheel(published_wheel: Path) -> None:
    document = situ("coverage", published_wheel, "--json").json
    device = document["devices"]["sm103"]
    assert device["missing"] == []
    assert device["unreachable_bytes"] == 4_270_832
    assert len(device["unreachable"]) == 46
    assert [contract["passing"] for contract in device["contracts"]] == [56, 56, 167, 167]
    assert device["runs"]
    other = document["devices"]["sm100"]
    assert not other["runs"]
    assert len(other["contracts"][0]["missing"]) == len(other["contracts"][0]["selectable"]) == 56
