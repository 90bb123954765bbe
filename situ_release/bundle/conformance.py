"""Compiling a conformance bundle's sources into the three things that a bundle is staged from.

The sources lie beside the recipe, in a folder of its name: kernels in CUDA C++, a runner in C++ and
the list of kernels. No GPU is needed. The same sources and compilers give the same bytes, wherever
they lie.
"""

from __future__ import annotations

import importlib.util
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from situ_release import atomic, resources
from situ_release.bundle.conformance_kernels import (
    ConformanceKernel,
    kernel_table_cpp,
    read_kernels,
)
from situ_release.bundle.nvcc import Nvcc, find_nvcc
from situ_release.digests import sha256_bytes, sha256_file
from situ_release.errors import HostError, UsageError
from situ_release.sources.checksums import write_checksums
from situ_release.sources.kernel_name import cubin_filename
from situ_release.sources.metadata_header import write_header

RECIPE = "situ-conformance-sm90"
MODULE_STEM = "fused_moe_situ_conformance"

_HEADER = "include/flashinferMetaInfo.h"
_HASH_DIGITS = 8
_EMBEDDED = "routing.fatbin"
_DRIVER_SONAME = "libcuda.so.1"
_DRIVER_FUNCTIONS = (
    "cuFuncSetAttribute",
    "cuLaunchKernelEx",
    "cuModuleGetFunction",
    "cuModuleLoadData",
)
_COMPILE = ("-std=c++17", "-O3")
_LIBRARY = ("-cudart=shared", "-nodlink", "-shared")


@dataclass(frozen=True, slots=True)
class ConformanceBuild:
    """Where the inputs of ``stage-assets`` lie."""

    snapshot: Path
    pool: Path
    module: Path


def build_conformance(
    out: Path, *, nvcc: str = "nvcc", jobs: int = 2, recipe: str = RECIPE
) -> ConformanceBuild:
    """Compile the kernels and the runner.

    Args:
        out: folder to make, with ``snapshot/``, ``pool/`` and the module; an existing one is
            replaced only where situ-release made it.
        nvcc: name or path of the compiler, CUDA 13.
        jobs: compilers to run at a time.
        recipe: the conformance recipe whose sources are compiled.

    Raises:
        UsageError: the recipe ships without sources.
        HostError: no nvcc, or no headers of apache-tvm-ffi.
        InputError: ``out`` may not be replaced, or the sources are damaged.
        ToolError: nvcc failed.
    """
    sources = resources.recipes() / recipe
    if not (sources / "kernels.toml").is_file():
        raise UsageError.of(
            "this recipe ships without sources to compile",
            f"--recipe {recipe}",
            expected=f"a recipe with a folder of its name beside it, such as {RECIPE}",
            found="no sources",
            remedy="give stage-assets the snapshot, pool and module that you have",
        )
    compiler = find_nvcc(nvcc)
    headers = _tvm_ffi_headers()
    with atomic.new_directory(out, "conformance") as fresh:
        snapshot, pool = fresh / "snapshot", fresh / "pool"
        shutil.copytree(sources, snapshot)
        with tempfile.TemporaryDirectory() as scratch:
            work = Path(scratch)
            shutil.copytree(snapshot, work / "sources")
            builder = _Builder(compiler, headers, work, read_kernels(snapshot / "kernels.toml"))
            digests = builder.compile_cubins(pool, jobs)
            header = write_pool_metadata(pool, builder.kernels, digests)
            module = fresh / f"{MODULE_STEM}_{header[:_HASH_DIGITS]}.so"
            shutil.copyfile(builder.compile_runner(digests), module)
    return ConformanceBuild(out / "snapshot", out / "pool", out / module.name)


def write_pool_metadata(
    pool: Path, kernels: list[ConformanceKernel], digests: dict[str, str]
) -> str:
    """Write a pool's metadata header and ``checksums.txt``.

    Args:
        pool: the folder with the cubins.
        kernels: in table order.
        digests: SHA-256 of each cubin by kernel name.

    Returns:
        The header's SHA-256.
    """
    entries = [kernel.metadata_entry(digests[str(kernel.name)]) for kernel in kernels]
    header = write_header(entries, comment="The kernels of this pool, as the runner knows them.")
    (pool / _HEADER).parent.mkdir(parents=True)
    (pool / _HEADER).write_bytes(header)
    files = {cubin_filename(name): digest for name, digest in digests.items()}
    files[_HEADER] = sha256_bytes(header)
    (pool / "checksums.txt").write_bytes(write_checksums(files))
    return files[_HEADER]


@dataclass(frozen=True, slots=True)
class _Builder:
    """The compiler runs of one build, in a scratch folder that holds ``sources/``."""

    nvcc: Nvcc
    headers: Path
    work: Path
    kernels: list[ConformanceKernel]

    def compile_cubins(self, pool: Path, jobs: int) -> dict[str, str]:
        """One cubin for each kernel, in ``pool``; their SHA-256 by kernel name."""
        pool.mkdir()

        def compile_one(kernel: ConformanceKernel) -> tuple[str, str]:
            cubin = pool / cubin_filename(kernel.name)
            self.nvcc.run(
                [*_COMPILE, *kernel.defines(), "-cubin", *_for_architecture(kernel.name.sm)]
                + ["-Isources/kernels", "-o", str(cubin), "sources/kernels/gemm.cu"],
                folder=self.work,
                making=cubin.name,
            )
            return str(kernel.name), sha256_file(cubin)

        with ThreadPoolExecutor(max_workers=jobs) as pool_of_threads:
            return dict(pool_of_threads.map(compile_one, self.kernels))

    def compile_runner(self, digests: dict[str, str]) -> Path:
        """The runner, with the table of ``digests`` and the routing kernels inside."""
        table = kernel_table_cpp(digests, self.kernels)
        (self.work / "kernel_table.inc").write_text(table, encoding="utf-8")
        self._compile_embedded()
        objects = [
            self._compile_host(source)
            for source in sorted((self.work / "sources" / "runner").glob("*.cpp"))
        ]
        runner = self.work / "runner.so"
        self.nvcc.run(
            [*_LIBRARY, "-Xlinker", "-z,now,-z,noexecstack", "-o", runner.name]
            + [*objects, "-L.", f"-l{self._driver_stub()}"],
            folder=self.work,
            making="the runner",
        )
        return runner

    def _compile_embedded(self) -> None:
        architectures = dict.fromkeys(kernel.name.sm for kernel in self.kernels)
        targets = [item for name in architectures for item in _for_architecture(name)]
        self.nvcc.run(
            [*_COMPILE, "-fatbin", "-no-compress", *targets]
            + ["-o", _EMBEDDED, "sources/kernels/routing.cu"],
            folder=self.work,
            making="the embedded device code",
        )

    def _compile_host(self, source: Path) -> str:
        target = f"{source.stem}.o"
        options = ["-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror"]
        # Header paths are in messages: keep the folders of this host out of them.
        options.append(f"-ffile-prefix-map={self.headers}=tvm-ffi")
        self.nvcc.run(
            [*_COMPILE, "-c", "-I.", "-isystem", self.headers, "-Xcompiler", ",".join(options)]
            + ["-o", target, source.relative_to(self.work)],
            folder=self.work,
            making=source.name,
        )
        return target

    def _driver_stub(self) -> str:
        """A library to link with where there is no driver: only its soname gets into the runner."""
        functions = "".join(f"int {name}(void) {{ return 0; }}\n" for name in _DRIVER_FUNCTIONS)
        (self.work / "driver_stub.c").write_text(functions, encoding="utf-8")
        self.nvcc.run(
            ["-cudart=none", "-nodlink", "-shared", "-Xcompiler", "-fPIC"]
            + ["-Xlinker", f"-soname,{_DRIVER_SONAME}", "-o", "libdriver_stub.so", "driver_stub.c"],
            folder=self.work,
            making=f"a stand-in for {_DRIVER_SONAME} to link with",
        )
        return "driver_stub"


def _for_architecture(name: str) -> list[str]:
    """``sm90a`` as nvcc wants it: machine code only."""
    number = name.removeprefix("sm")
    return ["-gencode", f"arch=compute_{number},code=sm_{number}"]


def _tvm_ffi_headers() -> Path:
    """The include folder of the installed apache-tvm-ffi, found without importing it."""
    found = importlib.util.find_spec("tvm_ffi")
    for location in (found.submodule_search_locations or ()) if found else ():
        include = Path(location) / "include"
        if (include / "tvm" / "ffi" / "c_api.h").is_file():
            return include
    raise HostError.of(
        "the headers of apache-tvm-ffi are not here",
        "tvm_ffi/include",
        expected="the C++ headers that the package apache-tvm-ffi installs",
        found="no such folder" if found else "apache-tvm-ffi is not installed",
        remedy='pip install "apache-tvm-ffi>=0.1.12,<0.2"',
    )
