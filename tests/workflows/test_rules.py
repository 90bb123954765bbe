"""What holds for every workflow, and what the release workflow must never do."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from typing import Any

import pytest

from situ_release.bundle.recipe import load_recipe, recipe_names
from tests.workflows.actions import ROOT, WORKFLOWS, load_workflow, steps

PINNED = re.compile(r"uses: [\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+(\.\d+)*$")
NAMES = sorted(path.name for path in WORKFLOWS.glob("*.yml"))
RELEASE = load_workflow("release.yml")
JOBS: dict[str, Any] = RELEASE["jobs"]


def chain(start: str) -> list[str]:
    """A job and all that need it, in order."""
    found = [start]
    for name, job in JOBS.items():
        if job.get("needs") in found:
            found.append(name)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_actions_are_pinned_by_commit_and_named_by_version(name: str) -> None:
    lines = [line for line in (WORKFLOWS / name).read_text().splitlines() if "uses:" in line]
    assert lines
    for line in lines:
        assert PINNED.search(line), line


def test_an_action_has_one_pin() -> None:
    pins: dict[str, set[str]] = {}
    for name in NAMES:
        for _, step in steps(load_workflow(name)):
            if "uses" in step:
                action, _, commit = step["uses"].partition("@")
                pins.setdefault(action, set()).add(commit)
    assert {action: len(commits) for action, commits in pins.items() if len(commits) > 1} == {}


@pytest.mark.parametrize("name", NAMES)
def test_permissions_are_empty_but_for_what_a_job_names(name: str) -> None:
    workflow = load_workflow(name)
    assert workflow["permissions"] == {}
    for job in workflow["jobs"].values():
        assert job["timeout-minutes"] <= 120
        assert job["permissions"].get("contents", "read") == "read"


@pytest.mark.parametrize("name", NAMES)
def test_no_expression_reaches_a_shell(name: str) -> None:
    for _, step in steps(load_workflow(name)):
        assert "${{" not in step.get("run", "")


@pytest.mark.parametrize("name", NAMES)
def test_a_checkout_keeps_no_credentials(name: str) -> None:
    for _, step in steps(load_workflow(name)):
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False


def test_the_ci_matrix_is_the_recipes() -> None:
    (listing,) = [
        step["run"]
        for job, step in steps(load_workflow("ci.yml"))
        if job == "recipes" and "run" in step
    ]
    command = "python3 -m tests.recipes"
    assert command in listing
    done = subprocess.run(
        [sys.executable, *shlex.split(command)[1:]],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == recipe_names()
    matrix = load_workflow("ci.yml")["jobs"]["recipe"]["strategy"]["matrix"]["recipe"]
    assert matrix == "${{ fromJSON(needs.recipes.outputs.names) }}"


def test_release_jobs_use_no_cache() -> None:
    for _, step in steps(RELEASE):
        assert "cache" not in step.get("uses", "")
        assert not [key for key in step.get("with", {}) if "cache" in key]


def test_a_release_is_dispatched_by_a_person() -> None:
    (events,) = [RELEASE[key] for key in ("on", True) if key in RELEASE]
    assert set(events) == {"workflow_dispatch"}
    public = {
        name
        for name in recipe_names()
        if not any(c.startswith("Private ::") for c in load_recipe(name).recipe.package.classifiers)
    }
    assert set(events["workflow_dispatch"]["inputs"]["recipe"]["options"]) == public


def test_the_two_dispatches_share_no_job() -> None:
    first, second = chain("build"), chain("gate")
    assert first == ["build", "verify", "gpu-smoke", "report"]
    assert second == ["gate", "attest", "publish", "install-check"]
    assert first + second == list(JOBS)
    assert JOBS["build"]["if"] == "inputs.run_id == ''"
    assert JOBS["gate"]["if"] == "inputs.run_id != ''"


def test_what_is_published_was_built_in_the_first_dispatch_and_passed_the_gate() -> None:
    for name in chain("gate"):
        for step in JOBS[name]["steps"]:
            script = step.get("run", "")
            assert not re.search(r"situ-release (stage-assets|build|repair)|-m build", script)
            if "download-artifact" in step.get("uses", "") and name != "gate":
                assert "run-id" not in step["with"], "only the gate reads another run"
                assert step["with"]["name"] in ("cleared", "report")
    runs = [step["run"] for step in JOBS["gate"]["steps"] if "run" in step]
    assert sum("--for-publication" in script for script in runs) == 1
    uses = [step.get("uses", "") for step in JOBS["gate"]["steps"]]
    uploads = [number for number, action in enumerate(uses) if "upload-artifact" in action]
    gates = [
        number
        for number, step in enumerate(JOBS["gate"]["steps"])
        if "--for-publication" in step.get("run", "")
    ]
    assert min(uploads) > max(gates)
    assert all("if" not in JOBS["gate"]["steps"][number] for number in uploads)


def test_people_and_devices_stand_where_they_must() -> None:
    assert JOBS["gate"]["environment"] == "release"
    assert JOBS["publish"]["environment"] == "pypi"
    assert "b300" in JOBS["gpu-smoke"]["runs-on"]
    assert "self-hosted" in JOBS["build"]["runs-on"]
    hosted = {name for name, job in JOBS.items() if job["runs-on"] == "ubuntu-24.04"}
    assert hosted == set(JOBS) - {"build", "gpu-smoke"}


def test_jobs_with_an_identity_run_nothing_but_pinned_actions() -> None:
    identified = {name for name, job in JOBS.items() if "id-token" in job["permissions"]}
    assert identified == {"attest", "publish"}
    for name in identified:
        assert not [step for step in JOBS[name]["steps"] if "run" in step]
        assert not [s for s in JOBS[name]["steps"] if s["uses"].startswith("actions/checkout@")]


def test_a_version_is_uploaded_once() -> None:
    (upload,) = [s for _, s in steps(RELEASE) if "gh-action-pypi-publish" in s.get("uses", "")]
    assert upload["with"]["skip-existing"] is False
    assert not {"password", "user", "repository-url"} & set(upload["with"])


def test_the_release_calls_situ_release_and_installs_it() -> None:
    programs = set()
    for _, step in steps(RELEASE):
        if "run" in step:
            programs.add(shlex.split(step["run"])[0])
    assert programs == {"python3", ".venv/bin/situ-release", "timeout", "installed/bin/python"}
