"""The whole suite on a real GPU; a wheel that is made for another device is refused there."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.cli.run import situ

pytestmark = [pytest.mark.gpu, pytest.mark.slow]

WHEEL = "SITU_CONFORMANCE_WHEEL"


@pytest.fixture(scope="module")
def conformance_wheel() -> Path:
    """The wheel that ``make conformance`` leaves, by environment variable."""
    if WHEEL not in os.environ:
        pytest.skip(f"{WHEEL} does not name the wheel that `make conformance` makes")
    return Path(os.environ[WHEEL])


def test_every_tier_passes_on_the_conformance_bundle(
    conformance_wheel: Path, tmp_path: Path
) -> None:
    found = []
    for name in ("first.json", "second.json"):
        result = situ("gpu-smoke", conformance_wheel, "--evidence", tmp_path / name)
        assert result.code == 0, result.stdout + result.stderr
        found.append(json.loads((tmp_path / name).read_text()))
    first, second = found
    assert {tier["status"] for tier in first["tiers"]} == {"pass"}
    assert all(mutant["caught"] for mutant in first["mutants"])
    assert {mutant["contract"] for mutant in first["mutants"]} == {
        case["contract"] for case in first["cases"] if case["contract"]
    }
    assert max(tier["peak_memory_bytes"] or 0 for tier in first["tiers"]) < 40e9
    assert sum(first["times"]["seconds"].values()) < 480
    assert first["times"]["seconds"]["load"] < 5
    assert {**first, "times": None} == {**second, "times": None}


def test_twenty_seeds_give_no_false_alarm(conformance_wheel: Path) -> None:
    command = ("gpu-smoke", conformance_wheel, "--tier", "numerics", "--short", "--seeds", "20")
    result = situ(*command, "--json")
    assert result.code == 0
    assert result.json["times"]["seconds"]["numerics"] < 300


def test_the_published_wheel_is_refused_on_another_device(published_wheel: Path) -> None:
    result = situ("gpu-smoke", published_wheel, "--tier", "load", "--tier", "numerics", "--json")
    if result.json["device"]["devices"][0]["sm"] == 103:
        pytest.skip("this is the device that the wheel is made for")
    assert result.code == 4
    assert [tier["status"] for tier in result.json["tiers"]] == ["pass", "refused"]
    assert "sm_103" in result.json["error"]["expected"]
