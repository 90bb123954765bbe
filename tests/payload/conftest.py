"""Fixtures of the payload tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.payload.assemble import Package, assemble


@pytest.fixture
def package(tmp_path: Path) -> Package:
    """A whole package with tiny files in place of the binaries."""
    return assemble(tmp_path / "project")
