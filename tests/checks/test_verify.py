"""The entry point: any file gets an answer, only a missing one is an error."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from situ_release.checks.verify import verify_wheel
from situ_release.digests import sha256_file
from situ_release.errors import InputError, UsageError
from tests.checks.bundle import result, sound_wheel, statuses, write_recipe


def test_a_missing_path_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        verify_wheel(tmp_path / "none.whl")
    assert str(tmp_path / "none.whl") in str(caught.value)


def test_a_folder_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        verify_wheel(tmp_path)


@pytest.mark.parametrize(
    "content",
    [b"", b"no wheel\n", b"PK\x03\x04", b"PK\x05\x06" + bytes(18), bytes(1000), b"\x7fELF" * 100],
    ids=["empty", "text", "cut off", "empty archive", "zeros", "ELF"],
)
def test_any_other_file_fails_wheel_archive(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a-1-py3-none-any.whl"
    path.write_bytes(content)
    report = verify_wheel(path)
    assert report.exit_code == 1
    archive = result(report, "wheel.archive")
    assert archive.status == "fail"
    assert {finding.subject for finding in archive.findings} == {path.name}
    rest = {status for check_id, status in statuses(report).items() if check_id != "wheel.archive"}
    assert rest <= {"skip", "fail"}


def test_a_zip_of_something_else_is_no_bundle(tmp_path: Path) -> None:
    path = tmp_path / "a-1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.txt", "hello")
    report = verify_wheel(path)
    assert report.exit_code == 1
    assert statuses(report)["manifest.schema"] == "fail"
    assert statuses(report)["wheel.metadata"] == "fail"


def test_a_truncated_wheel_fails_wheel_archive(tmp_path: Path) -> None:
    path = sound_wheel(tmp_path)
    path.write_bytes(path.read_bytes()[:-200])
    report = verify_wheel(path)
    assert statuses(report)["wheel.archive"] == "fail"
    assert report.exit_code == 1


def test_the_report_is_bound_to_the_file(tmp_path: Path) -> None:
    path = sound_wheel(tmp_path)
    facts = verify_wheel(path).wheel
    assert (facts.filename, facts.size) == (path.name, path.stat().st_size)
    assert facts.sha256 == sha256_file(path)


def test_ignoring_the_check_that_failed_is_no_way_to_pass(tmp_path: Path) -> None:
    path = tmp_path / "a-1-py3-none-any.whl"
    path.write_bytes(b"no wheel")
    report = verify_wheel(path, ignore=["wheel.archive", "manifest.recipe"])
    assert "fail" not in statuses(report).values()
    assert report.exit_code == 1


def test_a_selected_check_reports_alone_and_skips_what_it_cannot_read(tmp_path: Path) -> None:
    path = sound_wheel(tmp_path, machine=183)
    recipe = str(write_recipe(tmp_path))
    assert statuses(verify_wheel(path, recipe=recipe, select=["runner.table"])) == {
        "runner.table": "skip"
    }


def test_strict_takes_no_warning(tmp_path: Path) -> None:
    path = sound_wheel(tmp_path, strings=("/home/alice/flashinfer/csrc/launcher.cu",))
    recipe = str(write_recipe(tmp_path))
    only = ["runner.leaks"]
    assert verify_wheel(path, recipe=recipe, select=only).exit_code == 0
    assert verify_wheel(path, recipe=recipe, select=only, strict=True).exit_code == 1


def test_an_unknown_check_or_recipe_is_a_usage_error(tmp_path: Path) -> None:
    path = sound_wheel(tmp_path)
    with pytest.raises(UsageError, match="no such check"):
        verify_wheel(path, select=["nothing"])
    with pytest.raises(UsageError, match="no such recipe"):
        verify_wheel(path, recipe="nothing")
