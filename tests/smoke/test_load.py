"""Tier ``load``: against compiled runners that behave and that do not, on a stub CUDA."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from situ_release.bundle.evidence import read_evidence
from situ_release.bundle.recipe import LoadedRecipe, load_recipe
from situ_release.errors import InputError, UsageError
from situ_release.smoke.suite import SmokeReport, run_smoke
from situ_release.smoke.supervise import tvm_ffi_version
from situ_release.smoke.tiers import load as load_tier
from situ_release.smoke.tiers.needs import host_glibc
from tests.smoke.native import TILES, compile_cuda, compile_runner, package_files
from tests.synth.wheel import RUNNER, bundle_files, make_wheel, write_mini_recipe


@pytest.fixture
def recipe(tmp_path: Path) -> LoadedRecipe:
    return load_recipe(str(write_mini_recipe(tmp_path, TILES)))


@pytest.fixture(scope="session")
def stub_cuda(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_cuda(tmp_path_factory.mktemp("cuda"))


@pytest.fixture
def on_stub_gpu(stub_cuda: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_cuda(stub_cuda, monkeypatch)


def use_cuda(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = os.environ.get("LD_LIBRARY_PATH", "")
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{folder}:{before}")


def smoke(tmp_path: Path, recipe: LoadedRecipe, *defines: str, **knobs: object) -> SmokeReport:
    runner = compile_runner(tmp_path / "runner.so", *defines, **knobs)  # type: ignore[arg-type]
    wheel = make_wheel(tmp_path, files=package_files(runner))
    return run_smoke(wheel, ["load"], recipe=recipe)


@pytest.mark.gcc
@pytest.mark.usefixtures("on_stub_gpu")
def test_a_good_runner_passes_with_its_tactic_counts(tmp_path: Path, recipe: LoadedRecipe) -> None:
    steps: list[str] = []
    wheel = make_wheel(tmp_path, files=package_files(compile_runner(tmp_path / "runner.so")))
    report = run_smoke(
        wheel, ["load"], recipe=recipe, on_update=lambda update: steps.append(update.step)
    )
    assert report.problems == ()
    assert report.exit_code == 0
    evidence = report.evidence
    assert [(tier.name, tier.status) for tier in evidence.tiers] == [("load", "pass")]
    assert evidence.host is not None
    assert (evidence.host.devices[0].name, evidence.host.devices[0].sm) == ("Stub GPU", 103)
    assert (evidence.host.driver_version, evidence.host.runtime_cuda) == ("580.1.2", "13.0")
    names = [contract.name for contract in recipe.recipe.contracts]
    tiles = {
        (case.contract, case.tokens): (case.figures["smallest_tile"], case.figures["largest_tile"])
        for case in evidence.cases
    }
    for contract in recipe.recipe.contracts:
        most = (32, 64) if contract.precision == "w4a16" else (64, 256)
        for tokens, expected in ((1, (8, 32)), (128, (8, 32)), (4096, most)):
            assert tiles.pop((contract.name, tokens)) == expected
    assert not tiles
    assert "opening the runner" in steps
    assert f"tactics of {names[-1]} at 4096 tokens" in steps


@pytest.mark.gcc
@pytest.mark.usefixtures("on_stub_gpu")
def test_evidence_reads_back_and_differs_in_times_only(
    tmp_path: Path, recipe: LoadedRecipe
) -> None:
    first, second = (smoke(tmp_path, recipe).evidence for _ in range(2))
    text = first.canonical()
    assert read_evidence(text.encode(), "evidence.json") == first
    assert first.model_copy(update={"times": second.times}) == second
    assert str(tmp_path) not in text
    assert first.wheel.binaries_sha256 != first.wheel.runner_sha256


@pytest.mark.gcc
@pytest.mark.usefixtures("on_stub_gpu")
@pytest.mark.parametrize(
    ("define", "found"),
    [
        ("UNDEFINED_FUNCTION", "undefined symbol TVMFFINoSuchSymbol in fused_moe_k3_situ_sm103.so"),
        ("UNDEFINED_DATA", "undefined symbol TVMFFINoSuchVariable"),
        ("SEGFAULT", "SIGSEGV"),
        ("LEAVE", "exit code 0"),
        ("RAISE", "RuntimeError: no such device"),
        ("EMPTY_AT=128", "none"),
    ],
)
def test_a_runner_that_misbehaves_fails_by_name(
    tmp_path: Path, recipe: LoadedRecipe, define: str, found: str
) -> None:
    report = smoke(tmp_path, recipe, define)
    assert report.exit_code == 1
    assert [tier.status for tier in report.evidence.tiers] == ["fail"]
    (problem,) = report.problems
    assert found in problem.found
    assert problem.what
    assert problem.where
    assert problem.expected
    assert problem.remedy
    if "undefined" in found:
        assert f"apache-tvm-ffi {tvm_ffi_version()} is installed" in problem.found


@pytest.mark.gcc
@pytest.mark.usefixtures("on_stub_gpu")
def test_a_crash_says_at_which_step_and_keeps_what_came_before(
    tmp_path: Path, recipe: LoadedRecipe
) -> None:
    report = smoke(tmp_path, recipe, "SEGFAULT")
    assert recipe.recipe.contracts[0].name in report.problems[0].where
    assert "1 tokens" in report.problems[0].where
    assert "get_valid_moe_configs_private" in report.log_tail  # the native backtrace
    partial = smoke(tmp_path, recipe, "EMPTY_AT=128")
    assert [case.tokens for case in partial.evidence.cases] == [1]


@pytest.mark.gcc
@pytest.mark.usefixtures("on_stub_gpu")
def test_a_hang_is_ended_and_fails(
    tmp_path: Path, recipe: LoadedRecipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load_tier, "LIMIT_S", 3.0)
    report = smoke(tmp_path, recipe, "HANG")
    assert report.exit_code == 1
    assert "no answer within 3 s" in report.problems[0].found
    assert report.evidence.times.seconds["load"] < 10


@pytest.mark.gcc
@pytest.mark.usefixtures("on_stub_gpu")
def test_tactics_that_the_kernel_table_does_not_give_fail(
    tmp_path: Path, recipe: LoadedRecipe
) -> None:
    report = smoke(tmp_path, recipe, "CONFIG=7")
    assert report.exit_code == 1
    assert {case.status for case in report.evidence.cases} == {"fail"}
    assert "first (8, 0)" in report.problems[0].expected
    assert "first (8, 7)" in report.problems[0].found


@pytest.mark.gcc
@pytest.mark.usefixtures("on_stub_gpu")
def test_a_missing_entry_point_fails(tmp_path: Path, recipe: LoadedRecipe) -> None:
    report = smoke(tmp_path, recipe, "ONE_ENTRY")
    assert report.exit_code == 1
    assert "trtllm_fp4_block_scale_moe_private" in report.problems[0].expected


@pytest.mark.gcc
@pytest.mark.usefixtures("on_stub_gpu")
def test_a_library_that_this_host_lacks_is_the_hosts_fault(
    tmp_path: Path, recipe: LoadedRecipe
) -> None:
    other = compile_cuda(tmp_path / "other")  # any library will do as the one that goes missing
    (other / "libcudart.so.13").rename(other / "libonlyhere.so.7")
    runner = compile_runner(
        tmp_path / "runner.so", options=("-Wl,--no-as-needed", str(other / "libonlyhere.so.7"))
    )
    # The stub carries libcudart's soname, so rename what the runner asks for.
    runner = runner.replace(b"libcudart.so.13\0", b"libnowhere.so.7\0")
    report = run_smoke(make_wheel(tmp_path, files=package_files(runner)), ["load"], recipe=recipe)
    assert report.exit_code == 4
    assert "libnowhere.so.7" in report.problems[0].expected


@pytest.mark.gcc
@pytest.mark.parametrize(
    ("knobs", "what"),
    [
        ({"init": 100}, "there is no NVIDIA device"),
        ({"devices": 0}, "there is no NVIDIA device"),
        ({"init": 803}, "the NVIDIA driver could not initialise"),
        ({"driver_cuda": 12080}, "the NVIDIA driver is too old"),
    ],
)
def test_what_the_host_lacks_is_refused(
    tmp_path: Path,
    recipe: LoadedRecipe,
    monkeypatch: pytest.MonkeyPatch,
    knobs: dict[str, int],
    what: str,
) -> None:
    use_cuda(compile_cuda(tmp_path / "cuda", **knobs), monkeypatch)  # type: ignore[arg-type]
    report = smoke(tmp_path, recipe)
    assert report.exit_code == 4
    assert what in [problem.what for problem in report.problems]
    assert all(problem.remedy and problem.found for problem in report.problems)
    assert report.evidence.host is None
    assert [tier.status for tier in report.evidence.tiers] == ["refused"]


@pytest.mark.gcc
@pytest.mark.usefixtures("on_stub_gpu")
def test_a_missing_cuda_runtime_is_refused(tmp_path: Path) -> None:
    text = (
        write_mini_recipe(tmp_path, TILES).read_text().replace("libcudart.so.13", "libcudart.so.99")
    )
    (tmp_path / "future.toml").write_text(text)
    report = smoke(tmp_path, load_recipe(str(tmp_path / "future.toml")))
    assert report.exit_code == 4
    assert [problem.where for problem in report.problems] == ["libcudart.so.99"]


@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="this host has an NVIDIA GPU")
def test_a_host_without_gpu_names_everything_it_lacks(tmp_path: Path, recipe: LoadedRecipe) -> None:
    wheel = make_wheel(tmp_path, files=bundle_files(versions={"libc.so.6": ("GLIBC_9.99",)}))
    report = run_smoke(wheel, ["load"], recipe=recipe)
    assert report.exit_code == 4
    text = "\n".join(map(str, report.problems))
    assert "the host's glibc is too old" in text
    assert "9.99" in text
    assert host_glibc() in text
    assert "libcuda.so.1" in text


@pytest.mark.gpu
def test_the_published_wheel_loads_on_any_gpu(published_wheel: Path) -> None:
    report = run_smoke(published_wheel, ["load"], recipe=load_recipe())
    assert report.exit_code == 0, report.problems
    counts = {
        (case.contract, case.tokens): case.figures["tactics"] for case in report.evidence.cases
    }
    assert report.evidence.host is not None
    if report.evidence.host.devices[0].sm == 90:
        assert counts["kimi-k3-moe-tp8-ep1-mxfp4-situ", 1] == 576
        assert counts["kimi-k3-moe-tp1-ep8-mxfp4-situ", 128] == 576
        assert counts["kimi-k3-moe-tp8-ep1-mxfp8-mxfp4-situ", 128] == 1684
        assert counts["kimi-k3-moe-tp1-ep8-mxfp8-mxfp4-situ", 4096] == 50


def test_a_changed_binary_is_not_run(tmp_path: Path, recipe: LoadedRecipe) -> None:
    wheel = make_wheel(tmp_path, edit=lambda files: files.update({RUNNER: b"other"}))
    with pytest.raises(InputError, match=r"fused_moe_k3_situ_sm103\.so.*differs from the manifest"):
        run_smoke(wheel, ["load"], recipe=recipe)


@pytest.mark.parametrize("tiers", [[], ["load", "dance"]])
def test_tiers_must_be_known(tmp_path: Path, recipe: LoadedRecipe, tiers: list[str]) -> None:
    with pytest.raises(UsageError, match="one of load"):
        run_smoke(make_wheel(tmp_path), tiers, recipe=recipe)
