"""What the compiler makes of the bundle's sources."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

import pytest

from situ_release import resources
from situ_release.bundle import conformance
from situ_release.bundle.conformance import RECIPE, ConformanceBuild, build_conformance
from situ_release.bundle.conformance_kernels import ConformanceKernel
from situ_release.digests import sha256_file
from situ_release.errors import HostError, InputError, ToolError
from situ_release.sources.cubin import read_cubin
from situ_release.sources.kernel_name import cubin_filename
from situ_release.sources.pool import open_pool
from situ_release.sources.runner import read_runner
from situ_release.sources.snapshot import open_snapshot
from tests.conformance.conftest import SOURCES

compiled = [pytest.mark.nvcc, pytest.mark.slow]


class TestBundle:
    pytestmark = compiled

    def test_every_cubin_holds_the_kernel_of_its_name(
        self, built: ConformanceBuild, kernels: list[ConformanceKernel]
    ) -> None:
        files = {path.name for path in built.pool.glob("*.cubin")}
        assert files == {cubin_filename(kernel.name) for kernel in kernels}
        for kernel in kernels:
            path = built.pool / cubin_filename(kernel.name)
            cubin = read_cubin(path.read_bytes(), path.name)
            assert [found.name for found in cubin.kernels] == [str(kernel.name)]
            assert f"sm{cubin.sm}" == kernel.name.sm.rstrip("af")
            assert cubin.arch_specific == kernel.name.sm.endswith("a")
            assert cubin.embedded_paths == ()

    def test_pool_header_and_runner_agree(
        self, built: ConformanceBuild, kernels: list[ConformanceKernel]
    ) -> None:
        pool = open_pool(built.pool)
        runner = read_runner(built.module.read_bytes(), built.module.name)
        assert [name for name, _ in runner.kernel_table.pairs] == [str(k.name) for k in kernels]
        for name, digest in runner.kernel_table.pairs:
            assert sha256_file(built.pool / cubin_filename(name)) == digest
            entry = pool.header.find(name)
            assert entry is not None
            assert entry.sha256 == digest
        assert built.module.stem.endswith(f"_{pool.header.sha256[:8]}")

    def test_the_runner_is_fit_for_a_wheel(self, built: ConformanceBuild) -> None:
        runner = read_runner(built.module.read_bytes(), built.module.name)
        assert {"libcudart.so.13", "libcuda.so.1"} <= set(runner.needed)
        assert not any("tvm" in name for name in runner.needed)
        assert {
            "__tvm_ffi_trtllm_fp4_block_scale_moe_private",
            "__tvm_ffi_trtllm_get_valid_moe_configs_private",
            "FlashInferSetCubinCallback",
            "FlashInferSetCurrentCubin",
        } <= set(runner.exports)
        loose = {symbol.name for symbol in runner.unprovided}
        assert {name for name in loose if not name.startswith("cu")} >= {"TVMFFIEnvTensorAlloc"}
        assert all(name.startswith(("TVMFFI", "cu")) for name in loose)
        modules = {(module.kind, module.sm, module.suffix) for module in runner.device_modules}
        assert modules == {("cubin", 90, "a"), ("cubin", 100, "f"), ("cubin", 103, "a")}
        assert not runner.executable_stack
        assert runner.embedded_paths == ()

    def test_the_snapshot_states_version_and_licence(self, built: ConformanceBuild) -> None:
        snapshot = open_snapshot(built.snapshot)
        assert snapshot.version
        assert "LICENSE" in snapshot.licenses

    def test_another_folder_gives_the_same_bytes(
        self, built: ConformanceBuild, tmp_path: Path
    ) -> None:
        again = build_conformance(tmp_path / "some" / "other place")

        def digests(folder: Path) -> dict[str, str]:
            files = (path for path in folder.rglob("*") if path.is_file())
            return {str(path.relative_to(folder)): sha256_file(path) for path in files}

        assert digests(again.pool.parent) == digests(built.pool.parent)


@pytest.mark.nvcc
def test_broken_sources_give_the_compilers_last_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(SOURCES, tmp_path / RECIPE)
    (tmp_path / RECIPE / "kernels" / "gemm.cu").write_text("this is no CUDA\n")
    monkeypatch.setattr(resources, "recipes", lambda: tmp_path)
    with pytest.raises(ToolError) as caught:
        build_conformance(tmp_path / "out")
    assert "gemm.cu(1)" in caught.value.log_tail
    assert not (tmp_path / "out").exists()


def test_a_host_without_nvcc_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="no-such-nvcc"):
        build_conformance(tmp_path / "out", nvcc="no-such-nvcc")
    assert not (tmp_path / "out").exists()


def test_a_host_without_tvm_ffi_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    monkeypatch.setattr(conformance, "find_nvcc", lambda _: None)
    with pytest.raises(HostError, match="apache-tvm-ffi"):
        build_conformance(tmp_path / "out")


def test_a_folder_of_others_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "precious").write_text("mine")
    monkeypatch.setattr(conformance, "find_nvcc", lambda _: None)
    with pytest.raises(InputError):
        build_conformance(tmp_path)
    assert (tmp_path / "precious").read_text() == "mine"
