"""Every figure of a cubin against NVIDIA's own tools, for built and for published files."""

from __future__ import annotations

import re
import zipfile
from collections import Counter
from pathlib import Path

import pytest

from situ_release.sources.cubin import Cubin, read_cubin
from tests.sources.cuda_tools import dump, nvcc, packaged_tool, run
from tests.synth.elf import make_cubin

SOURCE = """
extern "C" __global__ void __launch_bounds__(192) scale(float a, const float* x, float* y, int n) {
    __shared__ float tile[256];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    tile[threadIdx.x] = x[i];
    __syncthreads();
    if (i < n) y[i] = a * tile[255 - threadIdx.x] + y[i];
}
__constant__ float table[16];
__global__ void shuffle(float* y) {
    extern __shared__ float dynamic[];
    dynamic[threadIdx.x] = table[threadIdx.x & 15];
    __syncthreads();
    y[threadIdx.x] = dynamic[threadIdx.x ^ 1];
}
__global__ void __launch_bounds__(64, 4) plain(double* y) { y[threadIdx.x] *= 3.0; }
"""
TARGETS = ["sm_75", "sm_90", "sm_90a", "sm_100", "sm_100f", "sm_103a", "sm_120a"]
RESERVED = 1024  # bytes of shared memory that the system keeps per block from sm_90 on


def assert_equal_to_nvidias_tools(path: Path, cubin: Cubin) -> None:
    dumped = dump(path)
    assert cubin.abi_version == dumped.abi
    suffix = "a" if cubin.arch_specific else ""
    assert f"sm_{cubin.sm}{suffix}" == dumped.target.removesuffix("f")
    assert cubin.toolkit == (dumped.compiled_with or cubin.toolkit)
    assert (cubin.toolchain.release if cubin.toolchain else cubin.toolkit) == dumped.written_by
    if dumped.arch_specific is not None:
        assert cubin.arch_specific == dumped.arch_specific
    if dumped.tool is not None:
        name, banner, options = dumped.tool
        assert cubin.toolchain is not None
        assert cubin.toolchain.producer == name
        assert banner.endswith(f"release {cubin.toolchain.release}, {cubin.toolchain.version}")
        assert cubin.toolchain.options == " ".join(options.split())
    assert {kernel.name: kernel.registers for kernel in cubin.kernels} == dumped.registers
    assert {
        kernel.name: kernel.shared_memory_bytes for kernel in cubin.kernels
    } == dumped.shared_memory
    assert {
        kernel.name: kernel.max_threads for kernel in cubin.kernels if kernel.max_threads
    } == dumped.max_threads
    assert cubin.has_line_info == any("debug_line" in name for name in dumped.sections)
    assert dumped.sections
    assert {section.name for section in cubin.elf.sections} >= set(dumped.sections)


def assert_equal_to_ptxas(messages: str, cubin: Cubin) -> None:
    """``-Xptxas -v`` prints registers and the shared memory that the source asks for."""
    printed = re.findall(
        r"entry function '(\w+)'.*?Used (\d+) registers(?:[^\n]*?(\d+) bytes smem)?",
        messages,
        re.DOTALL,
    )
    reserved = RESERVED if cubin.sm >= 90 else 0
    assert {name: (int(registers), int(shared or 0)) for name, registers, shared in printed} == {
        kernel.name: (kernel.registers, kernel.shared_memory_bytes - reserved)
        for kernel in cubin.kernels
    }


@pytest.mark.nvcc
@pytest.mark.network
@pytest.mark.parametrize("target", TARGETS)
def test_built_cubins(target: str, tmp_path: Path) -> None:
    source, output = tmp_path / "k.cu", tmp_path / "k.cubin"
    source.write_text(SOURCE)
    messages = nvcc("-cubin", f"-arch={target}", "-Xptxas", "-v", "-o", output, source)
    cubin = read_cubin(output.read_bytes(), str(output))
    assert_equal_to_nvidias_tools(output, cubin)
    assert_equal_to_ptxas(messages, cubin)
    suffix = target[-1] if target[-1] in "af" else ""
    assert bool(cubin.arch_specific) == (suffix == "a")
    assert {kernel.name: kernel.max_threads for kernel in cubin.kernels} == {
        "scale": 192,
        "_Z7shufflePf": None,
        "_Z5plainPd": 64,
    }
    assert cubin.embedded_paths == ()


@pytest.mark.nvcc
@pytest.mark.network
@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_90a", "sm_100f", "sm_100a", "sm_103a"])
def test_cubins_of_cuda_12(target: str, tmp_path: Path) -> None:
    source, ptx, output = tmp_path / "k.cu", tmp_path / "k.ptx", tmp_path / "k.cubin"
    source.write_text(SOURCE)
    nvcc("-ptx", f"-arch={target.replace('sm', 'compute')}", "-o", ptx, source)
    ptx.write_text(re.sub(r"(?m)^\.version .*", ".version 8.8", ptx.read_text()))
    messages = run(packaged_tool("ptxas"), "-v", f"-arch={target}", "-o", output, ptx)
    cubin = read_cubin(output.read_bytes(), str(output))
    if cubin.sm <= 90:
        assert (cubin.abi_version, cubin.toolkit) == (7, "12.9")
    else:
        assert (cubin.abi_version, cubin.toolkit) == (8, None)
        assert cubin.toolchain is not None
        assert cubin.toolchain.release == "12.9"
    assert_equal_to_nvidias_tools(output, cubin)
    assert_equal_to_ptxas(messages, cubin)
    assert cubin.arch_specific == target.endswith("a")


@pytest.mark.nvcc
@pytest.mark.network
def test_line_info_of_a_built_cubin(tmp_path: Path) -> None:
    folder = tmp_path / "home" / "jane" / "work"
    folder.mkdir(parents=True)
    source, output = folder / "k.cu", tmp_path / "k.cubin"
    source.write_text(SOURCE)
    nvcc("-cubin", "-arch=sm_103a", "-lineinfo", "-o", output, source)
    cubin = read_cubin(output.read_bytes(), str(output))
    assert cubin.has_line_info
    assert any(path.startswith(str(folder)) for path in cubin.embedded_paths)
    assert_equal_to_nvidias_tools(output, cubin)
    plain = tmp_path / "plain.cubin"
    nvcc("-cubin", "-arch=sm_103a", "-o", plain, source)
    assert read_cubin(plain.read_bytes(), str(plain)).device_code_sha256 != ""


@pytest.mark.network
@pytest.mark.parametrize("abi", [7, 8])
def test_cuobjdump_reads_synthetic_cubins(abi: int, tmp_path: Path) -> None:
    path = tmp_path / "k.cubin"
    path.write_bytes(make_cubin("bmm_synthetic", sm=90, abi=abi))
    usage = run(packaged_tool("cuobjdump"), "-res-usage", path)
    assert re.findall(r"Function (\S+):\s+REG:(\d+) STACK:\d+ SHARED:(\d+)", usage) == [
        ("bmm_synthetic", "168", "1024"),
        ("bmm_syntheticGetSmemSize", "8", "1024"),
    ]


def published_cubins(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.endswith(".cubin")]
        return {name: archive.read(name) for name in names}


def test_the_published_cubins(published_wheel: Path) -> None:
    files = published_cubins(published_wheel)
    assert len(files) == 267
    cubins = {name: read_cubin(data, name) for name, data in files.items()}
    producers = Counter(
        (cubin.sm, cubin.arch_specific, cubin.toolchain.producer, cubin.toolchain.version)
        for cubin in cubins.values()
        if cubin.toolchain
    )
    assert producers == {
        (100, False, "ptxas", "V13.1.80"): 207,
        (103, True, "nvasm_internal", "V12.9.90"): 60,
    }
    assert {cubin.toolkit for cubin in cubins.values()} == {"13.1"}
    for name, cubin in cubins.items():
        kernel = "b" + Path(name).stem.removeprefix("B")
        assert {item.name for item in cubin.kernels} == {kernel, f"{kernel}GetSmemSize"}
        assert all(item.registers for item in cubin.kernels)
        assert not cubin.has_line_info
        assert cubin.embedded_paths == ()
    assert len({cubin.device_code_sha256 for cubin in cubins.values()}) == 267


@pytest.mark.slow
@pytest.mark.network
def test_published_cubins_against_nvidias_tools(published_wheel: Path, tmp_path: Path) -> None:
    files = sorted(published_cubins(published_wheel).items())
    for name, data in files[::9]:
        path = tmp_path / "k.cubin"
        path.write_bytes(data)
        assert_equal_to_nvidias_tools(path, read_cubin(data, name))
    assert {Path(name).parent.name for name, _ in files[::9]} == {"sm100f", "sm103a"}
