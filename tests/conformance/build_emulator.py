"""Compile the emulator: a libcuda.so.1 and a libcudart.so.13 that run the bundle's kernels."""

from __future__ import annotations

from pathlib import Path

from situ_release.bundle.conformance import _tvm_ffi_headers
from situ_release.bundle.conformance_kernels import ConformanceKernel
from situ_release.bundle.nvcc import find_nvcc

EMULATOR = Path(__file__).parent / "emulator"


def build_emulator(folder: Path, sources: Path, kernels: list[ConformanceKernel]) -> Path:
    """The folder with both libraries; `sources` is the bundle's snapshot."""
    folder.mkdir(parents=True)
    lines = []
    for kernel in kernels:
        gated, mx = int(kernel.role == "fc1"), int(kernel.precision == "w4a8")
        tile = kernel.name.tile
        lines.append(f'GEMM("{kernel.name}", {gated}, {mx}, {tile.n}, {tile.k})\n')
    (folder / "gemm_kernels.inc").write_text("".join(lines))
    (folder / "version.map").write_text("libcudart.so.13 { global: *; };\n")
    nvcc = find_nvcc()
    common = ["-x", "c++", "-std=c++17", "-O2", "-shared", "-cudart=none", "-nodlink", "-Xcompiler"]
    nvcc.run(
        [*common, "-fPIC,-Wall,-Werror,-Wno-unknown-pragmas", "-I.", f"-I{EMULATOR}"]
        + [f"-I{sources / 'kernels'}", f"-I{_tvm_ffi_headers()}"]
        + ["-Xlinker", "-soname,libcuda.so.1", "-o", "libcuda.so.1"]
        + [str(EMULATOR / name) for name in ("cuda_emulator.cpp", "kernels.cpp", "driver.cpp")],
        folder=folder,
        making="the emulated driver",
    )
    nvcc.run(
        [*common, "-fPIC", "-Xlinker", "-soname,libcudart.so.13,--version-script=version.map"]
        + ["-o", "libcudart.so.13", str(EMULATOR / "cudart.cpp")],
        folder=folder,
        making="the emulated runtime",
    )
    return folder
