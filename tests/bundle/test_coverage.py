"""Coverage: what of the selectable is bundled, on synthetic wheels and the published one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from situ_release.bundle.coverage import CoverageModel
from situ_release.bundle.recipe import Contract, load_recipe
from situ_release.errors import InputError, UsageError
from situ_release.sources.kernel_table import KernelTable
from situ_release.wheel.bundle import open_bundle
from tests.cli.run import situ
from tests.synth.pool import UNKNOWN_NAMES
from tests.synth.wheel import (
    MANIFEST,
    OTHER_KERNEL,
    PACKAGE,
    Files,
    bundle_files,
    cubin_path,
    dump,
    kernels,
    make_wheel,
    mini_recipe,
    write_mini_recipe,
)

NAMES = [name for family in kernels().values() for name in family]
W4A16_FC1, W4A8_FC2 = NAMES[0], NAMES[-1]
DIGESTS = {name: f"{number:064x}" for number, name in enumerate([*NAMES, OTHER_KERNEL])}
BUNDLED = {name: DIGESTS[name] for name in NAMES}


@pytest.fixture
def model(tmp_path: Path) -> CoverageModel:
    return CoverageModel(mini_recipe(tmp_path), KernelTable(tuple(DIGESTS.items())))


def test_all_bundled_kernels_are_selectable(model: CoverageModel) -> None:
    device = model.device(103, BUNDLED)
    assert device.target
    assert device.missing == ()
    assert device.unreachable == ()
    assert device.selectable == tuple(sorted(NAMES))
    for contract in device.contracts:
        family = [
            name for name in NAMES if ("E2m1Bfloat16" in name) == ("mxfp8" not in contract.name)
        ]
        assert contract.selectable == contract.default == contract.passing == tuple(sorted(family))
        assert contract.tactics == 2  # one FC1 and one FC2 for each of two tiles


def test_a_kernel_that_is_not_bundled_is_missing(model: CoverageModel) -> None:
    bundled = {name: digest for name, digest in BUNDLED.items() if name != W4A8_FC2}
    device = model.device(103, bundled)
    assert device.missing == (W4A8_FC2,)
    assert [len(contract.missing) for contract in device.contracts] == [0, 0, 1, 1]


def test_a_cubin_with_another_digest_is_missing(model: CoverageModel) -> None:
    device = model.device(103, BUNDLED | {W4A16_FC1: "f" * 64})
    assert device.missing == (W4A16_FC1,)


def test_a_kernel_of_no_contract_is_unreachable(model: CoverageModel) -> None:
    device = model.device(103, BUNDLED | {OTHER_KERNEL: DIGESTS[OTHER_KERNEL]})
    assert device.unreachable == (OTHER_KERNEL,)
    assert device.missing == ()


def test_another_device_is_no_target(model: CoverageModel) -> None:
    device = model.device(100, BUNDLED)
    assert not device.target
    assert device.contracts[0].passing == ()  # its kernels are sm103a, and there they are skipped
    assert {name for name in device.unreachable if name.endswith("sm103a")} == set(NAMES[:4])


def test_the_tactic_lists(model: CoverageModel) -> None:
    contract = model.recipe.contracts[0]
    assert model.tactics(contract, 103, 1) == [(8, 0), (16, 0)]
    assert model.tactics(contract, 103, 2000) == []  # only tiles of 32 and more, and there is none


@pytest.mark.parametrize("name", UNKNOWN_NAMES)
def test_an_unknown_name_in_the_table_is_an_error(tmp_path: Path, name: str) -> None:
    table = KernelTable((*DIGESTS.items(), (name, "0" * 64)))
    with pytest.raises(InputError, match=r"unknown token|out of place") as caught:
        CoverageModel(mini_recipe(tmp_path), table)
    (problem,) = caught.value.problems
    assert problem.where == name


# --- the command ------------------------------------------------------------------------------


def without(kernel: str) -> Files:
    """The files of a bundle that lacks one kernel, its manifest true."""
    files = bundle_files()
    del files[f"{PACKAGE}/{cubin_path(kernel)}"]
    manifest = json.loads(files[MANIFEST])
    manifest["cubins"] = [one for one in manifest["cubins"] if one["path"] != cubin_path(kernel)]
    return files | {MANIFEST: dump(manifest)}


def test_a_missing_kernel_is_exit_1_and_named(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path / "w", files=without(W4A8_FC2))
    recipe = f"--recipe={write_mini_recipe(tmp_path)}"
    result = situ("coverage", wheel, recipe, "--json")
    assert (result.code, result.json["ok"]) == (1, False)
    assert result.json["devices"]["sm103"]["missing"] == [W4A8_FC2]
    shown = situ("coverage", wheel, recipe)
    assert shown.code == 1
    assert W4A8_FC2 in shown.stdout + shown.stderr


@pytest.mark.parametrize("garbage", [None, b"garbage"], ids=["removed", "garbage"])
def test_the_file_counts_not_the_manifest(tmp_path: Path, garbage: bytes | None) -> None:
    member = f"{PACKAGE}/{cubin_path(W4A8_FC2)}"
    files = bundle_files()
    if garbage is None:
        del files[member]
    else:
        files[member] = garbage
    wheel = make_wheel(tmp_path / "w", files=files)
    result = situ("coverage", wheel, f"--recipe={write_mini_recipe(tmp_path)}", "--json")
    assert (result.code, result.json["ok"]) == (1, False)
    assert result.json["devices"]["sm103"]["missing"] == [W4A8_FC2]


def test_a_contract_without_gated_kernels_is_an_input_error(model: CoverageModel) -> None:
    families = [family for family in model.recipe.families if not family.gated_act]
    recipe = model.recipe.model_copy(update={"families": families})
    table = KernelTable(tuple(DIGESTS.items()))
    with pytest.raises(InputError, match="no kernels for its first GEMM"):
        CoverageModel(recipe, table).device(103, BUNDLED)


def test_more_tokens_than_the_runner_can_count_are_a_usage_error(model: CoverageModel) -> None:
    with pytest.raises(UsageError, match="too many tokens"):
        model.tactics(model.recipe.contracts[0], 103, 10**400)


def test_only_the_target_decides(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path / "w", files=without(W4A8_FC2))
    result = situ(
        "coverage", wheel, f"--recipe={write_mini_recipe(tmp_path)}", "--sm=100", "--json"
    )
    assert result.code == 0
    assert list(result.json["devices"]) == ["sm100"]
    assert result.json["devices"]["sm100"]["missing"] == [W4A8_FC2]


def test_an_unknown_token_in_the_runner_is_exit_3(tmp_path: Path) -> None:
    table = [(UNKNOWN_NAMES[1], "0" * 64), *BUNDLED.items()]
    wheel = make_wheel(tmp_path / "w", table=table)
    result = situ("coverage", wheel, f"--recipe={write_mini_recipe(tmp_path)}", "--json")
    assert result.code == 3
    (error,) = result.json["errors"]
    assert error["where"] == UNKNOWN_NAMES[1]
    assert "siTuGluX" in error["found"]


# --- the published runner ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def real(published_wheel: Path) -> CoverageModel:
    bundle = open_bundle(published_wheel)
    return CoverageModel(load_recipe().recipe, bundle.runner.kernel_table)


TP8_W4A16, EP8_W4A16, TP8_W4A8, EP8_W4A8 = load_recipe().recipe.contracts


@pytest.mark.parametrize(
    ("contract", "tokens", "count"),
    [
        (TP8_W4A16, 1, 576),
        (TP8_W4A16, 128, 576),
        (EP8_W4A16, 128, 576),
        (TP8_W4A8, 128, 1684),
        (EP8_W4A8, 4096, 50),
    ],
)
def test_the_lists_that_an_h200_gave(
    real: CoverageModel, contract: Contract, tokens: int, count: int
) -> None:
    """Measured with the real runner on sm_90."""
    found = real.tactics(contract, 90, tokens)
    assert len(found) == len(set(found)) == count
    assert found == sorted(found)


def test_where_the_lists_begin(real: CoverageModel) -> None:
    assert real.tactics(TP8_W4A16, 90, 1)[0] == (8, 0)
    assert {tile for tile, _ in real.tactics(EP8_W4A8, 90, 4096)} == {64, 128, 256}


def test_the_lists_on_the_target(real: CoverageModel) -> None:
    assert len(real.tactics(TP8_W4A16, 103, 1)) == 144
    assert len(real.tactics(TP8_W4A8, 103, 128)) == 1684
    assert len(real.tactics(EP8_W4A8, 103, 4096)) == 50


def test_closure_of_the_published_wheel(published_wheel: Path, real: CoverageModel) -> None:
    bundle = open_bundle(published_wheel)
    target = real.device(103, bundle.digests)
    assert [len(contract.passing) for contract in target.contracts] == [56, 56, 167, 167]
    assert [len(contract.selectable) for contract in target.contracts] == [56, 56, 161, 165]
    assert len(target.selectable) == 221
    assert target.missing == ()
    assert len(target.unreachable) == 46
    assert sum(bundle.sizes[name] for name in target.unreachable) == 4_270_832
    elsewhere = real.device(100, bundle.digests)
    w4a16 = elsewhere.contracts[0]
    assert len(w4a16.passing) == len(w4a16.missing) == 56
    assert elsewhere.contracts[2].missing == ()


def test_even_what_no_contract_can_select_would_be_bundled(
    published_wheel: Path, real: CoverageModel
) -> None:
    """Closure whatever the shape: all that the runner keeps is in the wheel, as it asks for it."""
    bundle = open_bundle(published_wheel)
    table = bundle.runner.kernel_table
    passing = {n for c in real.device(103, {}).contracts for n in c.passing}
    assert len(passing) == 56 + 167
    assert all(bundle.digests.get(name) == table.digest_of(name) for name in passing)
