"""The golden table of provoked errors: one line each, what, where, expected, found, what to do.

``errors.golden`` holds, per case, the exit code and the line with the test's folder as ``{tmp}``
and digests as ``{hash}``. To renew it after a deliberate change: ``SITU_RENEW_GOLDEN=1 pytest
tests/cli/test_errors.py -n 0``.
"""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.run import Result, situ
from tests.synth.elf import make_cubin
from tests.synth.inputs import MiniInputs, make_inputs
from tests.synth.wheel import bundle_files, exchange, make_payload, make_wheel, write_mini_recipe

GOLDEN = Path(__file__).with_name("errors.golden")
HASH = re.compile(r"(?<![0-9a-z])(?:[0-9a-f]{64}|[0-9a-f]{16}|[0-9a-f]{8})(?![0-9a-z])")
Case = Callable[[Path], Result]
CASES: dict[str, Case] = {}


def case(function: Case) -> Case:
    CASES[function.__name__] = function
    return function


def _inputs(tmp: Path) -> MiniInputs:
    return make_inputs(tmp / "in")


def _wheel(tmp: Path, **knobs: object) -> Path:
    return make_wheel(tmp, **knobs)  # type: ignore[arg-type]


def _recipe(tmp: Path) -> str:
    return f"--recipe={write_mini_recipe(tmp)}"


# --- the command line itself ------------------------------------------------------------------


@case
def no_such_command(tmp: Path) -> Result:
    return situ("publish")


@case
def no_such_option(tmp: Path) -> Result:
    return situ("verify", "x.whl", "--fast")


# --- recover ----------------------------------------------------------------------------------


@case
def recover_missing_wheel(tmp: Path) -> Result:
    return situ("recover", tmp / "absent.whl", "--out", tmp / "r")


@case
def recover_not_a_zip(tmp: Path) -> Result:
    (tmp / "page.whl").write_text("<html>not found</html>")
    return situ("recover", tmp / "page.whl", "--out", tmp / "r")


@case
def recover_changed_cubin(tmp: Path) -> Result:
    def flip(files: dict[str, bytes]) -> None:
        name = next(name for name in files if name.endswith(".cubin"))
        files[name] = files[name][:-1] + b"?"

    return situ("recover", _wheel(tmp, tamper=flip), "--out", tmp / "r")


@case
def recover_into_foreign_folder(tmp: Path) -> Result:
    (tmp / "r").mkdir()
    (tmp / "r" / "mine.txt").write_text("mine")
    return situ("recover", _wheel(tmp), "--out", tmp / "r")


# --- stage-assets -----------------------------------------------------------------------------


@case
def stage_without_sources(tmp: Path) -> Result:
    return situ("stage-assets", "--pool-root", tmp)


@case
def stage_unknown_recipe(tmp: Path) -> Result:
    return situ("stage-assets", "--recipe", "kimi-k4")


@case
def stage_unknown_recipe_key(tmp: Path) -> Result:
    inputs = _inputs(tmp)
    inputs.edit_recipe(lambda text: text.replace("[target]", '[target]\ncolour = "red"'))
    return situ(*inputs.command())


@case
def stage_bad_version(tmp: Path) -> Result:
    return situ(*_inputs(tmp).command(), "--package-version=one.two")


@case
def stage_missing_checksums(tmp: Path) -> Result:
    inputs = _inputs(tmp)
    inputs.pool.checksums.unlink()
    return situ(*inputs.command())


@case
def stage_changed_cubin(tmp: Path) -> Result:
    inputs = _inputs(tmp)
    path = inputs.pool.cubin(inputs.pool.kernels[0])
    path.write_bytes(path.read_bytes() + b"\0")
    return situ(*inputs.command())


@case
def stage_lfs_pointer(tmp: Path) -> Result:
    inputs = _inputs(tmp)
    inputs.module.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")
    return situ(*inputs.command())


@case
def stage_wrong_module(tmp: Path) -> Result:
    inputs = _inputs(tmp)
    inputs.module = inputs.module.rename(inputs.folder / "fused_moe_0badc0de.so")
    return situ(*inputs.command())


@case
def stage_unknown_token(tmp: Path) -> Result:
    return situ("stage-assets", "--explain", "bmm_Bfloat16_MxE2m1Bfloat16_castBfloat17_Fp32_t1")


@case
def stage_unlocked(tmp: Path) -> Result:
    return situ(*_inputs(tmp).command(), "--locked")


# --- build ------------------------------------------------------------------------------------


@case
def build_missing_payload(tmp: Path) -> Result:
    return situ("build", "--payload", tmp / "absent", "--outdir", tmp / "raw")


@case
def build_missing_cubin(tmp: Path) -> Result:
    payload = make_payload(tmp / "p")
    next(payload.rglob("*.cubin")).unlink()
    return situ("build", "--payload", payload, "--outdir", tmp / "raw")


@case
def build_stray_cubin(tmp: Path) -> Result:
    payload = make_payload(tmp / "p")
    folder = next(payload.rglob("*.cubin")).parent
    (folder / "Bmm_stray_sm100f.cubin").write_bytes(make_cubin("bmm_stray_sm100f", sm=100))
    return situ("build", "--payload", payload, "--outdir", tmp / "raw")


# --- repair -----------------------------------------------------------------------------------


@case
def repair_missing_wheel(tmp: Path) -> Result:
    return situ("repair", tmp / "absent.whl", "--wheel-dir", tmp / "dist")


@case
def repair_symbols_too_new(tmp: Path) -> Result:
    files = bundle_files(versions={"libc.so.6": ("GLIBC_2.2.5", "GLIBC_2.38")})
    wheel = _wheel(tmp, tag="py3-none-linux_x86_64", files=files)
    plat = "--plat=manylinux_2_28_x86_64"
    return situ("repair", wheel, "--wheel-dir", tmp / "dist", plat, _recipe(tmp))


@case
def repair_runner_is_text(tmp: Path) -> Result:
    edit = exchange("tokenspeed_situ/lib/fused_moe_k3_situ_sm103.so", b"not a library\n")
    wheel = _wheel(tmp, tag="py3-none-linux_x86_64", edit=edit)
    return situ("repair", wheel, "--wheel-dir", tmp / "dist", _recipe(tmp))


# --- verify -----------------------------------------------------------------------------------


@case
def verify_missing_wheel(tmp: Path) -> Result:
    return situ("verify", tmp / "absent.whl")


@case
def verify_unknown_check(tmp: Path) -> Result:
    return situ("verify", _wheel(tmp), "--select", "wheel.colour")


@case
def verify_files_that_nothing_looks_at(tmp: Path) -> Result:
    return situ("verify", _wheel(tmp), "--approvals", tmp / "approvals.toml")


@case
def verify_a_part_for_publication(tmp: Path) -> Result:
    return situ("verify", _wheel(tmp), "--for-publication", "--ignore", "runner.leaks")


@case
def verify_the_gate_alone(tmp: Path) -> Result:
    return situ("verify", _wheel(tmp), "--select", "publication.index")


@case
def verify_missing_approvals(tmp: Path) -> Result:
    approvals = f"--approvals={tmp / 'approvals.toml'}"
    return situ("verify", _wheel(tmp), "--for-publication", approvals)


@case
def verify_evidence_is_none(tmp: Path) -> Result:
    (tmp / "evidence.json").write_text("{}")
    evidence = f"--evidence={tmp / 'evidence.json'}"
    return situ("verify", _wheel(tmp), "--for-publication", evidence)


# --- approve ----------------------------------------------------------------------------------


def _approve(tmp: Path, wheel: Path, **changes: str) -> Result:
    options = {
        "kind": "license",
        "decision": "approved",
        "text": "Nothing stands against it.",
        "reference": "CASE-7",
        "key": str(tmp / "id_none"),
        "identity": "reviewer@example.org",
        "approvals": str(tmp / "approvals.toml"),
    }
    words = [f"--{name}={value}" for name, value in {**options, **changes}.items()]
    return situ("approve", wheel, *words)


@case
def approve_missing_wheel(tmp: Path) -> Result:
    return _approve(tmp, tmp / "absent.whl")


@case
def approve_missing_key(tmp: Path) -> Result:
    return _approve(tmp, _wheel(tmp))


@case
def approve_unknown_kind(tmp: Path) -> Result:
    return _approve(tmp, _wheel(tmp), kind="colour")


@case
def approve_expires_too_early(tmp: Path) -> Result:
    return _approve(tmp, _wheel(tmp), date="2026-08-01", expires="2026-07-31")


# --- coverage ---------------------------------------------------------------------------------


@case
def coverage_no_manifest(tmp: Path) -> Result:
    with zipfile.ZipFile(tmp / "other-1-py3-none-any.whl", "w") as archive:
        archive.writestr("other/__init__.py", "")
    return situ("coverage", tmp / "other-1-py3-none-any.whl")


@case
def coverage_unknown_recipe(tmp: Path) -> Result:
    return situ("coverage", _wheel(tmp), "--recipe", "absent.toml", cwd=tmp)


# --- gpu-smoke --------------------------------------------------------------------------------


@case
def smoke_unknown_tier(tmp: Path) -> Result:
    return situ("gpu-smoke", _wheel(tmp), "--tier", "warp", _recipe(tmp))


@case
def smoke_missing_wheel(tmp: Path) -> Result:
    return situ("gpu-smoke", tmp / "absent.whl")


# --- inspect ----------------------------------------------------------------------------------


@case
def inspect_missing(tmp: Path) -> Result:
    return situ("inspect", tmp / "absent")


@case
def inspect_unknown(tmp: Path) -> Result:
    (tmp / "notes.txt").write_text("shopping list")
    return situ("inspect", tmp / "notes.txt")


# --- diff -------------------------------------------------------------------------------------


@case
def diff_missing(tmp: Path) -> Result:
    return situ("diff", _wheel(tmp), tmp / "absent.whl")


@case
def diff_unlike(tmp: Path) -> Result:
    (tmp / "k.cubin").write_bytes(make_cubin("bmm_k_sm103a"))
    return situ("diff", _wheel(tmp), tmp / "k.cubin")


def _golden() -> dict[str, tuple[int, str]]:
    rows = {}
    for line in GOLDEN.read_text().splitlines():
        name, code, text = line.split("\t", 2)
        rows[name] = (int(code), text)
    return rows


def _error_line(result: Result, tmp: Path) -> str:
    lines = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert lines, result
    line = lines[0].removeprefix("error: ").replace(str(tmp), "{tmp}")
    return HASH.sub("{hash}", line)


@pytest.mark.parametrize("name", CASES)
def test_error_line(name: str, tmp_path: Path) -> None:
    result = CASES[name](tmp_path)
    code, line = _golden().get(name, (0, "not in the golden file"))
    assert (result.code, _error_line(result, tmp_path)) == (code, line)
    written = {path.name for path in tmp_path.iterdir()} & {"r", "raw", "dist"}
    foreign = {"r"} if name == "recover_into_foreign_folder" else set()
    assert written == foreign, "a failed command left an output folder"
    assert not list(tmp_path.rglob("*.tmp")), "a failed command left its scratch folder"


def test_the_table_is_large_enough() -> None:
    assert len(CASES) >= 25
    assert set(_golden()) == set(CASES)
    commands = (
        "recover",
        "stage",
        "build",
        "repair",
        "verify",
        "approve",
        "coverage",
        "smoke",
        "inspect",
        "diff",
    )
    for command in commands:
        assert sum(name.startswith(f"{command}_") for name in CASES) >= 2


@pytest.fixture(scope="session", autouse=True)
def _renew(tmp_path_factory: pytest.TempPathFactory) -> None:
    if os.environ.get("SITU_RENEW_GOLDEN"):
        rows = []
        for name, run in CASES.items():
            tmp = tmp_path_factory.mktemp(name)
            result = run(tmp)
            rows.append(f"{name}\t{result.code}\t{_error_line(result, tmp)}\n")
        GOLDEN.write_text("".join(rows))
