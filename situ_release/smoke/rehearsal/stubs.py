"""The stub CUDA libraries, compiled with the host's own C compiler.

Their sources lie in ``native/``. The runtime's symbols carry its soname as their version, as those
of the real ``libcudart.so.13`` do.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from situ_release.errors import HostError, Problem, raise_all
from situ_release.sources.dynamic import read_dynamic
from situ_release.sources.elf import read_elf
from situ_release.sources.runner import Runner

COMPILER = "cc"

_NATIVE = Path(__file__).parent / "native"
_CUDA_PREFIXES = ("cu", "__cuda")
_LOG_LINES = 20


@dataclass(frozen=True, slots=True)
class Stubs:
    """The compiled libraries. Open the driver first: the runtime needs it."""

    driver: Path
    runtime: Path


def compile_stubs(
    folder: Path, driver_soname: str, runtime_soname: str, runner: Runner, where: str
) -> Stubs:
    """Compile the stubs that a runner needs.

    Args:
        folder: an empty folder for the libraries.
        driver_soname: ``libcuda.so.1``.
        runtime_soname: for example ``libcudart.so.13``.
        runner: must find every CUDA function that it refers to.
        where: the runner's name in errors.

    Raises:
        HostError: there is no C compiler, it fails, or the runner refers to CUDA functions that
            the stubs do not have; all of these are named.
    """
    compiler = shutil.which(COMPILER)
    if compiler is None:
        raise HostError.of(
            "there is no C compiler for the stub CUDA libraries",
            COMPILER,
            expected=f"{COMPILER} on the PATH",
            found="none",
            remedy="install gcc or clang with the C library's headers",
        )
    stubs = Stubs(folder / driver_soname, folder / runtime_soname)
    versions = folder / "versions.map"
    versions.write_text(f"{runtime_soname} {{ global: *; }};\n", encoding="utf-8")
    _compile(compiler, "driver.c", stubs.driver)
    _compile(
        compiler, "runtime.c", stubs.runtime, f"-Wl,--version-script={versions}", str(stubs.driver)
    )
    raise_all(HostError, _absent(stubs, runner, where))
    return stubs


def _compile(compiler: str, source: str, library: Path, *more: str) -> None:
    command = [compiler, "-shared", "-fPIC", "-O1", f"-Wl,-soname,{library.name}"]
    command += ["-o", str(library), str(_NATIVE / source), *more]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise HostError(
            Problem(
                "the C compiler could not build a stub CUDA library",
                source,
                expected=f"{compiler} to compile and link a shared library",
                found=f"exit code {done.returncode}",
                remedy="repair the compiler; it also needs the C library's headers",
            ),
            log_tail="\n".join(done.stderr.splitlines()[-_LOG_LINES:]),
        )


def _absent(stubs: Stubs, runner: Runner, where: str) -> Iterator[Problem]:
    present = _exports(stubs.driver) | _exports(stubs.runtime)
    for symbol in runner.undefined:
        cuda = symbol.name.startswith(_CUDA_PREFIXES) and not symbol.weak
        if cuda and symbol.name not in present:
            yield Problem(
                "the stub CUDA libraries lack a function that the runner refers to",
                where,
                expected=f"one of the {len(present)} functions that the stubs have",
                found=symbol.name,
                remedy="run the tiers that need a GPU, or add the function to the stubs",
            )


def _exports(library: Path) -> frozenset[str]:
    dynamic = read_dynamic(read_elf(library.read_bytes(), str(library)))
    return frozenset(symbol.name for symbol in dynamic.symbols if symbol.section)
