from __future__ import annotations

from pathlib import Path

import pytest

from tests.synth.inputs import MiniInputs, make_inputs


@pytest.fixture
def inputs(tmp_path: Path) -> MiniInputs:
    """Consistent sources and a recipe, in a folder of their own."""
    return make_inputs(tmp_path / "sources")
