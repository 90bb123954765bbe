"""As much of GitHub Actions as the release workflow uses: jobs, steps, artifacts.

Every ``run:`` step is run by bash with its own text; what an action does is done here. So an option
that no longer exists, or a file that an earlier job did not leave, breaks a test and not a release.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

ROOT = Path(__file__).resolve().parent.parent.parent
WORKFLOWS = ROOT / ".github" / "workflows"

INSTALL = re.compile(
    r"python3 -m venv \.venv && \.venv/bin/python -m pip install --quiet (\.|'\.\[smoke\]')"
)
"""How every job installs the tool; here the checkout's own is run."""

_EXPRESSION = re.compile(r"\$\{\{\s*(.*?)\s*\}\}")


def load_workflow(name: str) -> dict[str, Any]:
    document: dict[str, Any] = YAML(typ="safe").load(WORKFLOWS / name)
    return document


def steps(workflow: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every step with its job's id."""
    for name, job in workflow["jobs"].items():
        for step in job["steps"]:
            yield name, step


@dataclass
class StepRun:
    """What a ``run:`` step did."""

    script: str
    code: int
    output: str


Instead = Callable[[Path, str], "StepRun | None"]
"""Given workspace and script, does a step's work in another way; None to run it as it stands."""


@dataclass
class Dispatch:
    """One run of the workflow.

    Attributes:
        number: the run's id.
        context: values of the expressions in ``env`` and ``with``: ``inputs.run_id``.
        artifacts: files by run and artifact name, kept between runs.
    """

    number: str
    folder: Path
    checkout: Path
    workflow: dict[str, Any]
    context: dict[str, str]
    artifacts: dict[tuple[str, str], Path] = field(default_factory=dict)

    def run(self, job_id: str, instead: Instead = lambda workspace, script: None) -> list[StepRun]:
        """Run a job to its end, or to its first failing step."""
        job = self.workflow["jobs"][job_id]
        workspace = self.folder / self.number / job_id
        workspace.mkdir(parents=True)
        environment = {name: self._value(text) for name, text in job.get("env", {}).items()}
        done: list[StepRun] = []
        for step in job["steps"]:
            failed = bool(done) and done[-1].code != 0
            if failed and step.get("if") != "always()":
                continue
            if "run" in step:
                script = step["run"].strip()
                done.append(
                    self._install(workspace, script)
                    or instead(workspace, script)
                    or self._bash(workspace, script, environment)
                )
            else:
                self._act(workspace, step)
        return done

    def _value(self, text: str) -> str:
        return _EXPRESSION.sub(lambda match: self.context[match.group(1)], str(text))

    def _install(self, workspace: Path, script: str) -> StepRun | None:
        if not INSTALL.fullmatch(script):
            return None
        programs = workspace / ".venv" / "bin"
        programs.mkdir(parents=True)
        for name, command in (("python", ""), ("situ-release", "-m situ_release")):
            program = programs / name
            program.write_text(
                f'#!/bin/sh\nPYTHONPATH="{workspace}" exec "{sys.executable}" {command} "$@"\n'
            )
            program.chmod(0o755)
        return StepRun(script, 0, "")

    def _bash(self, workspace: Path, script: str, environment: dict[str, str]) -> StepRun:
        process = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
            cwd=workspace,
            env={**os.environ, "GITHUB_ACTIONS": "true", **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return StepRun(script, process.returncode, process.stdout)

    def _act(self, workspace: Path, step: dict[str, Any]) -> None:
        action, given = step["uses"].partition("@")[0], step.get("with", {})
        if action == "actions/checkout":
            shutil.copytree(
                self.checkout, workspace, dirs_exist_ok=True, copy_function=os.link, symlinks=True
            )
        elif action == "actions/upload-artifact":
            self._upload(workspace, given)
        elif action == "actions/download-artifact":
            run = self._value(given.get("run-id", self.number))
            target = workspace / given["path"]
            shutil.copytree(self.artifacts[run, given["name"]], target, dirs_exist_ok=True)
        else:
            raise AssertionError(f"no such action here: {action}")

    def _upload(self, workspace: Path, given: dict[str, Any]) -> None:
        store = self.folder / "artifacts" / self.number / given["name"]
        store.mkdir(parents=True)
        found = 0
        for pattern in given["path"].split():
            for path in sorted(workspace.glob(pattern)):
                found += 1
                if path.is_dir():
                    # Hidden files stay behind, as they do with the action.
                    hidden = shutil.ignore_patterns(".*")
                    shutil.copytree(path, store, dirs_exist_ok=True, ignore=hidden)
                else:
                    shutil.copy2(path, store)
        if given.get("if-no-files-found") == "error":
            assert found, f"nothing to upload as {given['name']}"
        self.artifacts[self.number, given["name"]] = store
