"""JUnit XML of evidence: what CI shows."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from situ_release.bundle.evidence import Evidence, ProblemEntry, Tier
from situ_release.smoke.junit import junit_xml
from situ_release.sources.runner import read_runner
from tests.cli.run import situ
from tests.smoke.synth_evidence import good_evidence
from tests.synth.inputs import make_inputs
from tests.synth.wheel import make_wheel

PROBLEM = ProblemEntry(what="no\x1b number", where="a <b>", expected="1", found="2", remedy="mend")
CASES = [
    {"tier": "numerics", "subject": "default tactic", "status": "pass", "contract": "k3-<1>",
     "tokens": 128, "seed": 3, "figures": {"cosine": 0.9999}},
    {"tier": "numerics", "subject": "tactic (8, 3)", "status": "fail", "contract": "k3",
     "tokens": 1, "figures": {"nonfinite": 7}},
    {"tier": "cubins", "subject": "fc2 sm103a", "status": "pass", "figures": {}},
]  # fmt: skip
MUTANTS = [
    {"contract": "k3", "tokens": 1, "seed": 0, "name": "drop beta", "caught": caught,
     "broken": ["cosine"] if caught else [], "figures": {"cosine": 0.9}}
    for caught in (True, False)
]  # fmt: skip


@pytest.fixture
def evidence(tmp_path: Path) -> Evidence:
    inputs = make_inputs(tmp_path / "in")
    manifest = inputs.stage(dry_run=True).manifest
    runner = read_runner(inputs.module.read_bytes(), "runner")
    return good_evidence(
        inputs.recipe.recipe,
        manifest,
        runner,
        cases=CASES,
        mutants=MUTANTS,
        tiers=[
            Tier(name="load", status="pass", problems=[]),
            Tier(name="numerics", status="fail", problems=[PROBLEM]),
            Tier(name="shards", status="refused", problems=[PROBLEM]),
        ],
        not_run=[{"tier": "memory", "reason": "not asked for"}],
        times={"started_at": "2026-07-27T04:03:28+00:00", "seconds": {"numerics": 45.138}},
    )


def suites(evidence: Evidence) -> dict[str, ElementTree.Element]:
    root = ElementTree.fromstring(junit_xml(evidence))
    assert root.tag == "testsuites"
    return {suite.attrib["name"]: suite for suite in root}


def test_counts_and_times(evidence: Evidence) -> None:
    found = suites(evidence)
    assert list(found) == ["load", "numerics", "shards", "memory"]
    counts = {
        name: tuple(int(suite.attrib[key]) for key in ("tests", "failures", "skipped"))
        for name, suite in found.items()
    }
    assert counts == {
        "load": (1, 0, 0),
        "numerics": (5, 3, 0),
        "shards": (1, 0, 1),
        "memory": (1, 0, 1),
    }
    assert found["numerics"].attrib["time"] == "45.138"


def test_a_case_has_its_figures_and_a_failure_its_reason(evidence: Evidence) -> None:
    tests = {test.attrib["name"]: test for test in suites(evidence)["numerics"]}
    figure = tests["k3-<1>, 128 tokens, default tactic, seed 3"].find("properties/property")
    assert figure is not None
    assert figure.attrib == {"name": "cosine", "value": "0.9999"}
    assert tests["k3, 1 tokens, tactic (8, 3)"].find("failure") is not None
    tier = tests["the tier"].find("failure")
    assert tier is not None
    assert tier.attrib["message"] == "a <b>: no\\x1b number: expected 1, found 2; mend"
    mutants = [test for name, test in tests.items() if "mutant" in name]
    assert len(mutants) == 1  # both have one name, the later one replaces it here
    assert mutants[0].find("failure") is not None


def test_what_was_not_run_says_why(evidence: Evidence) -> None:
    found = suites(evidence)
    skipped = found["memory"].find("testcase/skipped")
    assert skipped is not None
    assert skipped.attrib["message"] == "not asked for"


@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="this host has an NVIDIA GPU")
def test_the_command_writes_both_documents_on_a_host_without_gpu(tmp_path: Path) -> None:
    evidence, junit = tmp_path / "e.json", tmp_path / "j.xml"
    options = ("--evidence", evidence, "--junit", junit)
    result = situ("gpu-smoke", make_wheel(tmp_path), "--tier", "cubins", *options)
    assert result.code == 4
    assert ElementTree.parse(junit).getroot().find("testsuite/testcase/skipped") is not None
    assert '"status": "refused"' in evidence.read_text()


def test_an_output_that_cannot_be_written_is_said_before_the_run(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = situ("gpu-smoke", make_wheel(tmp_path), "--junit", tmp_path / "file" / "j.xml")
    assert result.code == 3
    assert "j.xml" in result.stderr
