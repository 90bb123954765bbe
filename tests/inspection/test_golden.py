"""What people see, for small inputs of every kind."""

from __future__ import annotations

import pytest

from tests.inspection import golden


@pytest.mark.parametrize("case", golden.CASES, ids=lambda case: case.__name__)
def test_output(case: object) -> None:
    path = golden.FOLDER / f"{case.__name__}.txt"  # type: ignore[attr-defined]
    shown = golden.output(case)  # type: ignore[arg-type]
    assert shown == path.read_text(encoding="utf-8"), "run python -m tests.inspection.golden"
    too_long = [line for line in shown.splitlines() if len(line) > golden.WIDTH]
    assert not too_long


def test_every_file_has_its_case() -> None:
    assert {path.stem for path in golden.FOLDER.iterdir()} == {c.__name__ for c in golden.CASES}
