"""A9 across Python versions: build and repair of one payload give one wheel for one zlib."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.synth.wheel import make_payload

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
VERSIONS = ("3.10", "3.11", "3.12", "3.13")
PROGRAM = """
import os, sys, zlib
from pathlib import Path
from situ_release.bundle.recipe import load_recipe
from situ_release.wheel.build import build_wheel
from situ_release.wheel.repair import repair_wheel
payload, out = map(Path, sys.argv[1:])
built = build_wheel(payload, out / "raw")
repaired = repair_wheel(built.path, out / "dist", load_recipe().recipe)
print(zlib.ZLIB_RUNTIME_VERSION, repaired.sha256)
"""


def interpreter(version: str) -> str | None:
    """A Python of that version that starts; a version manager's shim may not."""
    for folder in (None, *Path.home().glob(f".pyenv/versions/{version}.*/bin")):
        program = shutil.which(f"python{version}", path=None if folder is None else str(folder))
        if program and subprocess.run([program, "-c", ""], capture_output=True).returncode == 0:
            return program
    return None


@pytest.mark.slow
@pytest.mark.network
def test_one_payload_one_wheel(tmp_path: Path) -> None:
    found = {version: interpreter(version) for version in VERSIONS}
    programs = {version: program for version, program in found.items() if program}
    if len(programs) < 2:
        pytest.skip(f"only {len(programs)} of Python {', '.join(VERSIONS)} on this host")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    payload = make_payload(tmp_path / "payload")
    wheels: dict[str, dict[str, str]] = {}
    for seed, (version, program) in enumerate(programs.items()):
        folder = tmp_path / version
        subprocess.run([program, "-m", "venv", str(folder)], check=True)
        python = str(folder / "bin" / "python")
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        result = subprocess.run(
            [*install, *project["project"]["dependencies"]], capture_output=True, text=True
        )
        if result.returncode:
            pytest.skip(f"cannot install the dependencies: {result.stderr.strip()[-300:]}")
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": str(seed)}
        command = [python, "-c", PROGRAM, str(payload), str(folder / "out")]
        printed = subprocess.run(
            command, check=True, capture_output=True, text=True, env=environment
        ).stdout
        zlib_version, digest = printed.split()
        wheels.setdefault(zlib_version, {})[version] = digest
    for zlib_version, digests in wheels.items():
        assert len(set(digests.values())) == 1, f"zlib {zlib_version}: {digests}"
