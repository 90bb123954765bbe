"""Whole tiers in their child processes, on the CPU: the runner is Python, the driver a stub."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import zipfile
from pathlib import Path

import pytest

from situ_release.bundle.evidence import read_evidence
from situ_release.bundle.recipe import LoadedRecipe, load_recipe
from situ_release.smoke.suite import Options, SmokeReport, run_smoke
from situ_release.smoke.tiers import numerics as numerics_tier
from tests.smoke.native import compile_cuda
from tests.smoke.small import TILES, write_small_recipe
from tests.synth.wheel import PACKAGE, RUNNER, bundle_files, make_wheel

pytestmark = pytest.mark.gcc
needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="torch is not installed"
)

OLD_GLIBC = {"libc.so.6": ("GLIBC_2.2.5",)}


@pytest.fixture(scope="session")
def stub_cuda(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_cuda(tmp_path_factory.mktemp("cuda"))


@pytest.fixture
def on_stub_gpu(stub_cuda: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_cuda(stub_cuda, monkeypatch)


def use_cuda(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = os.environ.get("LD_LIBRARY_PATH", "")
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{folder}:{before}")


@pytest.fixture
def recipe(tmp_path: Path) -> LoadedRecipe:
    return load_recipe(str(write_small_recipe(tmp_path)))


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    files = bundle_files(TILES, versions=OLD_GLIBC)
    package = Path(__file__).with_name("layer_package.py").read_bytes()
    files[f"{PACKAGE}/__init__.py"] = package
    return make_wheel(tmp_path, files=files)


def smoke(
    wheel: Path,
    recipe: LoadedRecipe,
    *tiers: str,
    mode: str = "",
    monkeypatch: pytest.MonkeyPatch | None = None,
    **options: object,
) -> SmokeReport:
    if monkeypatch:
        monkeypatch.setenv("FAKE_LAYER", mode)
    chosen = Options(device="cpu", **options)  # type: ignore[arg-type]
    return run_smoke(wheel, tiers, recipe=recipe, options=chosen)


def one_contract(recipe: LoadedRecipe) -> LoadedRecipe:
    """The recipe with its expert-parallel contract alone."""
    fewer = recipe.recipe.model_copy(update={"contracts": recipe.recipe.contracts[1:]})
    return recipe.model_copy(update={"recipe": fewer})


def whats(report: SmokeReport) -> set[str]:
    return {problem.what for problem in report.problems}


# --- cubins -------------------------------------------------------------------------------------


@pytest.mark.usefixtures("on_stub_gpu")
def test_every_cubin_is_loaded(wheel: Path, recipe: LoadedRecipe) -> None:
    report = smoke(wheel, recipe, "cubins")
    assert report.problems == ()
    assert {case.subject: case.figures for case in report.evidence.cases} == {
        f"{role} {arch}": {
            "cubins": TILES,
            "loaded": TILES,
            "most_registers": 168,
            "most_local_bytes": 16,
        }
        for role in ("fc1_situ", "fc2")
        for arch in ("sm100f", "sm103a")
    }


@pytest.mark.usefixtures("on_stub_gpu")
def test_a_cubin_without_its_kernel_fails_by_name(
    wheel: Path, recipe: LoadedRecipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STUB_REFUSES", "function")
    report = smoke(wheel, recipe, "cubins")
    assert report.exit_code == 1
    assert len(report.problems) == TILES
    assert "siTuGlu" in report.problems[0].where
    assert "CUDA_ERROR_NOT_FOUND (500)" in report.problems[0].found
    failed = [case.subject for case in report.evidence.cases if case.status == "fail"]
    assert failed == ["fc1_situ sm103a"]


@pytest.mark.usefixtures("on_stub_gpu")
def test_a_crashing_driver_is_a_result(
    wheel: Path, recipe: LoadedRecipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STUB_REFUSES", "crash")
    report = smoke(wheel, recipe, "cubins")
    assert report.exit_code == 1
    assert "SIGBUS" in report.problems[0].found
    assert "fc1_situ sm103a" in report.problems[0].where
    assert [case.subject for case in report.evidence.cases] == ["fc1_situ sm100f"]


@pytest.mark.usefixtures("on_stub_gpu")
def test_cubins_for_other_devices_are_named_not_loaded(
    wheel: Path, recipe: LoadedRecipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_cuda(compile_cuda(tmp_path / "b200", sm=100), monkeypatch)
    path = write_small_recipe(tmp_path, ("sms = [103]", "sms = [100, 103]"))
    report = smoke(wheel, load_recipe(str(path)), "cubins")
    assert report.problems == ()
    assert {case.subject for case in report.evidence.cases} == {"fc1_situ sm100f", "fc2 sm100f"}
    reasons = [item.reason for item in report.evidence.not_run if item.tier == "cubins"]
    assert reasons == [f"{2 * TILES} cubins for sm103a, which sm_100 does not run"]


# --- what refuses a tier ------------------------------------------------------------------------


def test_a_device_that_the_bundle_is_not_made_for_is_refused(
    wheel: Path, recipe: LoadedRecipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_cuda(compile_cuda(tmp_path / "h200", sm=90), monkeypatch)
    report = smoke(wheel, recipe, "cubins", "numerics")
    assert report.exit_code == 4
    problem = report.problems[0]
    assert problem.what == "the bundle is not made for this device"
    assert problem.expected == "an NVIDIA device of sm_103"
    assert problem.found == "Stub GPU, sm_90"
    assert [(t.name, t.status) for t in report.evidence.tiers] == [
        ("cubins", "refused"),
        ("numerics", "refused"),
    ]
    assert report.evidence.cases == []


@pytest.mark.usefixtures("on_stub_gpu")
def test_without_torch_the_numeric_tiers_are_refused(
    wheel: Path, recipe: LoadedRecipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *a: None if name == "torch" else real(name, *a)
    )
    report = smoke(wheel, recipe, "cubins", "numerics", "memory", "determinism", "shards")
    assert report.exit_code == 4
    assert [tier.status for tier in report.evidence.tiers] == ["pass", *["refused"] * 4]
    (problem,) = report.problems
    assert "torch" in problem.what
    assert "situ-release[smoke]" in problem.remedy
    assert report.evidence.versions.torch is None


@needs_torch
@pytest.mark.usefixtures("on_stub_gpu")
def test_a_torch_that_sees_no_gpu_is_refused(wheel: Path, recipe: LoadedRecipe) -> None:
    report = run_smoke(wheel, ["memory"], recipe=recipe)
    assert report.exit_code == 4
    assert "torch does not see the GPU" in whats(report)


@pytest.mark.usefixtures("on_stub_gpu")
def test_an_activation_without_a_reference_is_refused(wheel: Path, tmp_path: Path) -> None:
    path = write_small_recipe(tmp_path, ('gated_act = "siTuGlu"', 'gated_act = "swiGlu"'))
    report = smoke(wheel, load_recipe(str(path)), "numerics")
    assert report.exit_code == 4
    assert report.problems[-1].found == "swiGlu"


# --- all numeric tiers of a good runner ---------------------------------------------------------


@needs_torch
@pytest.mark.slow
@pytest.mark.usefixtures("on_stub_gpu")
def test_a_good_bundle_passes_every_tier(wheel: Path, recipe: LoadedRecipe) -> None:
    tiers = ("cubins", "numerics", "memory", "determinism", "shards")
    report = smoke(wheel, recipe, *tiers)
    assert report.problems == ()
    assert report.exit_code == 0
    evidence = report.evidence
    assert [(tier.name, tier.status) for tier in evidence.tiers] == [(t, "pass") for t in tiers]
    again = smoke(wheel, recipe, "memory").evidence
    assert [case for case in evidence.cases if case.tier == "memory"] == again.cases
    assert read_evidence(evidence.canonical().encode(), "evidence") == evidence

    def subjects(tier: str, tokens: int | None) -> set[str]:
        return {c.subject for c in evidence.cases if c.tier == tier and c.tokens == tokens}

    assert subjects("numerics", 0) == {"default tactic"}
    assert {"tactic (8, 0)", "tactic (16, 0)", "tactic (32, 0)"} < subjects("numerics", 1)
    assert subjects("numerics", None) == {"selectable kernels fetched"}
    assert {"default tactic, finalize on", "default tactic, finalize off"} < subjects("memory", 65)
    assert "default tactic, second process" in subjects("determinism", 65)
    assert subjects("shards", 65) == {
        "sum of 2 tensor-parallel shards, one after another",
        "sum of 2 expert-parallel shards, one after another",
    }
    assert len(evidence.mutants) == 12
    assert all(mutant.caught for mutant in evidence.mutants)
    counts = {case.figures.get("allocations") for case in evidence.cases if case.tier == "memory"}
    assert counts == {2}
    assert [item.reason for item in evidence.not_run if item.tier == "shards"] == [
        "one process per GPU over NCCL: the host has 1 device of this kind"
    ]


@needs_torch
@pytest.mark.slow
@pytest.mark.usefixtures("on_stub_gpu")
def test_the_short_set_runs_several_seeds(wheel: Path, recipe: LoadedRecipe) -> None:
    report = smoke(wheel, recipe, "numerics", seeds=2, short=True)
    assert report.problems == ()
    cases = [case for case in report.evidence.cases if case.seed is not None]
    assert {case.tokens for case in cases} == {1, 128}
    assert {case.seed for case in cases} == {0, 1}
    assert report.evidence.scope.short
    assert report.evidence.scope.seeds == 2
    assert {mutant.seed for mutant in report.evidence.mutants} == {0}


@needs_torch
@pytest.mark.slow
def test_several_gpus_run_one_process_each(
    wheel: Path, recipe: LoadedRecipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_cuda(compile_cuda(tmp_path / "two", devices=2), monkeypatch)
    report = smoke(wheel, recipe, "shards")
    assert report.problems == ()
    assert {case.subject for case in report.evidence.cases} == {
        f"sum of 2 {kind}-parallel shards, {how}"
        for kind in ("tensor", "expert")
        for how in ("one after another", "in 2 processes, gloo")
    }
    assert not [item for item in report.evidence.not_run if item.tier == "shards"]


@needs_torch
@pytest.mark.slow
def test_a_fault_in_one_of_several_processes_fails(
    wheel: Path, recipe: LoadedRecipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_cuda(compile_cuda(tmp_path / "two", devices=2), monkeypatch)
    report = smoke(wheel, recipe, "shards", mode="shard", monkeypatch=monkeypatch)
    assert report.exit_code == 1
    failed = {case.subject for case in report.evidence.cases if case.status == "fail"}
    assert failed == {
        "sum of 2 expert-parallel shards, one after another",
        "sum of 2 expert-parallel shards, in 2 processes, gloo",
    }


@needs_torch
@pytest.mark.slow
@pytest.mark.usefixtures("on_stub_gpu")
@pytest.mark.parametrize(
    ("mode", "outcome"),
    [("", "not reproduced"), ("overrun deferred", "reproduced"), ("raise", "open")],
)
def test_the_memory_tier_settles_an_advisory_of_this_runner(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, outcome: str
) -> None:
    published = load_recipe().recipe.advisories[0].sha256
    with zipfile.ZipFile(wheel) as archive:
        own = hashlib.sha256(archive.read(RUNNER)).hexdigest()
    recipe = load_recipe(str(write_small_recipe(tmp_path, (published, own))))
    report = smoke(wheel, one_contract(recipe), "memory", mode=mode, monkeypatch=monkeypatch)
    (found,) = report.evidence.advisories
    assert (found.tier, found.outcome) == ("memory", outcome)


# --- runners that misbehave ---------------------------------------------------------------------


@needs_torch
@pytest.mark.slow
@pytest.mark.usefixtures("on_stub_gpu")
@pytest.mark.parametrize(
    ("tier", "mode", "what", "found"),
    [
        ("numerics", "nan", "elements of the output are unwritten", "1 elements"),
        ("numerics", "wrong", "the output differs from the reference", "relative_l2"),
        ("numerics", "other kernels", "the tactic does not launch its kernels", "none of them"),
        ("numerics", "other kernels", "kernels that can be selected were never", "t128x16x"),
        ("numerics", "raise", "the code under test raised", "an illegal memory access"),
        ("numerics", "crash", "the child process ended without a result", "SIGSEGV"),
        ("memory", "overrun", "the runner writes outside its", "512 bytes after allocation 1"),
        ("memory", "overrun", "the runner writes outside its", "the nearest 448 bytes away"),
        ("memory", "overrun deferred", "the runner writes outside its", "after allocation 1"),
        ("memory", "underrun", "the runner writes outside its", "1 bytes before allocation 2"),
        ("memory", "uninitialized", "the output depends on memory", "elements that differ"),
        ("memory", "no allocation", "the guards prove nothing", "no allocation"),
        ("memory", "crash", "the child process ended without a result", "SIGSEGV"),
        ("determinism", "varies", "the same inputs give different", "elements that differ in 3"),
        ("determinism", "process", "the same inputs give different outputs", "SHA-256"),
        ("shards", "shard", "the output differs from the reference", "cosine"),
    ],
)
def test_a_fault_fails_its_tier(
    wheel: Path,
    recipe: LoadedRecipe,
    monkeypatch: pytest.MonkeyPatch,
    tier: str,
    mode: str,
    what: str,
    found: str,
) -> None:
    report = smoke(wheel, one_contract(recipe), tier, mode=mode, monkeypatch=monkeypatch)
    assert report.exit_code == 1
    assert [item.status for item in report.evidence.tiers] == ["fail"]
    texts = [f"{problem.what}: {problem.found}" for problem in report.problems]
    assert any(what in text and found in text for text in texts), texts
    assert all(problem.where and problem.expected and problem.remedy for problem in report.problems)
    if mode == "overrun deferred":
        status = {c.subject: c.status for c in report.evidence.cases if c.tokens == 65}
        assert status["default tactic, finalize on"] == "pass"
        assert status["default tactic, finalize off"] == "fail"


@needs_torch
@pytest.mark.usefixtures("on_stub_gpu")
def test_a_hang_ends_with_its_process(
    wheel: Path, recipe: LoadedRecipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numerics_tier, "LIMIT_S", 8.0)
    one = one_contract(recipe)
    report = smoke(wheel, one, "numerics", mode="hang", monkeypatch=monkeypatch)
    assert report.exit_code == 1
    assert "no answer within 8 s" in report.problems[0].found
    assert "default tactic" in report.problems[0].where
