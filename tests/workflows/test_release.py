"""The release workflow, run: both dispatches on a synthetic bundle with the real command line."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from situ_release.bundle.publication_policy import APPROVAL_KINDS
from tests.checks.gate import IDENTITY, Signer, evidence_of, make_signer
from tests.cli.run import situ
from tests.synth.inputs import MiniInputs, make_inputs
from tests.workflows.actions import ROOT, Dispatch, StepRun, load_workflow

RECIPE = "kimi-k3-situ"
WORKFLOW = load_workflow("release.yml")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("release")


@pytest.fixture(scope="module")
def inputs(folder: Path) -> MiniInputs:
    return make_inputs(folder / "inputs")


@pytest.fixture(scope="module")
def signer(folder: Path) -> Signer:
    return make_signer(folder / "signer")


@pytest.fixture(scope="module")
def checkout(folder: Path, inputs: MiniInputs, signer: Signer) -> Path:
    """This repository with a recipe for the synthetic pool, its lock, and a known signer."""
    target = folder / "checkout"
    leave = shutil.ignore_patterns("__pycache__")
    for name in ("situ_release", "recipes", "payload", "approvals"):
        shutil.copytree(ROOT / name, target / name, ignore=leave)
    recipe = target / "recipes" / f"{RECIPE}.toml"
    shutil.copy(inputs.recipe_path, recipe)
    lock = recipe.with_suffix(".lock.json")
    assert situ(*inputs.command(), f"--write-lock={lock}").code == 0
    shutil.copy(signer.allowed, target / "approvals" / "allowed_signers")
    return target


@pytest.fixture(scope="module")
def first(folder: Path, checkout: Path, inputs: MiniInputs) -> Dispatch:
    """The first dispatch: a wheel, evidence of a run on the target device, a report."""
    dispatch = Dispatch(
        "1001",
        folder / "runs",
        checkout,
        WORKFLOW,
        {
            "inputs.recipe": RECIPE,
            "inputs.run_id": "",
            "vars.SITU_SNAPSHOT": str(inputs.snapshot),
            "vars.SITU_POOL": str(inputs.pool.root),
            "vars.SITU_MODULE": str(inputs.module),
        },
    )
    succeeds(dispatch.run("build"))
    succeeds(dispatch.run("verify"))
    tried = dispatch.run(
        "gpu-smoke",
        instead=lambda workspace, script: on_a_b300(dispatch, script, workspace, checkout),
    )
    succeeds(tried)
    succeeds(dispatch.run("report"))
    return dispatch


def succeeds(done: list[StepRun]) -> None:
    for step in done:
        assert step.code == 0, f"$ {step.script}\n{step.output}"


def on_a_b300(dispatch: Dispatch, script: str, workspace: Path, checkout: Path) -> StepRun | None:
    """The step with its own words on this host, which must refuse; then what a B300 would leave."""
    if " gpu-smoke " not in script:
        return None
    here = dispatch._bash(workspace, script, {})
    assert here.code in (1, 4), here.output
    assert "No such option" not in here.output
    (wheel,) = (workspace / "dist").glob("*.whl")
    recipe = checkout / "recipes" / f"{RECIPE}.toml"
    (workspace / "evidence.json").write_text(evidence_of(wheel, recipe).canonical())
    return StepRun(script, 0, here.output)


def wheel_of(dispatch: Dispatch, artifact: str = "wheel") -> Path:
    (wheel,) = dispatch.artifacts[dispatch.number, artifact].glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def second(folder: Path, first: Dispatch) -> Dispatch:
    """The second dispatch, not run yet."""
    return replace(
        first,
        number="1002",
        context={
            "inputs.run_id": first.number,
            "inputs.approvals": "approvals/approvals.toml",
            "github.token": "no token",
        },
    )


def test_the_first_dispatch_leaves_what_reviewers_decide_from(first: Dispatch) -> None:
    left = {name for run, name in first.artifacts if run == first.number}
    assert left == {"wheel", "findings", "evidence", "report"}
    report = first.artifacts[first.number, "report"]
    assert {"provenance.html", "RELEASE_NOTES.md", "requirements.txt"} <= {
        path.name for path in report.iterdir()
    }
    assert "Not cleared" in (report / "PROVENANCE.md").read_text()


def test_without_approvals_the_gate_stays_shut(second: Dispatch) -> None:
    *before, gate = replace(second, number="1003").run("gate")
    succeeds(before)
    assert gate.code == 1
    assert f"open before publication: {len(APPROVAL_KINDS)}" in gate.output
    assert ("1003", "cleared") not in second.artifacts


def approve(signer: Signer, wheel: Path, approvals: Path, signers: Path) -> None:
    """What the reviewers type."""
    for kind in APPROVAL_KINDS:
        words = [f"--kind={kind}", "--decision=approved", "--text=Nothing stands against it."]
        words += ["--reference=CASE-7", f"--identity={IDENTITY}", f"--key={signer.key}"]
        words += [f"--approvals={approvals}", f"--allowed-signers={signers}"]
        assert situ("approve", wheel, *words).code == 0


def test_the_second_dispatch_publishes_the_approved_bytes(
    folder: Path, first: Dispatch, second: Dispatch, signer: Signer, checkout: Path
) -> None:
    approved = folder / "approved"
    shutil.copytree(checkout, approved, copy_function=os.link)
    approvals = approved / "approvals"
    approve(signer, wheel_of(first), approvals / "approvals.toml", approvals / "allowed_signers")
    second = replace(second, checkout=approved)
    succeeds(second.run("gate"))
    assert wheel_of(second, "cleared").read_bytes() == wheel_of(first).read_bytes()
    report = second.artifacts[second.number, "report"]
    assert "Cleared for publication" in (report / "PROVENANCE.md").read_text()

    def without_an_index(workspace: Path, script: str) -> StepRun | None:
        if " pip download " in script:
            # pip itself needs the index, and a host whose glibc fits the tag.
            pinned = (workspace / "report" / "requirements.txt").read_text()
            (wheel,) = (workspace / "dist").glob("*.whl")
            assert "report/requirements.txt" in script
            assert pinned.startswith("tokenspeed-situ==0.1.0.post20260727 --hash=sha256:")
            shutil.copytree(workspace / "dist", workspace / "published")
            return StepRun(script, 0, wheel.name)
        return StepRun(script, 0, "") if "installed/bin/" in script else None

    checked = second.run("install-check", instead=without_an_index)
    succeeds(checked)
    assert any(" diff dist/" in step.script and step.output for step in checked)

    # Another wheel in the place of the approved one, whoever put it there.
    forged = replace(second, number="1004")
    wheel = wheel_of(first)
    kept = wheel.read_bytes()
    wheel.unlink()
    wheel.write_bytes(kept[:-1] + bytes([kept[-1] ^ 1]))
    *_, gate = forged.run("gate")
    wheel.write_bytes(kept)
    assert gate.code == 1
    assert "for another wheel" in gate.output
    assert ("1004", "cleared") not in second.artifacts


def test_binaries_that_nobody_reviewed_are_not_built(first: Dispatch, tmp_path: Path) -> None:
    other = make_inputs(tmp_path / "inputs")
    other.compile(strings=("another build",))
    context = {**first.context, "vars.SITU_MODULE": str(other.module)}
    *_, stage = replace(first, number="1005", context=context).run("build")
    assert stage.code == 3
    assert "--locked" in stage.output or "reviewed" in stage.output
    assert ("1005", "wheel") not in first.artifacts
