"""A compiled runner, really opened through apache-tvm-ffi; each in a process of its own.

Needs a C compiler and nothing of CUDA.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.payload.assemble import CUBINS, Package, assemble, sha256

pytestmark = pytest.mark.gcc

_SOURCE = Path(__file__).parent / "runner.c"
_ENTRY_POINTS = ["fetch", "launch", "fetch_on_worker"]

NAME, (_, _, DATA) = next(iter(CUBINS.items()))
GOOD, ABSENT, OTHER_DIGEST = range(3)
_KERNELS = [
    (f"/home/builder/cubins/{NAME}", sha256(DATA)),
    ("/home/builder/cubins/Bmm_absent.cubin", sha256(DATA)),
    (f"/home/builder/cubins/{NAME}", "0" * 64),
]


def compile_runner(folder: Path, *options: str) -> bytes:
    """The bytes of a runner; TVMFFI* symbols stay undefined, as in the real one."""
    import tvm_ffi.libinfo

    kernels = ", ".join(f'{{"{path}", "{digest}"}}' for path, digest in _KERNELS)
    command = ["cc", "-shared", "-fPIC", "-O1", f"-DKERNELS={kernels}", "-o", folder / "runner.so"]
    command += [f"-I{path}" for path in tvm_ffi.libinfo.include_paths()]
    subprocess.run([*command, _SOURCE, *options, "-pthread"], check=True, capture_output=True)
    return (folder / "runner.so").read_bytes()


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Package:
    folder = tmp_path_factory.mktemp("native")
    return bundle(folder, compile_runner(folder), _ENTRY_POINTS)


def bundle(folder: Path, runner: bytes, entry_points: list[str]) -> Package:
    package = assemble(folder / "project", runner)
    manifest = package.manifest
    manifest["runner"]["ffi_symbols"] = entry_points
    package.write_manifest(manifest)
    return package


def run(package: Package, code: str, **environment: str) -> str:
    """The output of ``code``, which has the package as ``situ`` and its loader as ``loader``."""
    head = f"""
import sys; sys.path.insert(0, {str(package.project)!r})
import {package.name} as situ
from {package.name} import loader
def error(function, *args):
    try:
        return function(*args)
    except Exception as error:
        return f"{{type(error).__name__}}: {{error}}"
"""
    result = subprocess.run(
        [sys.executable, "-c", head + code],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={"PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1", **environment},
    )
    assert result.returncode == 0, f"exit {result.returncode}: {result.stderr}"
    return result.stdout


@pytest.mark.parametrize("entry_point", _ENTRY_POINTS)
def test_a_bad_request_surfaces_and_does_not_stick(package: Package, entry_point: str) -> None:
    """On the caller's thread, with the runner failing as well, and on a worker of the runner."""
    output = run(
        package,
        f"""
for kernel in ({ABSENT}, {GOOD}, {OTHER_DIGEST}, {GOOD}):
    print(error(loader.call, {entry_point!r}, kernel))
print(situ.raise_last_callback_error())
""",
    )
    absent, good, other, good_again, nothing = output.splitlines()
    assert absent.startswith(
        "BundleError: cubin callback failed: Bmm_absent.cubin: the runner asks"
    )
    assert other.startswith(f"BundleError: cubin callback failed: {NAME}: the runner was compiled")
    assert good == good_again == str(sum(DATA))
    assert nothing == "None"


def test_the_callback_lives_as_long_as_the_runner(package: Package) -> None:
    """The runner holds a bare pointer: collecting garbage must not take what it points to."""
    output = run(
        package,
        f"""
import gc
fetch = situ.load_raw_module().fetch
for _ in range(3):
    gc.collect(); junk = [bytes(100) for _ in range(10_000)]
    assert fetch({GOOD}) == {sum(DATA)}
    assert loader.call("fetch_on_worker", {GOOD}) == {sum(DATA)}
print("alive")
""",
    )
    assert output == "alive\n"


def test_many_threads_get_their_own_results(package: Package) -> None:
    output = run(
        package,
        f"""
from concurrent.futures import ThreadPoolExecutor
wanted = {{{GOOD}: {str(sum(DATA))!r}, {ABSENT}: "Bmm_absent.cubin", {OTHER_DIGEST}: "another"}}
def one(number):
    kernel = number % 3
    return wanted[kernel] in str(error(loader.call, "launch", kernel))
with ThreadPoolExecutor(8) as pool:
    results = list(pool.map(one, range(600)))
print(all(results), len(results), situ.raise_last_callback_error())
""",
    )
    assert output == "True 600 None\n"


def test_an_unresolved_function_is_an_error_not_the_end_of_the_process(tmp_path: Path) -> None:
    """apache-tvm-ffi alone binds lazily: exit code 127 at the first call, no exception."""
    package = bundle(tmp_path, compile_runner(tmp_path, "-DUNDEFINED_FUNCTION"), _ENTRY_POINTS)
    output = run(package, "print(error(situ.load_raw_module))")
    assert "undefined symbol: TVMFFINoSuchSymbol" in output
    assert "no loaded library defines TVMFFINoSuchSymbol" in output
    assert "needs apache-tvm-ffi >=0.1.12,<0.2, found apache-tvm-ffi 0." in output


@pytest.mark.parametrize(
    ("soname", "reason"),
    [
        ("libsynthetic_runtime.so.13", "is the CUDA 13 runtime: import a torch that is built for"),
        ("libsynthetic_driver.so.1", "belongs to the NVIDIA driver: use a host that has one"),
        ("libsynthetic_else.so.7", "the host has no libsynthetic_else.so.7"),
    ],
)
def test_a_missing_library_is_named(tmp_path: Path, soname: str, reason: str) -> None:
    stub = tmp_path / soname
    command = ["cc", "-shared", f"-Wl,-soname,{soname}", "-o", stub, "-xc", "/dev/null"]
    subprocess.run(command, check=True)
    runner = compile_runner(tmp_path, "-Wl,--no-as-needed", str(stub))
    package = bundle(tmp_path, runner, _ENTRY_POINTS)
    package.edit(
        runtime_dependencies={
            "cuda_runtime_soname": "libsynthetic_runtime.so.13",
            "cuda_driver_soname": "libsynthetic_driver.so.1",
        }
    )
    output = run(package, "print(error(situ.load_raw_module))")
    assert f"{soname}: cannot open shared object file" in output
    assert reason in output
    found = run(package, "print(loader.call('fetch', 0))", LD_LIBRARY_PATH=str(tmp_path))
    assert found == f"{sum(DATA)}\n"


def test_a_c_library_that_the_manifest_knows_to_be_too_old(tmp_path: Path) -> None:
    """Said beside the loader's own first complaint, which is about something else."""
    package = assemble(tmp_path / "project", b"not a library")
    manifest = package.manifest
    manifest["runner"]["minimum_versions"] = {"GLIBC": "9.38", "GLIBCXX": "3.4.32"}
    package.write_manifest(manifest)
    output = run(package, "print(error(situ.load_raw_module))")
    assert output.startswith("BundleError: cannot open ")
    assert "file too short" in output or "invalid ELF header" in output
    assert "the runner needs GLIBC 9.38, this host has 2." in output


def test_symbols_stay_apart_from_other_libraries(package: Package) -> None:
    """Not even the C functions of the runner become visible to the rest of the process."""
    output = run(
        package,
        """
import ctypes
situ.load_raw_module()
print(hasattr(ctypes.CDLL(None), "FlashInferSetCubinCallback"))
""",
    )
    assert output == "False\n"
