"""What a cubin says about itself, on synthetic files."""

from __future__ import annotations

import struct

import pytest

from situ_release.errors import InputError
from situ_release.sources.cubin import CubinKernel, Toolchain, read_cubin
from tests.synth.elf import Kernel, make_cubin, make_header_only_cubin, make_runner

NAME = "bmm_Bfloat16_synthetic_sm103a"


def test_every_fact_of_a_cubin() -> None:
    cubin = read_cubin(make_cubin(NAME), "k.cubin")
    assert (cubin.sm, cubin.arch_specific, cubin.abi_version) == (103, True, 8)
    assert cubin.toolchain == Toolchain("ptxas", "13.1", "V13.1.80", "-v -arch sm_100f -m 64")
    assert cubin.toolkit == "13.1"
    assert cubin.kernels == (
        CubinKernel(NAME, registers=168, shared_memory_bytes=1024, max_threads=384),
        CubinKernel(f"{NAME}GetSmemSize", 8, 1024, None),
    )
    assert not cubin.has_line_info
    assert cubin.embedded_paths == ()


@pytest.mark.parametrize("sm", [75, 90, 100, 103, 120])
@pytest.mark.parametrize("arch_specific", [True, False])
@pytest.mark.parametrize("abi", [7, 8])
def test_sm_in_both_layouts(sm: int, arch_specific: bool, abi: int) -> None:
    cubin = read_cubin(make_cubin(NAME, sm=sm, arch_specific=arch_specific, abi=abi), "k")
    assert (cubin.sm, cubin.arch_specific, cubin.abi_version) == (sm, arch_specific, abi)


@pytest.mark.parametrize("arch_specific", [True, False])
def test_cuda_12_9_marks_the_architecture_in_the_header(arch_specific: bool) -> None:
    data = make_cubin(NAME, arch_specific=arch_specific, compat_record=False)
    assert read_cubin(data, "k").arch_specific is arch_specific


def test_absent_records_are_absent_facts() -> None:
    kernel = Kernel("k", registers=None, shared_memory_bytes=0, max_threads=None)
    data = make_cubin(kernels=[kernel], arch_specific=None, toolchain=None, toolkit=None)
    cubin = read_cubin(data, "k")
    assert cubin.kernels == (CubinKernel("k", None, 0, None),)
    assert cubin.arch_specific is None
    assert cubin.toolchain is None
    assert cubin.toolkit is None


def test_a_cubin_of_cuda_12_names_its_toolkit_in_the_header() -> None:
    data = make_cubin(NAME, sm=90, abi=7, toolchain=None, toolkit=None)
    assert read_cubin(data, "k").toolkit == "12.6"


def test_a_cubin_without_sections_has_no_kernels() -> None:
    cubin = read_cubin(make_header_only_cubin(sm=100, filler=b"abcd"), "k")
    assert (cubin.sm, cubin.kernels, cubin.toolchain) == (100, (), None)
    assert len(cubin.device_code_sha256) == 64


def test_device_functions_are_no_kernels() -> None:
    data = make_cubin(kernels=["entry", "helper"])
    row = data.index(struct.pack("<BB", 0x12, 0x10), data.index(struct.pack("<BB", 0x12, 0x10)) + 1)
    data = data[: row + 1] + b"\0" + data[row + 2 :]
    assert [kernel.name for kernel in read_cubin(data, "k").kernels] == ["entry"]


def test_a_banner_in_other_words_keeps_the_producer() -> None:
    data = make_cubin(toolchain=("newtool", "x", "y", "  -a   -b "))
    assert read_cubin(data, "k").toolchain == Toolchain("newtool", "", "", "-a -b")


def test_line_info_brings_the_source_path() -> None:
    cubin = read_cubin(make_cubin(source_path="/home/jane/src/kernels/moe.cu"), "k")
    assert cubin.has_line_info
    assert cubin.embedded_paths == ("/home/jane/src/kernels/moe.cu",)


def test_device_code_digest_ignores_relocations_and_notes() -> None:
    one = read_cubin(make_cubin(NAME), "k")
    other = read_cubin(make_cubin(NAME, relocation_seed=7, toolchain=None), "k")
    assert bytes(one.elf.data) != bytes(other.elf.data)
    assert one.device_code_sha256 == other.device_code_sha256


@pytest.mark.parametrize(
    "changed",
    [
        make_cubin(NAME, seed=1),
        make_cubin(NAME + "x"),
        make_cubin(NAME, kernels=[Kernel(NAME), Kernel(f"{NAME}GetSmemSize", 9, 1024, None)]),
        make_cubin(NAME, kernels=[Kernel(NAME), Kernel(f"{NAME}GetSmemSize", 8, 2048, None)]),
        make_cubin(NAME, kernels=[Kernel(NAME), Kernel(f"{NAME}GetSmemSize", 8, 1024, 32)]),
        make_cubin(NAME, kernels=[Kernel(NAME)]),
    ],
    ids=["code", "name", "registers", "shared memory", "threads", "kernels"],
)
def test_device_code_digest_sees(changed: bytes) -> None:
    original = read_cubin(make_cubin(NAME), "k").device_code_sha256
    assert read_cubin(changed, "k").device_code_sha256 != original


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (make_runner(), "an ELF shared object for x86-64"),
        (b"version https://git-lfs.github.com/spec/v1\n", "git-LFS pointer"),
        (b"", "empty file"),
        (make_cubin(seed=3).replace(b"\n", b"\r\n"), "text-mode copy"),
        (b"<html></html>", "HTML page"),
    ],
)
def test_what_is_no_cubin(data: bytes, words: str) -> None:
    with pytest.raises(InputError) as caught:
        read_cubin(data, "pool/k.cubin")
    (problem,) = caught.value.problems
    assert problem.where == "pool/k.cubin"
    assert words in problem.found


def test_every_truncation_is_an_input_error() -> None:
    data = make_cubin(NAME)
    for length in range(0, len(data), 61):
        with pytest.raises(InputError):
            read_cubin(data[:length], "k")


def test_kernels_of_one_name_are_refused_before_their_sections_are_read_again() -> None:
    data = make_cubin(kernels=["k"] * 3)
    with pytest.raises(InputError, match="two kernels of one name, k"):
        read_cubin(data, "k")


def test_the_producer_and_its_options_are_printable() -> None:
    data = make_cubin(toolchain=("\x1b[31m", "x", "y", "-a\u202e"))
    assert read_cubin(data, "k").toolchain == Toolchain(r"\x1b[31m", "", "", r"-a\u202e")
