"""Documents are bounded in depth, so that whoever walks one cannot run out of stack."""

from __future__ import annotations

from pathlib import Path

import pytest

from situ_release import canonical, toml
from situ_release.errors import InputError


@pytest.mark.parametrize("depth", [65, 300, 900, 100_000])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_deep_json_is_refused(opening: str, closing: str, depth: int) -> None:
    text = opening * depth + "1" + closing * depth
    with pytest.raises(InputError, match="not a valid JSON document"):
        canonical.loads(text, "a.json")


def test_json_as_deep_as_is_allowed() -> None:
    assert canonical.loads("[" * canonical.MAX_DEPTH + "]" * canonical.MAX_DEPTH, "a.json")


def test_deep_toml_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text("a = " + "[" * 80 + "]" * 80 + "\n", encoding="utf-8")
    with pytest.raises(InputError, match="not valid TOML"):
        toml.load(path, "recipe")
