"""Runner libraries as compilers and linkers really make them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from situ_release.sources.runner import Runner, read_runner

pytestmark = pytest.mark.gcc

LAZY = """
extern "C" int TVMFFINoSuchSymbol(int);
extern "C" int __tvm_ffi_call(int x) { return TVMFFINoSuchSymbol(x); }
"""
EAGER = """
extern int no_such_variable;
extern "C" int* __tvm_ffi_address() { return &no_such_variable; }
"""
TABLE = "".join(
    f'{{"bmm_kernel_{index}_with_a_name_of_some_length_sm103a", "{index:064x}"}},'
    for index in range(300)
)
WITH_TABLE = f"""
#include <cstdio>
struct Entry {{ const char* name; const char* digest; }};
static const Entry entries[] = {{ {TABLE} }};
extern "C" void __tvm_ffi_list() {{
    for (const Entry& entry : entries) std::printf("%s %s", entry.name, entry.digest);
}}
"""


def build(folder: Path, source: str, *options: str) -> Path:
    (folder / "r.cpp").write_text(source)
    output = folder / "r.so"
    command = ["c++", "-shared", "-fPIC", "-O2", "r.cpp", "-o", "r.so", *options]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return output


def read(path: Path) -> Runner:
    return read_runner(path.read_bytes(), str(path))


def load_and_call(path: Path, name: str) -> subprocess.CompletedProcess[str]:
    """Open lazily, as module loaders do, and call."""
    code = (
        "import ctypes, os\n"
        f"library = ctypes.CDLL({str(path)!r}, mode=os.RTLD_LAZY)\n"
        "print('loaded', flush=True)\n"
        f"library.{name}(1)\n"
    )
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


def test_a_missing_function_shows_at_its_call_only(tmp_path: Path) -> None:
    path = build(tmp_path, LAZY, "-Wl,-z,lazy")
    (symbol,) = read(path).unprovided
    assert (symbol.name, symbol.kind) == ("TVMFFINoSuchSymbol", "function")


def test_a_missing_variable_shows_at_loading(tmp_path: Path) -> None:
    path = build(tmp_path, EAGER)
    (symbol,) = read(path).unprovided
    assert (symbol.name, symbol.kind) == ("no_such_variable", "object")
    result = load_and_call(path, "__tvm_ffi_address")
    assert "loaded" not in result.stdout
    assert "no_such_variable" in result.stderr


def test_a_function_bound_at_loading_is_no_lazy_one(tmp_path: Path) -> None:
    (symbol,) = read(build(tmp_path, LAZY, "-fno-plt")).unprovided
    assert symbol.kind == "object"


@pytest.mark.parametrize("options", [[], ["-s"], ["-Wl,--hash-style=sysv"]])
def test_a_compiled_table(options: list[str], tmp_path: Path) -> None:
    runner = read(build(tmp_path, WITH_TABLE, *options))
    assert dict(runner.kernel_table.pairs) == {
        f"bmm_kernel_{index}_with_a_name_of_some_length_sm103a": f"{index:064x}"
        for index in range(300)
    }
    assert runner.ffi_exports == {"list"}
    assert runner.stripped == ("-s" in options)
    assert runner.compilers
    assert not runner.executable_stack


@pytest.mark.parametrize("style", ["gnu", "sysv"])
def test_symbols_are_counted_without_section_headers(style: str, tmp_path: Path) -> None:
    path = build(tmp_path, WITH_TABLE, f"-Wl,--hash-style={style}")
    data = path.read_bytes()
    bare = data[:40] + bytes(8) + data[48:60] + bytes(4) + data[64:]
    whole, stripped = read(path), read_runner(bare, "bare")
    assert stripped.exports == whole.exports
    assert stripped.undefined == whole.undefined
    assert stripped.kernel_table == whole.kernel_table


def test_linker_options(tmp_path: Path) -> None:
    runner = read(
        build(
            tmp_path, WITH_TABLE, "-Wl,-z,execstack", "-Wl,-soname,librunner.so",
            "-Wl,--enable-new-dtags", "-Wl,-rpath,/opt/somewhere", "-Wl,--build-id=0xabcdef",
        )
    )  # fmt: skip
    assert runner.executable_stack
    assert (runner.soname, runner.rpath, runner.runpath) == ("librunner.so", None, "/opt/somewhere")
    assert runner.build_id == "abcdef"


@pytest.mark.skipif(shutil.which("readelf") is None, reason="readelf is not on the PATH")
def test_needed_versions_against_readelf(tmp_path: Path) -> None:
    path = build(tmp_path, WITH_TABLE)
    printed = subprocess.run(
        ["readelf", "--wide", "--version-info", str(path)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    listed = {line.split()[2] for line in printed.splitlines() if " Flags: " in line}
    assert {demand.version for demand in read(path).version_demands} == listed
