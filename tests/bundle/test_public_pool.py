"""The public bundle: its recipe on synthetic sources, and the whole way on the real public pool."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pytest

from situ_release import resources
from situ_release.bundle.recipe import load_recipe
from situ_release.bundle.staging import stage
from situ_release.errors import InputError
from situ_release.sources.pool import open_pool
from situ_release.wheel.build import build_wheel
from situ_release.wheel.cover import cover_wheel
from situ_release.wheel.repair import repair_wheel
from tests.bundle.test_staging import tree
from tests.cli.run import situ
from tests.public import EPOCH, POOL, POOL_FOLDER, RECIPE, write_stand_in
from tests.synth.inputs import MiniInputs, make_inputs
from tests.synth.pool import KERNELS

PACKAGE = "flashinfer_mxfp4_swiglu"
FAMILIES = {"w4a16-fc1": 30, "w4a16-fc2": 30, "w4a8-fc1": 200, "w4a8-fc2": 101}


# --- the recipe, on synthetic sources ---------------------------------------------------------


@pytest.fixture
def inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MiniInputs:
    """Sources like the public ones: SwiGLU, no config.json, a snapshot in wheel layout."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", EPOCH)
    kernels = [name.replace("siTuGlu", "swiGlu") for name in KERNELS]
    inputs = make_inputs(tmp_path / "in", layout="wheel", kernels=kernels, config=None)
    shipped = (resources.recipes() / f"{RECIPE}.toml").read_text(encoding="utf-8")
    inputs.recipe_path = tmp_path / f"{RECIPE}.toml"
    inputs.recipe_path.write_text(re.sub(r"(?m)^count = \d+$", "count = 2", shipped))
    inputs.compile(ffi_symbols=load_recipe(RECIPE).recipe.runner.ffi_symbols)
    return inputs


def test_a_mini_bundle_goes_the_whole_way(inputs: MiniInputs, tmp_path: Path) -> None:
    staged = inputs.stage()
    assert staged.manifest.source_provenance == {
        "bundled_sm100f_w4a8_cubin_count": 4,
        "bundled_sm103a_cubin_count": 4,
        "flashinfer_version": "0.6.13rc1",
        "source_pool_cubin_count": 8,
        "pool_name": "pool",
        "pool_config_sha256": None,
        "pool_metadata_sha256": open_pool(inputs.pool.root).header.sha256,
    }
    raw = build_wheel(staged.payload, tmp_path / "raw")
    repaired = repair_wheel(raw.path, tmp_path / "dist", inputs.recipe.recipe)
    assert repaired.path.name == f"{PACKAGE}-0.6.13-py3-none-manylinux_2_34_x86_64.whl"
    verified = situ("verify", repaired.path, "--recipe", inputs.recipe_path, "--json").json
    assert verified["summary"]["fail"] == verified["summary"]["skip"] == 0
    covered = cover_wheel(repaired.path, str(inputs.recipe_path), [103])
    assert covered.model.rules.experts == "local"
    assert [device.missing for device in covered.devices] == [()]


def test_the_module_may_have_any_name(inputs: MiniInputs) -> None:
    inputs.module = inputs.module.rename(inputs.folder / "fused_moe_trtllm_sm100.so")
    assert inputs.stage().manifest.runner.source_module_name == "fused_moe_trtllm_sm100"


def test_the_private_runner_is_not_this_one(inputs: MiniInputs) -> None:
    inputs.compile()  # with the entry points of the private runner
    with pytest.raises(InputError, match=r"does not export .*trtllm_fp4_block_scale_moe\b"):
        inputs.stage()


# --- the real public pool ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def module(cubin_wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stand-in for the runner, with the whole table of the public header."""
    entries = open_pool(cubin_wheel / POOL_FOLDER).header.entries
    assert len(entries) == 2108
    return write_stand_in(tmp_path_factory.mktemp("module") / "fused_moe_public.so", entries)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Hundreds of megabytes are unpacked here, so it does not outlive the tests."""
    path = tmp_path_factory.mktemp("public")
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="module")
def staged(cubin_wheel: Path, snapshot_wheel: Path, module: Path, folder: Path) -> dict[str, Any]:
    """What stage-assets says of the pool inside its wheel."""
    return situ(
        "stage-assets",
        f"--recipe={RECIPE}",
        f"--snapshot-root={snapshot_wheel}",
        f"--pool-root={cubin_wheel / POOL_FOLDER}",
        f"--module={module}",
        f"--out={folder / 'payload'}",
        "--json",
        SOURCE_DATE_EPOCH=EPOCH,
    ).json


@pytest.fixture(scope="module")
def wheel(staged: dict[str, Any], folder: Path) -> Path:
    """The wheel, built and repaired."""
    built = situ("build", "--payload", staged["payload"], "--outdir", folder / "raw", "--json")
    raw = built.json["wheel"]["path"]
    return Path(situ("repair", raw, "--wheel-dir", folder / "dist", "--json").json["wheel"]["path"])


@pytest.mark.slow
def test_staged_out_of_the_wheel(staged: dict[str, Any]) -> None:
    assert staged["ok"]
    assert {each["name"]: each["selected"] for each in staged["families"]} == FAMILIES
    assert staged["cubin_count"] == 361
    manifest = json.loads(Path(staged["manifest"]["path"]).read_text())
    assert manifest["pool"]["name"] == POOL
    assert manifest["pool"]["cubin_count"] == 2108
    assert manifest["pool"]["export_version"] == "7.0.4.0.4.0"
    assert manifest["snapshot"]["version"] == "0.6.13"
    assert manifest["snapshot"]["commit"] == "57ba7eeb7ea3003a2d6ad5d9a057c4f952709bac"
    assert manifest["source_provenance"]["pool_config_sha256"] is None
    assert not [key for key in manifest["source_provenance"] if key.startswith("private_")]
    assert all(entry["shared_memory_bytes"] > 0 for entry in manifest["cubins"])


@pytest.mark.slow
def test_only_the_needed_members_are_read(
    cubin_wheel: Path,
    snapshot_wheel: Path,
    module: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened = []
    original = zipfile.ZipFile.open

    def recorded(
        self: zipfile.ZipFile, name: zipfile.ZipInfo, *args: Any, **options: Any
    ) -> IO[bytes]:
        opened.append(name.filename)
        return original(self, name, *args, **options)

    monkeypatch.setattr(zipfile.ZipFile, "open", recorded)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", EPOCH)
    pool, out = cubin_wheel / POOL_FOLDER, tmp_path / "out"
    result = stage(load_recipe(RECIPE), snapshot_wheel, pool, module, out, dry_run=True)
    cubins = [name for name in opened if name.endswith(".cubin")]
    assert sorted(Path(name).name for name in cubins) == [
        entry.filename for entry in result.manifest.cubins
    ]
    others = {Path(name).name for name in opened} - {Path(name).name for name in cubins}
    few = {"checksums.txt", "METADATA", "_build_meta.py", "LICENSE"}
    assert few < others
    assert all(name.endswith(".h") for name in others - few)  # the pool's include folder


@pytest.mark.slow
def test_unpacked_sources_give_the_same_payload(
    staged: dict[str, Any],
    cubin_wheel: Path,
    snapshot_wheel: Path,
    module: Path,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool, snapshot, out = folder / "pool", folder / "snapshot", folder / "unpacked"
    with zipfile.ZipFile(cubin_wheel) as archive:
        inside = [name for name in archive.namelist() if name.startswith(f"{POOL_FOLDER}/")]
        archive.extractall(pool, inside)
    with zipfile.ZipFile(snapshot_wheel) as archive:
        archive.extractall(snapshot)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", EPOCH)
    result = stage(load_recipe(RECIPE), snapshot, pool / POOL_FOLDER, module, out, check_pool=True)
    assert result.manifest_sha256 == staged["manifest"]["sha256"]
    assert tree(out) == tree(Path(staged["payload"]))


@pytest.mark.slow
def test_verify_finds_nothing_wrong(wheel: Path) -> None:
    assert wheel.name == f"{PACKAGE}-0.6.13-py3-none-manylinux_2_34_x86_64.whl"
    verified = situ("verify", wheel, "--json").json
    assert verified["ok"]
    assert verified["summary"]["fail"] == verified["summary"]["skip"] == 0


@pytest.mark.slow
def test_every_selectable_kernel_is_bundled(wheel: Path) -> None:
    device = situ("coverage", wheel, "--json").json["devices"]["sm103"]
    assert device["missing"] == []
    contracts = {each["name"]: each for each in device["contracts"]}
    assert [each["passing"] for each in contracts.values()] == [56, 56, 167, 167]
    assert all(each["selectable"] for each in contracts.values())


@pytest.mark.slow
def test_the_built_package_checks_itself(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    code = f"import {PACKAGE} as m, json; print(json.dumps(m.verify_bundle()))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    info = json.loads(done.stdout)
    assert (info["cubin_count"], info["fc1_swiglu_count"], info["fc2_count"]) == (361, 230, 131)


@pytest.mark.slow
def test_the_private_recipe_finds_no_situ_kernels(
    cubin_wheel: Path, snapshot_wheel: Path, module: Path, tmp_path: Path
) -> None:
    result = situ(
        "stage-assets",
        f"--snapshot-root={snapshot_wheel}",
        f"--pool-root={cubin_wheel / POOL_FOLDER}",
        f"--module={module}",
        f"--out={tmp_path / 'out'}",
        "--json",
        SOURCE_DATE_EPOCH=EPOCH,
    )
    assert result.code == 3
    faults = {error["what"]: error["found"] for error in result.json["errors"]}
    assert faults == {
        "family w4a16-fc1 is not complete": "0",
        "family w4a8-fc1 is not complete": "0",
    }
