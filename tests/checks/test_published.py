"""The published wheel passes with warnings; tampering is seen even where all lists fit."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from situ_release.checks.model import VerifyReport
from situ_release.checks.verify import verify_wheel
from tests.synth.elf import make_cubin, make_runner
from tests.synth.wheel import Edit, Files, exchange, record_of

PACKAGE = "tokenspeed_situ"
MANIFEST = f"{PACKAGE}/manifest.json"
RUNNER = f"{PACKAGE}/lib/fused_moe_k3_situ_sm103.so"


@pytest.fixture(scope="module")
def files(published_wheel: Path) -> Files:
    """Every file of the published wheel."""
    with zipfile.ZipFile(published_wheel) as archive:
        return {
            info.filename: archive.read(info) for info in archive.infolist() if not info.is_dir()
        }


@pytest.fixture(scope="module")
def cubins(files: Files) -> list[str]:
    """Member names of the cubins, as the manifest lists them."""
    return [f"{PACKAGE}/{entry['path']}" for entry in json.loads(files[MANIFEST])["cubins"]]


@pytest.fixture
def tampered(
    files: Files, published_wheel: Path, tmp_path: Path
) -> Callable[[Edit, bool], VerifyReport]:
    """Verify the wheel after an edit, with RECORD corrected or left as it was."""

    def verify(edit: Edit, correct_record: bool) -> VerifyReport:
        changed = dict(files)
        edit(changed)
        if correct_record:
            (record,) = (name for name in changed if name.endswith("/RECORD"))
            del changed[record]
            changed[record] = record_of(changed, record.rpartition("/")[0])
        path = tmp_path / published_wheel.name
        with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
            for name, data in changed.items():
                archive.writestr(name, data)
        return verify_wheel(path)

    return verify


def failing(report: VerifyReport, member: str) -> set[str]:
    """Ids of the checks that name a member in a fault."""
    assert report.exit_code == 1
    return {
        check.id
        for check in report.checks
        for finding in check.findings
        if finding.severity == "fail" and finding.subject == member
    }


def flipped(data: bytes, position: int) -> bytes:
    changed = bytearray(data)
    changed[position] ^= 1
    return bytes(changed)


def test_the_published_wheel_passes_with_warnings_only(published_wheel: Path) -> None:
    report = verify_wheel(published_wheel)
    assert report.exit_code == 0
    assert report.recipe == "kimi-k3-situ"
    assert {check.status for check in report.checks} == {"pass", "warn"}
    warnings = {check.id for check in report.checks if check.status == "warn"}
    assert warnings == {
        "manifest.recipe",
        "package.code",
        "runner.leaks",
        "licenses.files",
        "licenses.declared",
        "advisories.known",
        "provenance.snapshot",
    }


def test_the_previous_release_is_the_same_binaries_under_another_version(
    previous_wheel: Path,
) -> None:
    report = verify_wheel(previous_wheel)
    assert report.exit_code == 0
    messages = [f.message for check in report.checks for f in check.findings]
    assert any("another version than the recipe's" in message for message in messages)
    assert any("268 binaries are those reviewed" in message for message in messages)


def test_what_the_published_wheel_must_be_told(published_wheel: Path) -> None:
    report = verify_wheel(published_wheel)
    told = [f"{f.subject}: {f.message}" for check in report.checks for f in check.findings]
    for words in (
        ("METADATA", "PROVENANCE.md"),
        ("FLASHINFER_NOTICE.txt", "licenses/"),
        (RUNNER, "23 (/home/<user>/"),
        ("kimi-k3-situ.toml", "runner_license"),
        ("cubins", "207 cubins made by ptxas V13.1.80"),
        ("cubins", "60 cubins made by nvasm_internal V12.9.90"),
        (RUNNER, "10 cubin for sm_103a"),
        (RUNNER, "reported: With do_finalize=False"),
        (published_wheel.name, "46 cubins (4,270,832 bytes) can never be selected"),
    ):
        assert any(all(word in line for word in words) for line in told), words


def test_a_changed_manifest_byte(tampered, files: Files) -> None:
    report = tampered(lambda wheel: wheel.update({MANIFEST: flipped(wheel[MANIFEST], 5000)}), False)
    assert "wheel.record" in failing(report, MANIFEST)


@pytest.mark.parametrize("correct_record", [False, True])
def test_an_added_file(tampered, correct_record: bool) -> None:
    member = f"{PACKAGE}/cubins/sm103a/Bmm_extra_sm103a.cubin"
    report = tampered(lambda wheel: wheel.update({member: make_cubin()}), correct_record)
    expected = "manifest.files" if correct_record else "wheel.record"
    assert expected in failing(report, member)


@pytest.mark.parametrize("correct_record", [False, True])
def test_a_removed_file(tampered, cubins: list[str], correct_record: bool) -> None:
    report = tampered(lambda wheel: wheel.pop(cubins[100]), correct_record)
    expected = "manifest.files" if correct_record else "wheel.record"
    assert expected in failing(report, cubins[100])


@pytest.mark.parametrize("number", [0, 133, 266])
def test_a_changed_cubin_where_manifest_and_record_fit(
    tampered, files: Files, cubins: list[str], number: int
) -> None:
    member = cubins[number]
    data = files[member]
    report = tampered(exchange(member, flipped(data, len(data) // 2)), True)
    assert "runner.table" in failing(report, member)


def test_two_swapped_cubins_where_manifest_and_record_fit(
    tampered, files: Files, cubins: list[str]
) -> None:
    one, other = cubins[3], cubins[4]

    def swap(wheel: Files) -> None:
        exchange(one, files[other])(wheel)
        exchange(other, files[one])(wheel)

    report = tampered(swap, True)
    assert {"cubin.symbol", "runner.table"} <= failing(report, one)
    assert {"cubin.symbol", "runner.table"} <= failing(report, other)


def test_a_family_cubin_under_another_architecture_s_name(
    tampered, files: Files, cubins: list[str]
) -> None:
    specific = next(name for name in cubins if "/sm103a/" in name)
    family = next(name for name in cubins if "/sm100f/" in name)
    report = tampered(exchange(specific, files[family]), True)
    assert {"cubin.arch", "cubin.symbol", "runner.table"} <= failing(report, specific)


@pytest.mark.parametrize(
    ("other", "check"),
    [
        (lambda: b"404: not found\n", "runner.format"),
        (lambda: make_cubin(), "runner.format"),
        (lambda: Path("/bin/true").read_bytes(), "runner.symbols"),
        (
            lambda: make_runner(
                ffi_symbols=(
                    "trtllm_fp4_block_scale_moe_private",
                    "trtllm_get_valid_moe_configs_private",
                )
            ),
            "runner.table",
        ),
    ],
    ids=["text", "cubin", "program", "runner"],
)
def test_another_runner_where_manifest_and_record_fit(
    tampered, other: Callable[[], bytes], check: str
) -> None:
    report = tampered(exchange(RUNNER, other()), True)
    assert check in failing(report, RUNNER)
