"""A bundle whose runner the tests compile: the shipped payload around a small runner and cubins."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

from tests.payload.assemble import render
from tests.synth.elf import Kernel, make_cubin, make_fatbin
from tests.synth.wheel import (
    PACKAGE,
    Files,
    arch_of,
    bundle_files,
    cubin_path,
    exchange,
    kernels,
    make_wheel,
)

TILES = 6
"""Kernels per family: tiles of 8 to 256 tokens."""

PARAMETERS = (256, 8)
"""Sizes of each kernel's parameters, as the runner's source has them."""


def cubins() -> dict[str, bytes]:
    """A cubin for every kernel of the bundle, in the order of families and tiles."""
    return {
        kernel: make_cubin(
            sm=int(arch_of(kernel)[2:5]),
            arch_specific=arch_of(kernel).endswith("a"),
            kernels=[Kernel(kernel, parameters=PARAMETERS)],
        )
        for family in kernels(TILES).values()
        for kernel in family
    }


def compile_runner(folder: Path, sm: int = 103) -> bytes:
    """The runner of ``runner.c``; its finalize kernel is compiled "for" one SM."""
    from tvm_ffi import libinfo

    finalize = make_cubin(sm=sm, kernels=[Kernel("finalize", parameters=PARAMETERS)])
    fatbin = folder / "embedded.fatbin"
    fatbin.write_bytes(make_fatbin(finalize, sm=sm))
    table = "".join(
        f'{kernel}\\0""{hashlib.sha256(data).hexdigest()}\\0""' for kernel, data in cubins().items()
    )
    library = folder / "runner.so"
    command = ["cc", "-shared", "-fPIC", "-O1", "-w", "-o", str(library)]
    command += [str(Path(__file__).with_name("runner.c"))]
    command += [f'-DKERNEL_TABLE="\\0{table}"', f"-DTILES={TILES}", f'-DFATBIN="{fatbin}"']
    command += [f"-I{libinfo.find_include_path()}", f"-I{libinfo.find_dlpack_include_path()}"]
    subprocess.run(command, check=True)
    return library.read_bytes()


def package_files(folder: Path, runner: bytes) -> Files:
    """The shipped payload with the synthetic cubins and a compiled runner."""
    files = bundle_files(TILES, runner=runner)
    for kernel, data in cubins().items():
        exchange(f"{PACKAGE}/{cubin_path(kernel)}", data)(files)
    package = render(folder / "project", PACKAGE).folder
    for path in package.rglob("*.py"):
        files[f"{PACKAGE}/{path.relative_to(package)}"] = path.read_bytes()
    return files


def rehearsal_wheel(folder: Path, runner: bytes) -> Path:
    """A wheel of these files."""
    return make_wheel(folder, files=package_files(folder, runner))
