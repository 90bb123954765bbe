"""``--json``: one object on stdout, valid by the shipped schema, failures included."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from situ_release import canonical, resources
from situ_release.cli.schemas import all_schemas
from tests.cli.run import situ
from tests.regenerate import CHECKS, checks_page
from tests.synth.inputs import FFI_SYMBOLS, MiniInputs, make_inputs
from tests.synth.wheel import make_wheel


@pytest.fixture
def inputs(tmp_path: Path) -> MiniInputs:
    return make_inputs(tmp_path / "in")


def test_shipped_schemas_are_the_generated_ones() -> None:
    folder = resources.DATA / "schemas"
    generated = all_schemas()
    assert {path.name for path in folder.iterdir()} == {f"{n}.schema.json" for n in generated}
    for name, schema in generated.items():
        Draft202012Validator.check_schema(schema)
        shipped = (folder / f"{name}.schema.json").read_text(encoding="utf-8")
        assert shipped == canonical.dumps(schema), f"{name}: run `make schemas`"


def test_checks_page_is_the_generated_one() -> None:
    assert CHECKS.read_text(encoding="utf-8") == checks_page(), "run `make schemas`"


def test_flow(inputs: MiniInputs, tmp_path: Path) -> None:
    staged = situ(*inputs.command(), "--json").json
    assert staged["cubin_count"] == 8
    assert [family["selected"] for family in staged["families"]] == [2, 2, 2, 2]
    assert staged["lock"]["matches"] is None
    built = situ("build", "--payload", inputs.out, "--outdir", tmp_path / "raw", "--json").json
    assert built["wheel"]["tag"] == "py3-none-linux_x86_64"
    recipe = f"--recipe={inputs.recipe_path}"
    raw = built["wheel"]["path"]
    repaired = situ("--json", "repair", raw, "--wheel-dir", tmp_path / "dist", recipe).json
    wheel = repaired["wheel"]["path"]
    assert repaired["wheel"]["tag"] == "py3-none-manylinux_2_39_x86_64"
    verified = situ("verify", "--json", wheel, recipe).json
    assert verified["summary"]["fail"] == verified["summary"]["skip"] == 0
    assert verified["wheel"]["sha256"] == repaired["wheel"]["sha256"]
    recovered = situ("recover", wheel, "--out", tmp_path / "r", "--json").json
    assert recovered["cubin_count"] == recovered["metadata_entries"] == 8
    covered = situ("coverage", wheel, recipe, "--json", "--list", "--tokens=4").json
    assert set(covered["devices"]) == {"sm90", "sm100", "sm103", "sm120"}
    assert covered["tactics"][0]["tokens"] == 4


def test_explain(inputs: MiniInputs) -> None:
    name = inputs.pool.kernels[0]
    words = [f"--pool-root={inputs.pool.root}", "--json", "--explain", f"B{name[1:]}.cubin"]
    document = situ("stage-assets", *words).json
    assert document["kernel"] == name
    assert document["in_table"] is True
    assert [v["family"] for v in document["families"] if v["taken"]] == ["w4a16-fc1"]
    refusals = {v["family"]: v["refusals"] for v in document["families"] if not v["taken"]}
    assert refusals["w4a16-fc2"] == ["activation: the family has none, the kernel siTuGlu"]


def test_dry_run(inputs: MiniInputs) -> None:
    document = situ(*inputs.command(), "--dry-run", "--json").json
    assert document["dry_run"] is True
    assert not inputs.out.exists()


def test_faults_are_exit_1(tmp_path: Path) -> None:
    (tmp_path / "broken.whl").write_bytes(b"PK\x03\x04 and no more")
    document = situ("verify", tmp_path / "broken.whl", "--json").json
    assert document["exit_code"] == 1
    failed = [check["id"] for check in document["checks"] if check["status"] == "fail"]
    assert "wheel.archive" in failed


def test_every_problem_is_listed(inputs: MiniInputs) -> None:
    inputs.compile(
        ffi_symbols=FFI_SYMBOLS, table=[(name, "0" * 64) for name in inputs.pool.kernels]
    )
    result = situ(*inputs.command(), "--json")
    assert len(result.json["errors"]) == len(inputs.pool.kernels)
    assert result.json["error"] == result.json["errors"][0]


@pytest.mark.parametrize(
    "words",
    [
        ["verify", "absent.whl"],
        ["recover", "absent.whl", "--out", "r"],
        ["stage-assets"],
        ["build", "--payload", "absent"],
        ["repair", "absent.whl"],
        ["coverage", "absent.whl"],
        ["gpu-smoke", "absent.whl"],
        ["approve", "absent.whl"],
        ["inspect", "absent"],
        ["diff", "absent", "absent"],
        ["no-such-command"],
        ["verify", "--no-such-option"],
        [],
    ],
)
def test_failures(words: list[str], tmp_path: Path) -> None:
    result = situ("--json", *words, cwd=tmp_path)
    if words:
        assert result.code in (2, 3)
        assert result.json["error"]["what"]
        assert result.stderr.startswith("error: ")
    assert not list(tmp_path.iterdir())


def test_without_gpu_smoke_says_what_is_missing(tmp_path: Path) -> None:
    if Path("/dev/nvidiactl").exists():
        pytest.skip("this host has an NVIDIA GPU")
    result = situ("gpu-smoke", make_wheel(tmp_path), "--tier", "load", "--json")
    assert result.code == 4
    document = result.json
    assert [tier["status"] for tier in document["tiers"]] == ["refused"]
    assert document["errors"]


def test_human_text_goes_to_stderr_with_json(inputs: MiniInputs) -> None:
    result = situ(*inputs.command(), "--json")
    json.loads(result.stdout)
    assert "w4a16-fc1" in result.stderr


def test_version_and_help() -> None:
    assert situ("--version").stdout.startswith("situ-release ")
    text = situ("--help").stdout
    for command in ("recover", "stage-assets", "build", "repair", "verify", "gpu-smoke"):
        assert command in text
