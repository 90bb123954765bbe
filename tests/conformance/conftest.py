"""The bundle, compiled once, and the libraries that emulate a device for it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from situ_release import resources
from situ_release.bundle.conformance import RECIPE, ConformanceBuild, build_conformance
from situ_release.bundle.conformance_kernels import ConformanceKernel, read_kernels
from tests.conformance.build_emulator import build_emulator

SOURCES = resources.recipes() / RECIPE


@pytest.fixture(scope="session")
def kernels() -> list[ConformanceKernel]:
    return read_kernels(SOURCES / "kernels.toml")


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> ConformanceBuild:
    """The whole bundle, one to four minutes of compiling (markers ``nvcc`` and ``slow``)."""
    return build_conformance(tmp_path_factory.mktemp("conformance") / "bundle")


@pytest.fixture(scope="session")
def emulator(
    tmp_path_factory: pytest.TempPathFactory, kernels: list[ConformanceKernel]
) -> dict[str, str]:
    """The environment in which the runner finds the emulated CUDA libraries."""
    folder = tmp_path_factory.mktemp("emulator") / "lib"
    build_emulator(folder, SOURCES, kernels)
    path = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "LD_LIBRARY_PATH": str(folder), "PYTHONPATH": path.rstrip(os.pathsep)}
