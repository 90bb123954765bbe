"""The suite's reference, layouts and arguments against kernels of another hand, without a GPU."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from situ_release.bundle.conformance import ConformanceBuild

pytestmark = [pytest.mark.nvcc, pytest.mark.slow]
pytest.importorskip("torch")


def test_numerics_pass_and_see_every_mutant(
    built: ConformanceBuild, emulator: dict[str, str]
) -> None:
    command = [sys.executable, "-m", "tests.conformance.emulated_suite", built.module.parent]
    done = subprocess.run(
        command, env={**emulator, "EMULATED_SM": "90"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    events = [json.loads(line) for line in done.stdout.splitlines()]
    problems = [problem for event in events for problem in event.get("problems", [])]
    assert problems == []
    cases = [event for event in events if event["event"] == "case"]
    # For each precision: no token, one with the default and two tactics of three tiles, five.
    assert [case["tokens"] for case in cases] == [0, *[1] * 7, 5] * 2
    assert max(case["figures"]["relative_l2"] for case in cases) < 1e-4
    mutants = [event for event in events if event["event"] == "mutant"]
    assert len(mutants) == 12
    assert all(mutant["caught"] for mutant in mutants)
