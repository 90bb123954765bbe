"""What a runner library says about itself, on synthetic files."""

from __future__ import annotations

import base64
import hashlib
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from situ_release.errors import InputError
from situ_release.sources.embedded_paths import find_paths, mask_paths
from situ_release.sources.kernel_table import KernelTable, read_kernel_table
from situ_release.sources.runner import Runner, UndefinedSymbol, read_runner
from situ_release.sources.symbol_versions import VersionDemand, minimum_versions
from tests.synth.elf import Undefined, make_cubin, make_fatbin, make_runner

TABLE = [(f"bmm_kernel_number_{index}_sm103a", f"{index:064x}") for index in range(40)]


def runner(**options: object) -> Runner:
    return read_runner(make_runner(**options), "runner.so")  # type: ignore[arg-type]


def test_needs_and_names() -> None:
    found = runner(needed=("libcudart.so.13", "libcuda.so.1"), soname="librunner.so")
    assert found.needed == ("libcudart.so.13", "libcuda.so.1", "libc.so.6", "libstdc++.so.6")
    assert (found.soname, found.rpath, found.runpath) == ("librunner.so", None, None)
    found = runner(rpath="/opt/cuda/lib64", runpath="$ORIGIN")
    assert (found.soname, found.rpath, found.runpath) == (None, "/opt/cuda/lib64", "$ORIGIN")


def test_exports() -> None:
    found = runner(ffi_symbols=["moe", "get_configs"], c_symbols=["FlashInferSetCubinCallback"])
    assert found.ffi_exports == {"moe", "get_configs"}
    assert found.exports == {
        "__tvm_ffi_moe",
        "__tvm_ffi_get_configs",
        "FlashInferSetCubinCallback",
    }


def test_versions_and_who_demands_them() -> None:
    found = runner(
        versions={
            "libc.so.6": ("GLIBC_2.2.5", "GLIBC_2.4", "GLIBC_2.38", "GLIBC_ABI_DT_RELR"),
            "libstdc++.so.6": ("GLIBCXX_3.4.9", "GLIBCXX_3.4.32", "CXXABI_1.3.9"),
        },
        undefined=["strtol@GLIBC_2.38", "abort@GLIBC_2.2.5", "strtoul@GLIBC_2.38"],
    )
    assert found.minimum_versions == {"GLIBC": "2.38", "GLIBCXX": "3.4.32", "CXXABI": "1.3.9"}
    demands = {demand.version: demand for demand in found.version_demands}
    assert demands["GLIBC_2.38"] == VersionDemand("GLIBC_2.38", "libc.so.6", ("strtol", "strtoul"))
    assert demands["GLIBC_ABI_DT_RELR"].symbols == ()
    assert len(demands) == 7


def test_versions_are_ordered_as_numbers() -> None:
    assert minimum_versions(["GLIBC_2.9", "GLIBC_2.38", "GLIBC_2.4"]) == {"GLIBC": "2.38"}
    assert minimum_versions(["GLIBC_PRIVATE", "GCC_3.0", "libcudart.so.13"]) == {}


def test_undefined_symbols() -> None:
    found = runner(
        undefined=[
            "TVMFFINoSuchSymbol",
            "printf@GLIBC_2.2.5",
            Undefined("missingData", kind="object"),
            Undefined("__gmon_start__", weak=True, kind="object"),
        ]
    )
    assert found.undefined == (
        UndefinedSymbol("TVMFFINoSuchSymbol", None, None, weak=False, kind="function"),
        UndefinedSymbol("printf", "GLIBC_2.2.5", "libc.so.6", weak=False, kind="function"),
        UndefinedSymbol("missingData", None, None, weak=False, kind="object"),
        UndefinedSymbol("__gmon_start__", None, None, weak=True, kind="object"),
    )
    assert [symbol.name for symbol in found.unprovided] == ["TVMFFINoSuchSymbol", "missingData"]


@pytest.mark.parametrize(("stack", "executable"), [(False, False), (True, True), (None, True)])
def test_stack(stack: bool | None, executable: bool) -> None:
    assert runner(exec_stack=stack).executable_stack is executable


def test_build_id_and_compilers() -> None:
    found = runner(build_id="0123456789abcdef", compiler="GCC: 13\0clang 19\0GCC: 13")
    assert (found.build_id, found.compilers) == ("0123456789abcdef", ("GCC: 13", "clang 19"))
    found = runner(build_id=None, compiler=None)
    assert (found.build_id, found.compilers) == (None, ())


def test_machine_and_type() -> None:
    assert runner().is_x86_64_shared_object
    other = runner(machine=183)
    assert (other.is_x86_64_shared_object, other.machine_name) == (False, "AArch64")
    assert not runner(elf_type=2).is_x86_64_shared_object


def test_device_code() -> None:
    found = runner(fatbin=make_fatbin(make_cubin("a"), make_cubin("b")))
    assert [module.target for module in found.device_modules] == ["sm_103a", "sm_103a"]


def test_paths_and_their_masks() -> None:
    found = runner(
        strings=[
            "/home/jane/work/csrc/runner.cu",
            "failed at /home/jane/.venv-jane/lib/python3.12/site.h:17",
            "/builds/janet/jane/moe.cu",
            "/usr/include/c++/13/bits/stl.h",
            "csrc/a/b/c.cu",
            "https://example.org/a/b/c",
            "/dev/null",
            "/stray/bytes",
            "/home/jane",
        ],
        table=TABLE,
    )
    assert found.embedded_paths == (
        "/builds/janet/jane/moe.cu",
        "/home/jane",
        "/home/jane/.venv-jane/lib/python3.12/site.h",
        "/home/jane/work/csrc/runner.cu",
    )
    assert found.masked_paths() == (
        "/builds/janet/<user>/moe.cu",
        "/home/<user>",
        "/home/<user>/.venv-<user>/lib/python3.12/site.h",
        "/home/<user>/work/csrc/runner.cu",
    )


def test_masking_without_a_user_changes_nothing() -> None:
    assert mask_paths(["/builds/team/x.cu"]) == ("/builds/team/x.cu",)
    assert mask_paths(["/home/jo/a", "/home/joe/a", "/Users/joe.x/b"]) == (
        "/home/<user>/a",
        "/home/<user>/a",
        "/Users/<user>/b",
    )


def test_paths_at_the_edges_of_a_block() -> None:
    assert find_paths([b"/a1/b/c", b"x/a2/b/c", b"\0/a3/b/c\0/a4/b"]) == ("/a1/b/c", "/a3/b/c")


# --- the kernel table --------------------------------------------------------------------------


def test_the_table_in_its_order() -> None:
    table = runner(table=TABLE).kernel_table
    assert table.pairs == tuple(TABLE)
    assert table.count == 40
    assert table.digest_of(TABLE[7][0]) == TABLE[7][1]
    assert table.digest_of("bmm_unknown") is None
    assert read_kernel_table(make_runner(table=TABLE), "r") == table


def test_the_digest_of_a_table_is_that_of_its_checksum_lines() -> None:
    table = KernelTable((("b", "1" * 64), ("a", "2" * 64)))
    text = f"{'1' * 64}  b\n{'2' * 64}  a\n"
    assert table.sha256 == hashlib.sha256(text.encode()).hexdigest()
    assert KernelTable(tuple(reversed(table.pairs))).sha256 != table.sha256


def test_a_library_without_a_table() -> None:
    assert runner().kernel_table.pairs == ()


def test_every_alignment_between_name_and_digest() -> None:
    for length in range(1, 18):
        name = "b" + "m" * length
        assert runner(table=[(name, "a" * 64)]).kernel_table.pairs == ((name, "a" * 64),)


def test_strings_that_are_no_pair() -> None:
    digest = "f" * 64
    strings = ["lonely", digest.upper(), "short", digest[:-1], "long", digest + "f", "two words"]
    assert runner(strings=[*strings, digest]).kernel_table.pairs == ()


def test_a_pair_that_occurs_twice_counts_once() -> None:
    assert runner(table=[*TABLE, TABLE[3]]).kernel_table.pairs == tuple(TABLE)


def test_one_name_with_two_digests() -> None:
    with pytest.raises(InputError) as caught:
        runner(table=[("bmm_a", "1" * 64), ("bmm_b", "1" * 64), ("bmm_a", "2" * 64)])
    (problem,) = caught.value.problems
    assert "bmm_a" in problem.expected
    assert "2" * 64 in problem.found


def test_nearly_a_table_is_read_in_linear_time() -> None:
    block = (b"x" * 5000 + b"\0" + b"0" * 64) * 300
    assert read_runner(make_runner(large_data=block), "r").kernel_table.pairs == ()


# --- other shapes ------------------------------------------------------------------------------


def test_without_section_headers_the_facts_are_the_same() -> None:
    data = make_runner(
        table=TABLE,
        undefined=["TVMFFIx", "printf@GLIBC_2.2.5"],
        fatbin=make_fatbin(make_cubin()),
        strings=["/home/jane/work/csrc/runner.cu"],
        rpath="/x",
    )
    bare = data[:40] + bytes(8) + data[48:60] + bytes(4) + data[64:]
    whole, stripped = read_runner(data, "r"), read_runner(bare, "r")
    for name in Runner.__slots__:
        if name not in ("compilers", "device_modules", "stripped"):
            assert getattr(whole, name) == getattr(stripped, name), name
    assert stripped.stripped
    assert stripped.compilers == ()
    assert [item.payload for item in stripped.device_modules] == [
        item.payload for item in whole.device_modules
    ]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"#!/bin/sh\necho runner\n", "text beginning '#!/bin/sh'"),
        (b"", "empty file"),
        (b"version https://git-lfs.github.com/spec/v1\n", "git-LFS pointer"),
    ],
)
def test_what_is_no_library(data: bytes, words: str) -> None:
    with pytest.raises(InputError) as caught:
        read_runner(data, "lib/runner.so")
    assert words in caught.value.problems[0].found


def test_a_cubin_in_the_runner_s_place_is_no_shared_object() -> None:
    found = read_runner(make_cubin(), "r")
    assert not found.is_x86_64_shared_object
    assert found.machine_name == "NVIDIA CUDA"
    assert found.exports == frozenset()


# --- the synthetic library itself --------------------------------------------------------------


def test_the_loader_opens_a_synthetic_runner(tmp_path: Path) -> None:
    path = tmp_path / "r.so"
    path.write_bytes(
        make_runner(
            ["f"], needed=["libc.so.6"], versions={"libc.so.6": ["GLIBC_2.2.5"]},
            undefined=["printf@GLIBC_2.2.5"], table=TABLE,
        )
    )  # fmt: skip
    code = f"import ctypes; print(ctypes.CDLL({str(path)!r}).__tvm_ffi_f())"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (result.returncode, result.stdout) == (0, "0\n"), result.stderr


@pytest.mark.slow
def test_auditwheel_repairs_a_wheel_with_a_synthetic_runner(tmp_path: Path) -> None:
    files = {
        "pkg/__init__.py": b"",
        "pkg/lib/runner.so": make_runner(table=TABLE),
        "pkg/k.cubin": make_cubin(),
        "pkg-1.dist-info/METADATA": b"Metadata-Version: 2.1\nName: pkg\nVersion: 1\n",
        "pkg-1.dist-info/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: false\n"
        b"Tag: py3-none-linux_x86_64\n",
    }
    record = "".join(
        f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip('=')}"
        f",{len(data)}\n"
        for name, data in files.items()
    )
    wheel = tmp_path / "pkg-1-py3-none-linux_x86_64.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
        archive.writestr("pkg-1.dist-info/RECORD", record + "pkg-1.dist-info/RECORD,,\n")
    command = [sys.executable, "-m", "auditwheel", "repair", "--plat", "manylinux_2_28_x86_64"]
    command += ["--only-plat", "--exclude", "libcudart.so.13", "--exclude", "libcuda.so.1"]
    search = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    result = subprocess.run(
        [*command, "-w", str(tmp_path / "out"), str(wheel)],
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": search},
    )
    assert result.returncode == 0, result.stderr
    (repaired,) = (tmp_path / "out").glob("*.whl")
    assert repaired.name == "pkg-1-py3-none-manylinux_2_28_x86_64.whl"
    with zipfile.ZipFile(repaired) as archive:
        assert archive.read("pkg/lib/runner.so") == files["pkg/lib/runner.so"]
