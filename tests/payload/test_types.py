"""The shipped packages are typed: mypy --strict on a rendered one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.payload.assemble import render


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["kimi-k3-situ", "flashinfer-mxfp4-swiglu"])
def test_the_rendered_package_is_strictly_typed(tmp_path: Path, recipe: str) -> None:
    package = render(tmp_path / "project", recipe_name=recipe)
    command = [sys.executable, "-m", "mypy", "--strict", "--python-version", "3.10"]
    command += ["--cache-dir", tmp_path / "cache", "-p", package.name]
    result = subprocess.run(
        command, cwd=package.project, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout
