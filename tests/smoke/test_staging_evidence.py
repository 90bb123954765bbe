"""``stage-assets --evidence``: binaries count as validated only if these very ones passed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from situ_release.bundle.evidence import Evidence
from situ_release.errors import InputError
from situ_release.sources.runner import read_runner
from tests.cli.run import situ
from tests.smoke.synth_evidence import good_evidence
from tests.synth.inputs import MiniInputs, make_inputs
from tests.synth.wheel import cubin_of


@pytest.fixture
def inputs(tmp_path: Path) -> MiniInputs:
    return make_inputs(tmp_path / "in")


def evidence_of(inputs: MiniInputs, **changes: Any) -> Path:
    """Evidence of what the inputs stage to, changed."""
    manifest = inputs.stage(dry_run=True).manifest
    runner = read_runner(inputs.module.read_bytes(), "runner")
    document = good_evidence(inputs.recipe.recipe, manifest, runner, **changes)
    return write(inputs, document)


def write(inputs: MiniInputs, document: Evidence) -> Path:
    path = inputs.folder / "evidence.json"
    path.write_text(document.canonical(), encoding="utf-8")
    return path


def whats(inputs: MiniInputs, evidence: Path) -> list[str]:
    with pytest.raises(InputError) as caught:
        inputs.stage(evidence=evidence)
    assert not inputs.out.exists()
    for problem in caught.value.problems:
        assert problem.where
        assert problem.expected
        assert problem.found
        assert problem.remedy
    return [problem.what for problem in caught.value.problems]


def test_without_evidence_nothing_is_validated(inputs: MiniInputs) -> None:
    assert inputs.stage().manifest.gpu_validated is False


def test_evidence_of_these_binaries_validates_them(inputs: MiniInputs) -> None:
    staged = inputs.stage(evidence=evidence_of(inputs))
    assert staged.manifest.gpu_validated is True
    written = json.loads(staged.manifest_path.read_text())
    assert written["gpu_validated"] is True
    assert any("see that no limitation" in warning for warning in staged.warnings)
    assert not any("same device code" in warning for warning in staged.warnings)


def test_the_command_says_so(inputs: MiniInputs) -> None:
    evidence = evidence_of(inputs)
    assert situ(*inputs.command(), "--json").json["gpu_validated"] is False
    result = situ(*inputs.command(), f"--evidence={evidence}", "--json")
    assert result.json["gpu_validated"] is True


def test_a_new_version_of_the_same_binaries_keeps_its_evidence(inputs: MiniInputs) -> None:
    evidence = evidence_of(inputs)
    inputs.edit_recipe(lambda text: text.replace("0.1.0.post20260727", "0.1.0.post20260728"))
    assert inputs.stage(evidence=evidence).manifest.gpu_validated is True


def test_equal_device_code_validates_with_a_warning(inputs: MiniInputs) -> None:
    evidence = evidence_of(inputs)
    before = inputs.module.read_bytes()
    inputs.compile(build_id="ab" * 20)
    assert inputs.module.read_bytes() != before
    staged = inputs.stage(evidence=evidence)
    assert staged.manifest.gpu_validated is True
    assert any("host code that is staged here did not run" in text for text in staged.warnings)


def test_other_device_code_does_not(inputs: MiniInputs, tmp_path: Path) -> None:
    evidence = evidence_of(inputs)
    other = make_inputs(tmp_path / "other", cubin_of=lambda kernel: cubin_of(kernel, seed=7))
    assert whats(other, evidence) == ["the evidence is of other binaries"]


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"recipe": "another"}, "the evidence is of another recipe's bundle"),
        ({"terms_sha256": "3" * 64}, "the run met other demands than the recipe makes now"),
        ({"scope": {"short": True, "seeds": 20}}, "the run was a short one"),
        ({"host": None}, "the run was not on a device that the bundle is made for"),
    ],
)
def test_evidence_that_shows_too_little_is_refused(
    inputs: MiniInputs, changes: dict[str, Any], what: str
) -> None:
    assert whats(inputs, evidence_of(inputs, **changes)) == [what]


def test_another_device_is_refused_by_name(inputs: MiniInputs) -> None:
    host = json.loads(evidence_of(inputs).read_text())["host"]
    host["devices"][0] |= {"name": "NVIDIA H200", "sm": 90}
    evidence = evidence_of(inputs, host=host)
    with pytest.raises(InputError, match=r"sm_103.*NVIDIA H200, sm_90"):
        inputs.stage(evidence=evidence)


@pytest.mark.parametrize("status", ["fail", "refused", None])
def test_every_mandatory_tier_must_have_passed(inputs: MiniInputs, status: str | None) -> None:
    tiers = json.loads(evidence_of(inputs).read_text())["tiers"]
    tiers = [tier for tier in tiers if status or tier["name"] != "memory"]
    for tier in tiers:
        if tier["name"] == "memory":
            tier["status"] = status
    assert whats(inputs, evidence_of(inputs, tiers=tiers)) == ["tier memory has not passed"]


def test_everything_that_is_wrong_is_said_at_once(inputs: MiniInputs) -> None:
    evidence = evidence_of(inputs, terms_sha256="3" * 64, tiers=[], host=None)
    mandatory = len(inputs.recipe.recipe.smoke.mandatory)
    assert len(whats(inputs, evidence)) == 2 + mandatory


def test_a_laxer_tolerance_in_the_recipe_makes_other_terms(inputs: MiniInputs) -> None:
    evidence = evidence_of(inputs)
    inputs.edit_recipe(lambda text: text.replace("worst_token = 2e-2", "worst_token = 3e-2"))
    assert whats(inputs, evidence) == ["the run met other demands than the recipe makes now"]


@pytest.mark.parametrize("content", [None, "{}", "no JSON"])
def test_a_file_that_is_no_evidence_is_an_input_error(
    inputs: MiniInputs, content: str | None
) -> None:
    path = inputs.folder / "evidence.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(InputError, match=r"evidence\.json"):
        inputs.stage(evidence=path)
