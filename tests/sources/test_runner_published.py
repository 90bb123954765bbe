"""The published runner: every figure that was measured once stays as it was."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
import zipfile
from collections import Counter
from pathlib import Path

import pytest

from situ_release.sources.cubin import read_cubin
from situ_release.sources.runner import Runner, read_runner

MEMBER = "tokenspeed_situ/lib/fused_moe_k3_situ_sm103.so"


@pytest.fixture(scope="module")
def data(published_wheel: Path) -> bytes:
    with zipfile.ZipFile(published_wheel) as archive:
        return archive.read(MEMBER)


@pytest.fixture(scope="module")
def runner(data: bytes) -> Runner:
    return read_runner(data, MEMBER)


def test_needs(runner: Runner) -> None:
    assert runner.is_x86_64_shared_object
    assert runner.needed == (
        "libcudart.so.13",
        "libcuda.so.1",
        "libstdc++.so.6",
        "libm.so.6",
        "libgcc_s.so.1",
        "libc.so.6",
        "ld-linux-x86-64.so.2",
    )
    assert (runner.rpath, runner.runpath, runner.executable_stack) == (None, None, False)
    assert runner.minimum_versions == {"GLIBC": "2.38", "GLIBCXX": "3.4.32", "CXXABI": "1.3.9"}
    demands = {(demand.library, demand.version): demand for demand in runner.version_demands}
    assert demands["libc.so.6", "GLIBC_2.38"].symbols == ("__isoc23_strtol", "__isoc23_strtoull")
    assert demands["libstdc++.so.6", "GLIBCXX_3.4.32"].symbols == ("_ZSt21ios_base_library_initv",)


def test_symbols(runner: Runner) -> None:
    assert runner.ffi_exports == {
        "trtllm_fp4_block_scale_moe_private",
        "trtllm_get_valid_moe_configs_private",
        "trtllm_bf16_moe_private",
        "trtllm_fp8_block_scale_moe_private",
        "trtllm_fp8_per_tensor_scale_moe_private",
        "trtllm_mxint4_block_scale_moe_private",
    }
    assert {"FlashInferSetCubinCallback", "FlashInferSetCurrentCubin"} <= runner.exports
    unprovided = Counter(symbol.name[:6] for symbol in runner.unprovided)
    assert unprovided.pop("TVMFFI") == 7
    assert all(name.startswith("cu") for name in unprovided)
    assert {symbol.kind for symbol in runner.unprovided} == {"function"}


def test_who_built_it(runner: Runner) -> None:
    assert runner.build_id is not None
    assert runner.build_id.startswith("4c0c5dc8")
    assert runner.compilers == ("GCC: (Ubuntu 13.3.0-6ubuntu2~24.04.1) 13.3.0",)
    assert not runner.stripped
    assert len(runner.embedded_paths) == 23
    assert all(path.startswith("/home/<user>/") for path in runner.masked_paths())


def test_device_code(runner: Runner) -> None:
    assert [module.target for module in runner.device_modules] == ["sm_103a"] * 10
    assert {module.kind for module in runner.device_modules} == {"cubin"}
    assert [sm for sm in (90, 100, 103, 120) if runner.device_modules[0].runs_on(sm)] == [103]


def test_kernel_table(runner: Runner, published_wheel: Path) -> None:
    table = runner.kernel_table
    assert table.count == 1696
    assert Counter(name.rpartition("_")[2] for name, _ in table.pairs) == {
        "sm100f": 1636,
        "sm103a": 60,
    }
    assert sum("siTuGlu" in name for name, _ in table.pairs) == 570
    with zipfile.ZipFile(published_wheel) as archive:
        manifest = json.loads(archive.read("tokenspeed_situ/manifest.json"))
    for cubin in manifest["cubins"]:
        kernel = "b" + cubin["filename"].removesuffix(".cubin").removeprefix("B")
        assert table.digest_of(kernel) == cubin["sha256"]


def test_a_stripped_copy_says_the_same(data: bytes, runner: Runner) -> None:
    bare = read_runner(data[:40] + bytes(8) + data[48:60] + bytes(4) + data[64:], MEMBER)
    assert bare.stripped
    for name in ("undefined", "exports", "version_demands", "needed", "build_id"):
        assert getattr(bare, name) == getattr(runner, name), name
    assert bare.kernel_table == runner.kernel_table
    assert [module.offset for module in bare.device_modules] == [
        module.offset for module in runner.device_modules
    ]


@pytest.mark.skipif(shutil.which("readelf") is None, reason="readelf is not on the PATH")
def test_dynamic_symbols_against_readelf(data: bytes, runner: Runner, tmp_path: Path) -> None:
    path = tmp_path / "r.so"
    path.write_bytes(data)
    printed = subprocess.run(
        ["readelf", "--wide", "--dyn-syms", str(path)], capture_output=True, text=True, check=True
    ).stdout
    rows = [line.split() for line in printed.splitlines() if line.strip()[:1].isdigit()]
    rows = [row for row in rows if len(row) >= 8]
    undefined = {row[7] for row in rows if row[6] == "UND"}
    assert undefined == {
        symbol.name + (f"@{symbol.version}" if symbol.version else "")
        for symbol in runner.undefined
    }
    defined = {row[7] for row in rows if row[6] != "UND" and row[4] != "LOCAL"}
    assert defined == runner.exports


def test_reading_is_fast(published_wheel: Path, data: bytes) -> None:
    """Best of three, so that a busy machine does not decide; the limits are the project's."""
    with zipfile.ZipFile(published_wheel) as archive:
        cubins = [archive.read(name) for name in archive.namelist() if name.endswith(".cubin")]
    reading, cubin_reading = [], []
    for _ in range(3):
        start = time.perf_counter()
        read_runner(data, MEMBER)
        reading.append(time.perf_counter() - start)
        start = time.perf_counter()
        for content in cubins:
            read_cubin(content, "k")
        cubin_reading.append(time.perf_counter() - start)
    assert min(reading) < 0.15
    assert min(cubin_reading) < 0.4
