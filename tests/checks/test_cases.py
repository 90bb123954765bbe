"""Faults from public bug reports that concern ``verify``: A13 to A16."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path

import pytest

from situ_release.checks.model import VerifyReport
from situ_release.checks.verify import verify_wheel
from tests.checks.breakages import drop, put
from tests.checks.bundle import (
    FC1,
    PACKAGE,
    W4A8,
    compiled_with,
    cubin_member,
    result,
    sound_wheel,
    statuses,
    verify,
    write_recipe,
)
from tests.synth.elf import Undefined, make_cubin
from tests.synth.wheel import (
    DIST_INFO,
    MANIFEST,
    PUBLISHED_TAG,
    RAW_TAG,
    RUNNER,
    Edit,
    Files,
    cubin_of,
    dump,
    edit_manifest,
    exchange,
)

RECORD = f"{DIST_INFO}/RECORD"
LOADER = f"{PACKAGE}/loader.py"


def subjects(report: VerifyReport, check_id: str) -> set[str]:
    return {f.subject for f in result(report, check_id).findings if f.severity == "fail"}


# --- A13: RECORD does not match contents ---------------------------------------------------------


def wrong_size(files: Files) -> None:
    row = f"{LOADER},[^,]*,{len(files[LOADER])}\n".encode()
    assert re.search(row, files[RECORD])
    files[RECORD] = re.sub(row, lambda found: found[0][:-1] + b"0\n", files[RECORD])


@pytest.mark.parametrize(
    ("tamper", "subject"),
    [
        (put(LOADER, b'"""The loader of a synthetic bundlE."""\n'), LOADER),
        (wrong_size, LOADER),
        (put(f"{PACKAGE}/extra.py", b""), f"{PACKAGE}/extra.py"),
        (drop(LOADER), LOADER),
        (drop(RECORD), RECORD),
    ],
    ids=["changed bytes", "wrong size", "member without row", "row without member", "no RECORD"],
)
def test_a13_record_and_archive_must_agree(tmp_path: Path, tamper: Edit, subject: str) -> None:
    report = verify(tmp_path, tamper=tamper)
    assert report.exit_code == 1
    assert subjects(report, "wheel.record") == {subject}


def test_a13_folders_need_no_row(tmp_path: Path) -> None:
    def add_folder(path: Path) -> None:
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr(f"{PACKAGE}/cubins/", b"")

    assert statuses(verify(tmp_path, after=add_folder)) == {}


# --- A14: tags -----------------------------------------------------------------------------------

OTHER_TAG = "py3-none-manylinux_2_28_x86_64"
TWO_TAGS = "py3-none-manylinux_2_24_x86_64.manylinux_2_39_x86_64"


@pytest.mark.parametrize(
    "knobs",
    [
        {"tag": RAW_TAG},
        {"filename": f"{PACKAGE}-0.1.0.post20260727-{OTHER_TAG}.whl"},
        {"tag": TWO_TAGS},
    ],
    ids=["not repaired", "renamed", "two tags"],
)
def test_a14_one_tag_in_name_and_wheel(tmp_path: Path, knobs: dict[str, str]) -> None:
    report = verify(tmp_path, **knobs)
    assert statuses(report) == {"wheel.tags": "fail"}
    assert report.wheel.filename in subjects(report, "wheel.tags")


# --- A15: architecture in name and in ELF --------------------------------------------------------


def test_a15_a_family_cubin_under_an_architecture_specific_name(tmp_path: Path) -> None:
    renamed = make_cubin(FC1, sm=100, arch_specific=False)
    report = verify(tmp_path, edit=compiled_with({FC1: renamed}))
    assert statuses(report) == {"cubin.arch": "fail", "manifest.locked": "warn"}
    assert subjects(report, "cubin.arch") == {cubin_member(FC1)}


def test_a15_a_cubin_in_another_folder_than_its_name_says(tmp_path: Path) -> None:
    moved = cubin_member(W4A8).replace("/sm100f/", "/sm103a/")

    def move(files: Files) -> None:
        files[moved] = files.pop(cubin_member(W4A8))
        old, new = (name.split("/", 1)[1].encode() for name in (cubin_member(W4A8), moved))
        files[MANIFEST] = files[MANIFEST].replace(old, new)

    report = verify(tmp_path, edit=move)
    assert statuses(report) == {"cubin.arch": "fail"}
    assert subjects(report, "cubin.arch") == {moved}


def test_a15_a_bundle_of_both_architectures_is_sound(tmp_path: Path) -> None:
    report = verify(tmp_path)
    assert {FC1[-6:], W4A8[-6:]} == {"sm103a", "sm100f"}
    assert result(report, "cubin.arch").status == "pass"


def test_a15_a_cubin_that_does_not_say_is_no_pass(tmp_path: Path) -> None:
    silent = make_cubin(FC1, arch_specific=None)
    report = verify(tmp_path, edit=compiled_with({FC1: silent}))
    assert statuses(report) == {"cubin.arch": "warn", "manifest.locked": "warn"}


# --- A16: unresolved symbols ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "consequence"),
    [("function", "dies at the first call"), ("object", "cannot be opened")],
)
def test_a16_an_undefined_symbol_needs_a_provider(
    tmp_path: Path, kind: str, consequence: str
) -> None:
    report = verify(tmp_path, undefined=(Undefined("TVMFFINoSuchSymbol", kind=kind),))
    assert result(report, "runner.symbols").status == "fail"
    (finding,) = result(report, "runner.symbols").findings
    assert finding.subject == RUNNER
    assert "TVMFFINoSuchSymbol" in finding.message
    assert consequence in finding.message
    assert "apache-tvm-ffi" in finding.message


@pytest.mark.parametrize(
    ("undefined", "missing"),
    [
        (Undefined("TVMFFIErrorSetRaised"), False),
        (Undefined("cuLaunchKernelEx"), False),
        (Undefined("cudaMalloc"), False),
        (Undefined("nobody_knows", weak=True), False),
        (Undefined("nobody_knows"), True),
        (Undefined("cublasCreate_v2"), True),
    ],
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_a16_providers_are_libraries_and_packages_of_the_recipe(
    tmp_path: Path, undefined: Undefined, missing: bool
) -> None:
    status = result(verify(tmp_path, undefined=(undefined,)), "runner.symbols").status
    assert status == ("fail" if missing else "pass")


def test_a16_a_driver_symbol_without_the_driver_has_no_provider(tmp_path: Path) -> None:
    report = verify(
        tmp_path,
        needed=("libcudart.so.13", "libc.so.6"),
        undefined=(Undefined("cuLaunchKernelEx"),),
    )
    (finding,) = result(report, "runner.symbols").findings
    assert "cuLaunchKernelEx" in finding.message


# --- the rest of the table: what verify must see, whoever made the wheel -------------------------


def test_swapped_cubins_are_seen_although_every_digest_fits(tmp_path: Path) -> None:
    other = FC1.replace("t128x8x", "t128x16x").replace("et128x8_m128x8x", "et128x16_m128x16x")
    swap = compiled_with({FC1: cubin_of(other), other: cubin_of(FC1)})
    report = verify(tmp_path, edit=swap)
    assert subjects(report, "cubin.symbol") == {cubin_member(FC1), cubin_member(other)}


def test_two_cubins_of_one_name_are_refused(tmp_path: Path) -> None:
    def twice(files: Files) -> None:
        document = json.loads(files[MANIFEST])
        entry = dict(document["cubins"][0])
        entry["filename"] = entry["filename"].swapcase()
        entry["path"] = f"cubins/sm103a/{entry['filename']}"
        document["cubins"].append(entry)
        files[MANIFEST] = dump(document)
        files[f"{PACKAGE}/{entry['path']}"] = files[cubin_member(FC1)]

    report = verify(tmp_path, edit=twice)
    swapped = cubin_member(FC1).rpartition("/")[2].swapcase()
    assert f"{PACKAGE}/cubins/sm103a/{swapped}" in subjects(report, "manifest.files")


def test_another_runner_that_fits_nothing_names_the_runner(tmp_path: Path) -> None:
    report = verify(tmp_path, edit=exchange(RUNNER, Path("/bin/true").read_bytes()))
    assert report.exit_code == 1
    assert RUNNER in {
        f.subject for check in report.checks for f in check.findings if f.severity == "fail"
    }


def test_the_recipe_is_found_by_distribution_or_named(tmp_path: Path) -> None:
    wheel = sound_wheel(tmp_path)
    shipped = verify_wheel(wheel)
    assert shipped.recipe == "kimi-k3-situ"
    assert result(shipped, "families.counts").status == "fail"
    named = verify_wheel(wheel, recipe=str(write_recipe(tmp_path)))
    assert statuses(named) == {}


def test_a_wheel_of_an_unknown_distribution_has_no_recipe(tmp_path: Path) -> None:
    nameless = edit_manifest(lambda document: document.pop("recipe"))
    wheel = sound_wheel(tmp_path, filename=f"other_bundle-1.0-{PUBLISHED_TAG}.whl", edit=nameless)
    report = verify_wheel(wheel)
    assert report.recipe is None
    (finding,) = result(report, "manifest.recipe").findings
    assert "a recipe that makes other-bundle" in finding.message
    assert "--recipe" in finding.remedy
    assert result(report, "families.counts").status == "skip"


def test_a_recipe_that_is_not_shipped_is_asked_for(tmp_path: Path) -> None:
    other = edit_manifest(lambda document: document["recipe"].update(name="our-own"))
    report = verify_wheel(sound_wheel(tmp_path, edit=other))
    assert report.exit_code == 1
    (finding,) = result(report, "manifest.recipe").findings
    assert "expected recipe our-own" in finding.message
    assert "--recipe" in finding.remedy


def test_a_recipe_without_a_lock_is_no_review(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, lock=False)
    (finding,) = result(
        verify_wheel(sound_wheel(tmp_path), recipe=str(recipe)), "manifest.locked"
    ).findings
    assert (finding.severity, "kimi-k3-situ.lock.json" in finding.message) == ("warn", True)


def test_a_malformed_lock_is_a_fault(tmp_path: Path) -> None:
    report = verify(tmp_path, lock=lambda lock: lock.pop("runner_sha256"))
    assert statuses(report) == {"manifest.locked": "fail"}
