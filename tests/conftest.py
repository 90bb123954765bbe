"""Fixtures for the real artifacts. Unit tests never fetch or build anything."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

PUBLISHED = {
    "0.1.0.post20260727": "3d92a31bc50f13fea3da6a174b049943bf0fa2848509d960150b13a611ea3e9f",
    "0.1.0.post20260726": "a23a3932a2b6d7e55b19697ccca51fcc3483a12a7708fb37798d32b182429e3b",
}
"""SHA-256 of the published tokenspeed-situ wheels, by version."""


def cache_folder() -> Path:
    """Where fetched wheels are kept: ``SITU_CACHE``, else the user's cache folder."""
    base = os.environ.get("SITU_CACHE") or Path(
        os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "situ-release"
    )
    return Path(base)


def fetch(requirement: str, sha256: str, platform: str) -> Path:
    """The pinned wheel of ``requirement``, fetched once into the cache; skips when that fails."""
    folder = cache_folder() / sha256
    for path in folder.glob("*.whl"):
        if hashlib.sha256(path.read_bytes()).hexdigest() == sha256:
            return path
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as fresh:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--only-binary=:all:", "--platform", platform, "--python-version", "3.12"]
        command += ["--dest", fresh, requirement]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode:
            pytest.skip(f"cannot fetch {requirement}: {result.stderr.strip()[-200:]}")
        (path,) = Path(fresh).glob("*.whl")
        found = hashlib.sha256(path.read_bytes()).hexdigest()
        assert found == sha256, f"{path.name} has SHA-256 {found}, pinned is {sha256}"
        folder.mkdir(exist_ok=True)
        os.replace(path, folder / path.name)
    return folder / path.name


def _published(version: str) -> Path:
    return fetch(f"tokenspeed-situ=={version}", PUBLISHED[version], "manylinux_2_39_x86_64")


@pytest.fixture(scope="session")
def published_wheel() -> Path:
    """The published wheel post20260727 (marker ``network``)."""
    return _published("0.1.0.post20260727")


@pytest.fixture(scope="session")
def previous_wheel() -> Path:
    """The release before, post20260726 (marker ``network``)."""
    return _published("0.1.0.post20260726")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test that uses a published wheel needs the network; tools that are absent skip with a reason."""
    for item in items:
        names = getattr(item, "fixturenames", ())
        if {"published_wheel", "previous_wheel"} & set(names):
            item.add_marker(pytest.mark.network)
        for marker, programs in (("nvcc", ("nvcc",)), ("gcc", ("cc", "c++"))):
            missing = [name for name in programs if shutil.which(name) is None]
            if item.get_closest_marker(marker) and missing:
                item.add_marker(pytest.mark.skip(reason=f"{', '.join(missing)} not on the PATH"))
        if item.get_closest_marker("gpu") and not Path("/dev/nvidiactl").exists():
            item.add_marker(pytest.mark.skip(reason="no NVIDIA GPU on this host"))
