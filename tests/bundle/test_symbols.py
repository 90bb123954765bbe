"""Who defines what a runner leaves undefined: one answer for staging and for verify (A16)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from situ_release.bundle.recipe import RunnerPolicy, load_recipe
from situ_release.bundle.symbols import symbol_problems
from situ_release.errors import InputError, Problem
from situ_release.sources.runner import read_runner
from tests.cli.run import situ
from tests.synth.elf import DEFAULT_NEEDED, Undefined, make_runner
from tests.synth.inputs import FFI_SYMBOLS, MiniInputs


@pytest.fixture(scope="module")
def policy() -> RunnerPolicy:
    return load_recipe().recipe.runner


def problems(policy: RunnerPolicy, **knobs: object) -> list[Problem]:
    knobs.setdefault("ffi_symbols", tuple(policy.ffi_symbols))
    runner = read_runner(make_runner(**knobs), "runner.so")  # type: ignore[arg-type]
    return list(symbol_problems(runner, policy, "runner.so"))


def test_a_sound_runner_has_no_problem(policy: RunnerPolicy) -> None:
    assert problems(policy) == []


def test_every_missing_export_is_named(policy: RunnerPolicy) -> None:
    found = problems(policy, ffi_symbols=(), c_symbols=())
    names = [f"__tvm_ffi_{name}" for name in policy.ffi_symbols] + policy.c_symbols
    assert [problem.what for problem in found] == [
        f"the runner does not export {name}" for name in names
    ]
    assert {problem.where for problem in found} == {"runner.so"}


@pytest.mark.parametrize(
    ("undefined", "missing"),
    [
        (Undefined("TVMFFIErrorSetRaised"), False),
        (Undefined("TVMFFINoSuchSymbol"), True),
        (Undefined("cuLaunchKernelEx"), False),
        (Undefined("cudaMalloc"), False),
        (Undefined("__cudaRegisterFatBinary"), False),
        (Undefined("cublasCreate_v2"), True),
        (Undefined("nobody_knows"), True),
        (Undefined("nobody_knows", weak=True), False),
    ],
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_providers_are_the_libraries_and_packages_of_the_recipe(
    policy: RunnerPolicy, undefined: Undefined, missing: bool
) -> None:
    assert bool(problems(policy, undefined=(undefined,))) is missing


@pytest.mark.parametrize(
    ("name", "library"), [("cuLaunchKernelEx", "libcuda.so.1"), ("cudaMalloc", "libcudart.so.13")]
)
def test_a_library_that_the_runner_does_not_need_brings_nothing(
    policy: RunnerPolicy, name: str, library: str
) -> None:
    needed = tuple(other for other in DEFAULT_NEEDED if other != library)
    (problem,) = problems(policy, needed=needed, undefined=(Undefined(name),))
    assert name in problem.what
    assert f"{library}, which the runner does not need" in problem.found


def test_a_package_that_is_not_installed_brings_nothing(policy: RunnerPolicy) -> None:
    other = policy.model_copy(update={"provided_symbols": {"TVMFFI*": "no-such-package"}})
    (problem,) = problems(other, undefined=(Undefined("TVMFFIErrorSetRaised"),))
    assert "no-such-package (not installed" in problem.found


@pytest.mark.parametrize(
    ("kind", "consequence"),
    [("function", "dies at the first call"), ("object", "cannot be opened")],
)
def test_the_problem_says_when_it_will_hurt(
    policy: RunnerPolicy, kind: str, consequence: str
) -> None:
    (problem,) = problems(policy, undefined=(Undefined("TVMFFINoSuchSymbol", kind=kind),))
    assert consequence in problem.what


@pytest.mark.gcc
@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ("int TVMFFINoSuchSymbol(void); int f(void) { return TVMFFINoSuchSymbol(); }", "function"),
        ("extern int TVMFFINoSuchSymbol; int *f(void) { return &TVMFFINoSuchSymbol; }", "object"),
    ],
)
def test_as_a_compiler_leaves_it(
    tmp_path: Path, policy: RunnerPolicy, source: str, kind: str
) -> None:
    (tmp_path / "f.c").write_text(source)
    command = ["cc", "-shared", "-fPIC", "-o", str(tmp_path / "f.so"), str(tmp_path / "f.c")]
    subprocess.run(command, check=True)
    runner = read_runner((tmp_path / "f.so").read_bytes(), "f.so")
    loose = [p.what for p in symbol_problems(runner, policy, "f.so") if "nobody" in p.what]
    assert len(loose) == 1
    assert loose[0].startswith(f"nobody defines the {kind} TVMFFINoSuchSymbol")


def test_staging_refuses_a_runner_with_a_loose_symbol(inputs: MiniInputs) -> None:
    inputs.compile(ffi_symbols=FFI_SYMBOLS, undefined=("TVMFFINoSuchSymbol",))
    result = situ(*inputs.command())
    assert result.code == InputError.exit_code
    assert "nobody defines the function TVMFFINoSuchSymbol" in result.stderr
    assert not inputs.out.exists()
