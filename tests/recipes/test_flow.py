"""Every recipe's bundle is staged, built, repaired and verified from data alone.

Kernels are synthetic, two of each family, named by the family's own tokens: a new recipe and its
payload template are proven here without a line of code about them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from situ_release.bundle.lock import load_lock
from situ_release.bundle.recipe import Family, load_recipe, recipe_names, recipe_path
from situ_release.digests import sha256_file
from situ_release.resources import payload_templates
from tests.cli.run import situ
from tests.synth.elf import make_cubin, make_fatbin, make_runner
from tests.synth.pool import make_pool, make_snapshot

PER_FAMILY = 2


def kernels(family: Family) -> list[str]:
    """Names that the family takes."""
    gather, act = ("_ldgsts_ldgstsSf", f"_{family.gated_act}") if family.gated_act else ("", "")
    return [
        f"bmm_{family.dtypes}_t128x{n}x256_s3_et128x{n}_m128x{n}x16_c1x1x1_rM_TN_transOut_schedS"
        f"_biasFp32M_bN{gather}_rgTma_clmp{act}_dynB_{family.arch}"
        for n in (8 << number for number in range(PER_FAMILY))
    ]


@dataclass(frozen=True)
class Flow:
    """What the commands said of one recipe's synthetic bundle."""

    recipe: Path
    staged: dict[str, Any]
    wheel: Path
    verified: dict[str, Any]


@pytest.fixture(scope="module", params=recipe_names())
def flow(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Flow:
    name: str = request.param
    folder = tmp_path_factory.mktemp(name)
    loaded = load_recipe(name).recipe
    text = re.sub(r"(?m)^count = \d+", f"count = {PER_FAMILY}", recipe_path(name).read_text())
    recipe = folder / f"{name}.toml"
    recipe.write_text(text)
    pool = make_pool(folder, [kernel for family in loaded.families for kernel in kernels(family)])
    snapshot = make_snapshot(folder)
    module = folder / f"module_{sha256_file(pool.header)[:8]}.so"
    code = b"".join(
        make_fatbin(make_cubin(f"bmm_routing_sm{sm}", sm=sm, arch_specific=False), sm=sm)
        for sm in loaded.target.sms
    )
    runner = loaded.runner
    module.write_bytes(make_runner(runner.ffi_symbols, runner.c_symbols, pool.table(), fatbin=code))
    sources = [f"--snapshot-root={snapshot}", f"--pool-root={pool.root}", f"--module={module}"]
    payload, raw, dist = folder / "payload", folder / "raw", folder / "dist"
    use = f"--recipe={recipe}"
    staged = situ("stage-assets", use, *sources, f"--out={payload}", "--json").json
    assert staged["ok"], staged
    built = situ("build", f"--payload={payload}", f"--outdir={raw}", "--json").json
    assert built["ok"], built
    repaired = situ("repair", built["wheel"]["path"], use, f"--wheel-dir={dist}", "--json").json
    assert repaired["ok"], repaired
    wheel = Path(repaired["wheel"]["path"])
    return Flow(recipe, staged, wheel, situ("verify", wheel, use, "--json").json)


def test_every_family_is_selected(flow: Flow) -> None:
    assert {family["selected"] for family in flow.staged["families"]} == {PER_FAMILY}


def test_the_wheel_has_no_fault(flow: Flow) -> None:
    faults = {c["id"]: c["findings"] for c in flow.verified["checks"] if c["status"] == "fail"}
    assert faults == {}
    assert flow.verified["ok"]


def test_what_stands_before_publication(flow: Flow) -> None:
    recipe = load_recipe(str(flow.recipe)).recipe
    words = ["verify", flow.wheel, f"--recipe={flow.recipe}", "--for-publication", "--json"]
    checks = {check["id"]: check for check in situ(*words).json["checks"]}
    refused = [finding["message"] for finding in checks["publication.index"]["findings"]]
    private = [name for name in recipe.package.classifiers if name.startswith("Private ::")]
    assert len(refused) == len(private)
    assert all("forbids upload" in message for message in refused)
    demanded = [finding["subject"] for finding in checks["publication.approvals"]["findings"]]
    assert demanded
    assert sorted(demanded) == sorted(recipe.publication.approvals)


@pytest.mark.parametrize("name", recipe_names())
def test_a_recipe_is_complete(name: str) -> None:
    loaded = load_recipe(name)
    assert loaded.recipe.name == name
    assert (payload_templates() / loaded.recipe.template).is_dir()
    assert len(set(loaded.recipe.publication.approvals)) == len(loaded.recipe.publication.approvals)
    lock = load_lock(loaded.path)
    if lock is not None:
        assert lock.recipe == name
        assert len(lock.cubins) == loaded.recipe.cubin_count
