"""Tier ``rehearsal`` as a whole: a compiled runner that behaves, and its many ways not to."""

from __future__ import annotations

from pathlib import Path

import pytest

from situ_release.bundle.recipe import LoadedRecipe, load_recipe
from situ_release.errors import InputError, Problem
from situ_release.smoke.rehearsal import stubs, tier
from situ_release.smoke.run import Options
from situ_release.smoke.suite import SmokeReport, run_smoke
from tests.smoke.rehearsal.native import TILES, compile_runner, rehearsal_wheel
from tests.synth.wheel import bundle_files, make_wheel, write_mini_recipe

pytestmark = pytest.mark.gcc


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> LoadedRecipe:
    return load_recipe(str(write_mini_recipe(tmp_path_factory.mktemp("recipe"), TILES)))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    return rehearsal_wheel(folder, compile_runner(folder))


def rehearse(wheel: Path, recipe: LoadedRecipe, options: Options | None = None) -> SmokeReport:
    return run_smoke(wheel, ["rehearsal"], recipe=recipe, options=options)


def misbehave(
    wheel: Path, recipe: LoadedRecipe, monkeypatch: pytest.MonkeyPatch, how: str
) -> tuple[SmokeReport, Problem]:
    monkeypatch.setenv("MISBEHAVE", how)
    report = rehearse(wheel, recipe)
    assert report.problems
    for problem in report.problems:
        assert problem.what
        assert problem.where
        assert problem.expected
        assert problem.found
        assert problem.remedy
    return report, report.problems[0]


def test_a_good_runner_passes_with_its_figures(wheel: Path, recipe: LoadedRecipe) -> None:
    report = rehearse(wheel, recipe)
    assert report.problems == ()
    assert report.exit_code == 0
    evidence = report.evidence
    assert [(entry.name, entry.status) for entry in evidence.tiers] == [("rehearsal", "pass")]
    assert evidence.host is None
    reasons = [entry.reason for entry in evidence.not_run if entry.tier == "rehearsal"]
    (reason,) = reasons
    assert reason.startswith(tier.PROVES)
    assert "a claimed sm_103" in reason
    contracts = recipe.recipe.contracts
    cases = {(case.contract, case.tokens): case for case in evidence.cases}
    assert cases[None, None].figures == {"sm": 103, "multiprocessors": 148}
    assert {case.status for case in evidence.cases} == {"pass"}
    for contract in contracts:
        tiles = 4 if contract.precision == "w4a16" else 6
        kernels = cases[contract.name, None].figures
        assert kernels == {"selectable": 2 * tiles, "requested": 2 * tiles}
        first = cases[contract.name, 1].figures
        # The default and one explicit tactic per offered tile, finalize on and off; three launches
        # with finalize and two without.
        assert first["tactics"] == 3
        assert first["calls"] == 8
        assert first["launches"] == 4 * 3 + 4 * 2
        assert first["allocations"] == 8
        assert first["kernels"] == 6
        inputs = 6 if contract.precision == "w4a16" else 7
        assert first["pointers"] == 8 * (inputs + 1 + 4) + 4 * 2
        assert first["outside"] == 0
    assert (contracts[0].name, 1793) in cases
    assert (contracts[2].name, 7169) in cases


@pytest.mark.parametrize(
    ("how", "what", "found"),
    [
        ("unknown", "the code under test raised an exception", "Bmm_unknown_sm103a.cubin"),
        ("raise", "the code under test raised an exception", "no such thing"),
        ("attribute", "the code under test raised an exception", "no attribute 97"),
        ("tactics", "the runner's tactics are not those", "3 tactics"),
        ("kernel", "the launched kernels are not those of the tactic", "_t128x16x256_"),
        ("swapped", "a product was given the wrong weights", "w2"),
        ("unused", "an input is given to no kernel", "linear_beta"),
        ("finalize", "the output is given to a kernel exactly when", "none"),
        ("behind", "a pointer lies outside its allocation", "which has 16,384 bytes"),
        ("before", "a pointer lies outside its allocation", "byte 4,294,967,280 of"),
        ("nobody's", "a pointer lies outside its allocation", "belongs to no allocation"),
        ("freed", "a pointer lies outside its allocation", "which was freed"),
        ("crash", "the child process ended without a result", "SIGSEGV"),
    ],
)
def test_a_runner_that_misbehaves_fails_by_name(
    wheel: Path,
    recipe: LoadedRecipe,
    monkeypatch: pytest.MonkeyPatch,
    how: str,
    what: str,
    found: str,
) -> None:
    report, problem = misbehave(wheel, recipe, monkeypatch, how)
    assert report.exit_code == 1
    assert [entry.status for entry in report.evidence.tiers] == ["fail"]
    assert problem.what.startswith(what)
    assert found in problem.found
    if how not in ("tactics", "attribute"):
        assert recipe.recipe.contracts[0].name in problem.where


def test_alike_problems_are_told_once(
    wheel: Path, recipe: LoadedRecipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    report, problem = misbehave(wheel, recipe, monkeypatch, "raise")
    assert len(report.problems) == 1
    calls = sum(int(case.figures.get("calls", 0)) for case in report.evidence.cases)
    assert problem.where.endswith(f"finalize on, and {calls - 1} more")


def test_a_hang_is_ended_and_fails(
    wheel: Path, recipe: LoadedRecipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tier, "LIMIT_S", 4.0)
    report, problem = misbehave(wheel, recipe, monkeypatch, "hang")
    assert report.exit_code == 1
    assert "no answer within 4 s" in problem.found
    assert "default tactic, finalize on" in problem.where
    first = [case for case in report.evidence.cases if case.contract]
    assert [case.figures["calls"] for case in first] == [0]


def test_a_cuda_function_that_is_not_imitated_is_no_fault_of_the_runner(
    wheel: Path, recipe: LoadedRecipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    report, problem = misbehave(wheel, recipe, monkeypatch, "malloc")
    assert report.exit_code == 4
    assert problem.found == "cudaMalloc"


def test_a_device_that_is_no_target_is_asked_for_tactics_only(
    wheel: Path, recipe: LoadedRecipe
) -> None:
    report = rehearse(wheel, recipe, Options(claim_sm=90))
    assert report.exit_code == 0
    assert {case.subject for case in report.evidence.cases} == {"claimed device", "tactics"}
    reasons = [entry.reason for entry in report.evidence.not_run if entry.tier == "rehearsal"]
    assert "whole calls: the bundle is not made for sm_90" in reasons


def test_a_runner_without_device_code_for_the_target_fails(
    tmp_path: Path, recipe: LoadedRecipe
) -> None:
    report = rehearse(rehearsal_wheel(tmp_path, compile_runner(tmp_path, sm=90)), recipe)
    assert report.exit_code == 1
    assert "no finalize kernel" in report.problems[0].found


def test_an_undefined_symbol_is_named(tmp_path: Path, recipe: LoadedRecipe) -> None:
    runner = compile_runner(tmp_path).replace(b"TVMFFIEnvTensorAlloc\0", b"TVMFFIEnvTensorAlias\0")
    report = rehearse(rehearsal_wheel(tmp_path, runner), recipe)
    assert report.exit_code == 1
    assert "TVMFFIEnvTensorAlias" in report.problems[0].found


def test_a_cuda_function_without_a_stub_is_refused(tmp_path: Path, recipe: LoadedRecipe) -> None:
    runner = compile_runner(tmp_path).replace(b"cuLaunchKernelEx\0", b"cuLaunchGraphEx7\0")
    report = rehearse(rehearsal_wheel(tmp_path, runner), recipe)
    assert report.exit_code == 4
    assert [problem.found for problem in report.problems] == ["cuLaunchGraphEx7"]


def test_without_a_compiler_it_is_refused(
    wheel: Path, recipe: LoadedRecipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stubs, "COMPILER", "no-such-compiler")
    report = rehearse(wheel, recipe)
    assert report.exit_code == 4
    assert "no-such-compiler" in report.problems[0].expected
    assert [entry.status for entry in report.evidence.tiers] == ["refused"]


def test_a_compiler_that_fails_is_quoted(
    tmp_path: Path, wheel: Path, recipe: LoadedRecipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = tmp_path / "broken"
    compiler.write_text("#!/bin/sh\necho no headers >&2\nexit 3\n")
    compiler.chmod(0o755)
    monkeypatch.setattr(stubs, "COMPILER", str(compiler))
    report = rehearse(wheel, recipe)
    assert report.exit_code == 4
    assert report.problems[0].found == "exit code 3"
    assert report.log_tail == "no headers"


def test_an_old_glibc_is_refused_with_both_versions(
    tmp_path: Path, recipe: LoadedRecipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tier, "host_glibc", lambda: "2.17")
    path = make_wheel(tmp_path, files=bundle_files(TILES, versions={"libc.so.6": ("GLIBC_2.38",)}))
    report = rehearse(path, recipe)
    assert report.exit_code == 4
    (problem,) = report.problems
    assert "2.38" in problem.expected
    assert "2.17" in problem.found
    assert "--sysroot" in problem.remedy


def test_a_sysroot_without_libraries_names_them_all(
    tmp_path: Path, wheel: Path, recipe: LoadedRecipe
) -> None:
    with pytest.raises(InputError) as caught:
        rehearse(wheel, recipe, Options(sysroot=tmp_path))
    text = str(caught.value)
    assert "ld-linux-x86-64.so.2" in text
    assert "libc.so.6" in text
