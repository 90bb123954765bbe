"""The outside of a smoke child: what it may import."""

from __future__ import annotations

from pathlib import Path

import pytest

from situ_release.smoke.supervise import run_child


def test_modules_of_the_current_folder_are_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("json", "situ_release", "typing"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('hijacked')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("")
    outcome = run_child("absent", {}, limit_s=60)
    assert "KeyError: 'absent'" in outcome.log_tail
    assert "hijacked" not in outcome.log_tail
