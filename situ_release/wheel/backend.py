"""The PEP 517 build backend that a payload pins, run where situ-release itself is installed.

Building without isolation needs no downloads and takes half the time; that the right backend is
there is checked first.
"""

from __future__ import annotations

import importlib.metadata
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement

from situ_release.errors import HostError, InputError, Problem, ToolError, raise_all
from situ_release.wheel.canonical import EPOCH_VARIABLE

LOG_LINES = 15
"""How many of a failed tool's last lines are shown."""


def run_backend(project: Path, payload: Path, outdir: Path, epoch: int) -> Path:
    """Call the backend's ``build_wheel`` hook in a subprocess; its output is captured.

    Args:
        project: the folder to build, which the backend may write to, as to the one around it.
        payload: the folder it was copied from, used in errors.
        outdir: an empty or new folder for the wheel.
        epoch: SOURCE_DATE_EPOCH for the backend.

    Returns:
        The wheel.

    Raises:
        InputError: ``pyproject.toml`` is not usable.
        HostError: a requirement of the build is not installed here.
        ToolError: the backend failed; its last lines are attached.
    """
    import build

    log: list[str] = []

    def run(
        cmd: Sequence[str],
        cwd: str | None = None,
        extra_environ: Mapping[str, str] | None = None,
    ) -> None:
        result = subprocess.run(
            cmd,
            cwd=cwd,
            env=_environment(epoch, project.parent, extra_environ or {}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        log.extend(result.stdout.decode("utf-8", "replace").splitlines())
        result.check_returncode()

    try:
        builder = build.ProjectBuilder(project, sys.executable, run)
        _check_requirements(builder.build_system_requires, payload / "pyproject.toml")
        return Path(builder.build("wheel", outdir))
    except build.BuildException as error:
        raise InputError.of(
            "the payload is not a buildable project",
            payload / "pyproject.toml",
            expected="a [build-system] table that pins a backend",
            found=str(error).replace(str(project), str(payload)),
            remedy="stage the payload again with situ-release stage-assets",
        ) from error
    except build.BuildBackendException as error:
        problem = Problem(
            "the build backend failed",
            str(payload),
            expected="a wheel",
            found=ending(error.exception),
            remedy="see the backend's last lines below",
        )
        raise ToolError(problem, log_tail="\n".join(log[-LOG_LINES:])) from error


def ending(error: Exception) -> str:
    """How a tool ended, in words: ``exit code 2``, ``ended by signal 9 (Killed)``."""
    if not isinstance(error, subprocess.CalledProcessError):
        return f"{type(error).__name__}: {error}"
    if error.returncode >= 0:
        return f"exit code {error.returncode}"
    number = -error.returncode
    return f"ended by signal {number} ({signal.strsignal(number)})"


def _environment(epoch: int, scratch: Path, extra: Mapping[str, str]) -> dict[str, str]:
    """The caller's, without the variables that switch the backend's hooks on and off.

    What the backend leaves behind when it is interrupted lies in ``scratch``.
    """
    kept = {name: text for name, text in os.environ.items() if not name.startswith("HATCH_")}
    own = {EPOCH_VARIABLE: str(epoch), "PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": str(scratch)}
    return {**kept, **own, **extra}


def _check_requirements(requires: set[str], where: Path) -> None:
    """Every requirement of the backend is installed here; nothing is ever downloaded."""
    problems = []
    for text in sorted(requires):
        try:
            requirement = Requirement(text)
        except InvalidRequirement as error:
            problem = Problem(
                "a build requirement is not valid",
                str(where),
                expected="a requirement as PEP 508 has it",
                found=str(error).splitlines()[0],
                remedy="correct the payload's template",
            )
            raise InputError(problem) from error
        if requirement.marker is not None and not requirement.marker.evaluate():
            continue
        try:
            installed = importlib.metadata.version(requirement.name)
        except importlib.metadata.PackageNotFoundError:
            installed = ""
        if not installed or not requirement.specifier.contains(installed, prereleases=True):
            problems.append(
                Problem(
                    "the build backend is not installed as the payload pins it",
                    str(where),
                    expected=text,
                    found=f"{requirement.name} {installed}" if installed else "no such package",
                    remedy=f"pip install '{text}' into {sys.prefix}; nothing is downloaded here",
                )
            )
    raise_all(HostError, problems)
