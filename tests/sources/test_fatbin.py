"""Device code embedded in host libraries."""

from __future__ import annotations

import re
import struct
import zipfile
from pathlib import Path

import pytest

from situ_release.errors import InputError
from situ_release.sources.cubin import read_cubin
from situ_release.sources.elf import read_elf
from situ_release.sources.fatbin import DeviceModule, device_modules
from situ_release.sources.sm_target import runs_on, target_name
from tests.conftest import fetch
from tests.sources.cuda_tools import nvcc, packaged_tool, run
from tests.synth.elf import make_cubin, make_fatbin, make_header_only_cubin, make_runner

PTX = "//\n.version 9.0\n.target sm_103a\n.address_size 64\n"


def modules(data: bytes) -> tuple[DeviceModule, ...]:
    return device_modules(read_elf(data, "runner.so"))


def found(data: bytes) -> str:
    with pytest.raises(InputError) as caught:
        modules(data)
    (problem,) = caught.value.problems
    assert problem.where.startswith("runner.so")
    return problem.found


def test_cubins_and_ptx_in_a_fatbin() -> None:
    cubin = make_cubin("one")
    data = make_runner(fatbin=make_fatbin(cubin, PTX) + bytes(8) + make_fatbin(make_cubin("two")))
    first, ptx, second = modules(data)
    assert (first.kind, first.target, first.container) == ("cubin", "sm_103a", "fatbin")
    assert first.section == ".nv_fatbin"
    assert data[first.offset : first.offset + len(cubin)] == cubin
    assert first.payload.startswith(cubin)
    assert first.device_code_sha256 == read_cubin(cubin, "k").device_code_sha256
    assert (ptx.kind, ptx.target, ptx.device_code_sha256) == ("ptx", "compute_103", None)
    assert second.device_code_sha256 != first.device_code_sha256
    assert second.payload_sha256 != first.payload_sha256


def test_raw_images_in_a_data_section() -> None:
    one, two = make_cubin("one", sm=100), make_cubin("two", sm=103, arch_specific=False)
    data = make_runner(large_data=b"\1" * 40 + one + b"\2" * 8 + two + b"\3" * 100)
    found_modules = modules(data)
    assert [(item.target, item.container, item.section) for item in found_modules] == [
        ("sm_100a", "raw", ".lrodata"),
        ("sm_103", "raw", ".lrodata"),
    ]
    assert [item.payload for item in found_modules] == [one, two]


def test_a_host_image_in_data_is_no_device_code() -> None:
    assert modules(make_runner(large_data=make_runner())) == ()


def test_a_library_without_device_code() -> None:
    assert modules(make_runner()) == ()


def test_device_code_is_found_without_section_headers() -> None:
    data = make_runner(fatbin=make_fatbin(make_cubin()), large_data=make_header_only_cubin(100))
    stripped = without_sections(data)
    assert [item.target for item in modules(stripped)] == ["sm_103a", "sm_100"]
    assert [item.payload for item in modules(stripped)] == [item.payload for item in modules(data)]


def without_sections(data: bytes) -> bytes:
    """As ``sstrip`` leaves it: no section table."""
    return data[:40] + bytes(8) + data[48:60] + bytes(4) + data[64:]


def compressed_entry(kind: int, sm: int, flags: int, size: int = 96) -> bytes:
    """A fatbin with one compressed entry, padded as fatbinary does."""
    header = struct.pack(
        "<HHIQIIHHIIIQQQ", kind, 0x101, 64, size, size - 3, 64, 8, 1, sm, 0, 0, flags, 0, 4096
    )
    return (
        struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 64 + size)
        + header
        + b"\x28\xb5\x2f\xfd" * (size // 4)
    )


@pytest.mark.parametrize(
    ("kind", "flags", "name", "target"),
    [
        (2, 0x108011, "cubin", "sm_90a"),
        (2, 0x208011, "cubin", "sm_90f"),
        (2, 0x8011, "cubin", "sm_90"),
        (2, 0x102011, "cubin", "sm_90a"),
        (1, 0x2011, "ptx", "compute_90"),
        (8, 0x118011, "lto-ir", "compute_90a"),
        (64, 0x8011, "kind 64", "compute_90"),
    ],
)
def test_compressed_entries_tell_by_their_header(
    kind: int, flags: int, name: str, target: str
) -> None:
    (module,) = modules(make_runner(fatbin=compressed_entry(kind, 90, flags)))
    assert (module.kind, module.target, module.compressed) == (name, target, True)
    assert len(module.payload) == 93
    assert module.device_code_sha256 is None


def test_damaged_containers() -> None:
    good = make_fatbin(make_cubin())
    assert "leaves its section" in found(make_runner(fatbin=good[:-8]))
    assert "no fatbin container" in found(make_runner(fatbin=b"garbage!" + good))
    assert "no fatbin container" in found(make_runner(fatbin=good + b"garbage!"))
    assert "no fatbin container" in found(make_runner(fatbin=b"garbage!"))
    entry = bytearray(good)
    entry[16 + 4 : 16 + 8] = struct.pack("<I", 8)
    assert "leaves its container" in found(make_runner(fatbin=bytes(entry)))
    entry = bytearray(good)
    entry[16 + 8 : 16 + 16] = struct.pack("<Q", 1 << 60)
    assert "leaves its container" in found(make_runner(fatbin=bytes(entry)))
    cut = struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 32) + bytes(32)
    assert "cut-off fatbin entry" in found(make_runner(fatbin=cut))


def test_a_truncated_image_is_an_error_not_a_gap() -> None:
    assert "ends at byte" in found(make_runner(large_data=make_cubin()[:-100]))


@pytest.mark.parametrize(
    ("sm", "suffix", "any_later", "devices"),
    [
        (103, "a", False, {103}),
        (103, "a", True, {103}),
        (100, "f", False, {100, 103}),
        (100, "f", True, {100, 103}),
        (100, "", False, {100, 103}),
        (103, "", False, {103}),
        (90, "", True, {90, 100, 103, 120}),
        (80, "", False, {80, 86, 89}),
    ],
)
def test_which_devices_run_it(sm: int, suffix: str, any_later: bool, devices: set[int]) -> None:
    known = (75, 80, 86, 89, 90, 100, 103, 120)
    assert {item for item in known if runs_on(sm, suffix, item, any_later=any_later)} == devices


def test_modules_know_their_devices() -> None:
    cubin, ptx = modules(make_runner(fatbin=make_fatbin(make_cubin(), PTX)))
    assert [cubin.runs_on(100), cubin.runs_on(103)] == [False, True]
    assert [ptx.runs_on(100), ptx.runs_on(120)] == [False, True]
    assert target_name(103, "a") == "sm_103a"


# --- built and published libraries ------------------------------------------------------------

SOURCE = """
__global__ void k(float* y) { y[threadIdx.x] *= 2.0f; }
void f(float* y) { k<<<1, 32>>>(y); }
"""


@pytest.mark.nvcc
@pytest.mark.network
@pytest.mark.parametrize("compression", ["--no-compress", "-Xfatbin=-compress-all"])
def test_built_libraries_against_cuobjdump(compression: str, tmp_path: Path) -> None:
    source, library = tmp_path / "k.cu", tmp_path / "k.so"
    source.write_text(SOURCE)
    targets = [
        "arch=compute_90a,code=sm_90a",
        "arch=compute_100f,code=sm_100f",
        "arch=compute_103a,code=[sm_103a,compute_103a]",
        "arch=compute_120,code=[sm_120,compute_120]",
    ]
    options = [f"-gencode={target}" for target in targets]
    nvcc("-shared", "-Xcompiler", "-fPIC", *options, compression, "-o", library, source)
    ours = modules(library.read_bytes())
    code = [item for item in ours if item.section == ".nv_fatbin"]
    assert {item.compressed for item in code} == {compression != "--no-compress"}
    cubins = [item for item in code if item.kind == "cubin"]
    ptx = [item for item in code if item.kind == "ptx"]
    assert {item.target for item in cubins} == {"sm_90a", "sm_100f", "sm_103a", "sm_120"}
    assert {item.target for item in ptx} == {"compute_103a", "compute_120"}
    # cuobjdump leaves the "f" out.
    program = packaged_tool("cuobjdump")
    listed = re.findall(r"\.(sm_\w+)\.cubin", run(program, "-lelf", library))
    assert sorted(item.target.rstrip("f") for item in cubins) == sorted(listed)
    listed = re.findall(r"\.(sm_\w+)\.ptx", run(program, "-lptx", library))
    assert sorted(f"sm_{item.sm}{item.suffix}" for item in ptx) == sorted(listed)


@pytest.mark.network
@pytest.mark.parametrize("platform", ["x86_64", "aarch64"])
def test_a_published_aot_module(platform: str) -> None:
    assert [item.target for item in aot_modules(platform)] == ["sm_100a", "sm_103a"]


@pytest.mark.network
def test_device_code_of_two_host_platforms_is_equal() -> None:
    ours, theirs = aot_modules("x86_64"), aot_modules("aarch64")
    for one, other in zip(ours, theirs, strict=True):
        assert one.payload != other.payload
        assert one.device_code_sha256 == other.device_code_sha256
        assert one.device_code_sha256 is not None


AOT_WHEELS = {
    "x86_64": "154559e357c105aecbd51192a692a39f5b71de4337ff72b12390c90eef9b8c75",
    "aarch64": "9ebb5b3f22eda2bb39b9eab856c648c338f89b162edf65e4f6b88e5b9b398631",
}


def aot_modules(platform: str) -> tuple[DeviceModule, ...]:
    """The device code of a published module whose cubins lie in ``.lrodata`` or ``.rodata``."""
    wheel = fetch(
        "tokenspeed-cutedsl-kda==0.1.0.post20260923",
        AOT_WHEELS[platform],
        f"manylinux_2_17_{platform}",
    )
    with zipfile.ZipFile(wheel) as archive:
        return modules(archive.read("tokenspeed_cutedsl_kda/objs/libkda.so"))
