"""The imitated driver: tensor maps, handles and images, called as the stubs call it."""

from __future__ import annotations

import ctypes

import pytest

from situ_release.errors import HostError
from situ_release.smoke.rehearsal.fake_cuda import (
    INVALID_HANDLE,
    INVALID_IMAGE,
    NOT_FOUND,
    SUCCESS,
    UNKNOWN,
    FakeCuda,
)
from situ_release.smoke.rehearsal.memory import DeviceMemory
from situ_release.smoke.rehearsal.parameters import EmbeddedCode
from tests.synth.elf import Kernel, make_cubin, make_runner

BFLOAT16, FOUR_BITS = 9, 14
"""CUtensorMapDataType."""

BIG = 1 << 31


def words(*values: int) -> ctypes.Array[ctypes.c_uint64]:
    return (ctypes.c_uint64 * len(values))(*values)


@pytest.fixture
def memory() -> DeviceMemory:
    return DeviceMemory()


@pytest.fixture
def cuda(memory: DeviceMemory) -> FakeCuda:
    return FakeCuda(memory, EmbeddedCode(make_runner(table=()), "runner.so", 103), 103, 148)


def encode(cuda: FakeCuda, kind: int, address: int, sizes: list[int], strides: list[int]) -> bytes:
    tensor_map = ctypes.create_string_buffer(b"\xff" * 128)
    held = words(*sizes), words(*strides)
    arguments = words(
        ctypes.addressof(tensor_map), kind, len(sizes), address, *map(ctypes.addressof, held)
    )
    assert cuda._listen(b"cuTensorMapEncodeTiled", arguments) == SUCCESS
    return tensor_map.raw[:128]


def test_a_tensor_map_carries_its_address(cuda: FakeCuda, memory: DeviceMemory) -> None:
    block = memory.allocate("x", 3 * 64 * 2)
    found = encode(cuda, BFLOAT16, block.address, [64, 3], [128])
    assert found == block.address.to_bytes(8, "little") + bytes(120)
    assert cuda.outside == []


@pytest.mark.parametrize(
    ("kind", "sizes", "strides", "last"),
    [
        (BFLOAT16, [64, 3], [128], 383),
        (BFLOAT16, [64, 3], [256], 639),
        (FOUR_BITS, [64, 3, 2], [32, 96], 191),
    ],
)
def test_a_tensor_map_may_not_leave_its_allocation(
    cuda: FakeCuda,
    memory: DeviceMemory,
    kind: int,
    sizes: list[int],
    strides: list[int],
    last: int,
) -> None:
    encode(cuda, kind, memory.allocate("exact", last + 1).address, sizes, strides)
    assert cuda.outside == []
    encode(cuda, kind, memory.allocate("short", last).address, sizes, strides)
    wrong = f"tensor map: bytes 0 to {last} of short, which has {last} bytes"
    assert cuda.outside == [wrong]


def test_extents_that_the_kernel_bounds_are_not_checked(
    cuda: FakeCuda, memory: DeviceMemory
) -> None:
    strides = [768, (1 << 36) - 768, 768]
    encode(cuda, BFLOAT16, memory.allocate("x", 768).address, [384, 8, BIG, BIG], strides)
    assert cuda.outside == []
    encode(cuda, BFLOAT16, memory.allocate("x", 768).address + 768, [384, 8, BIG, BIG], strides)
    assert len(cuda.outside) == 1


def test_images_and_handles(cuda: FakeCuda) -> None:
    handle = ctypes.c_uint64()
    held = [
        ctypes.create_string_buffer(data)
        for data in (make_cubin(kernels=[Kernel("k", parameters=(8,))]), b"empty", b"k", b"other")
    ]
    cubin, nonsense, kernel, other = map(ctypes.addressof, held)
    result = ctypes.addressof(handle)
    assert cuda._listen(b"cuModuleLoadData", words(result, 0)) == INVALID_IMAGE
    assert cuda._listen(b"cuModuleLoadData", words(result, nonsense)) == INVALID_IMAGE
    assert cuda._listen(b"cuModuleGetFunction", words(result, 1, kernel)) == INVALID_HANDLE
    assert cuda._listen(b"cuModuleLoadData", words(result, cubin)) == SUCCESS
    module = handle.value
    assert cuda._listen(b"cuModuleGetFunction", words(result, module, other)) == NOT_FOUND
    assert cuda._listen(b"cuModuleGetFunction", words(result, module, kernel)) == SUCCESS
    assert cuda._listen(b"cuLaunchKernelEx", words(12345, 0)) == INVALID_HANDLE
    assert cuda._listen(b"__cudaLaunchKernel", words(12345, 0)) == INVALID_HANDLE
    assert cuda.launches == []
    assert cuda.failure is None


def test_a_kernel_of_the_runner_must_have_code_for_the_device(cuda: FakeCuda) -> None:
    name = ctypes.create_string_buffer(b"finalize")
    assert cuda._listen(b"__cudaRegisterFunction", words(7, ctypes.addressof(name))) == SUCCESS
    assert cuda._listen(b"cudaLaunchKernelExC", words(7, 0)) == NOT_FOUND


def test_what_is_not_imitated_is_kept_as_the_failure(cuda: FakeCuda) -> None:
    assert cuda._listen(b"cudaMemsetAsync", words(0)) == UNKNOWN
    assert isinstance(cuda.failure, HostError)
    assert "cudaMemsetAsync" in str(cuda.failure)
    cuda.restart()
    assert cuda.failure is None


def test_the_claimed_device(cuda: FakeCuda) -> None:
    value = ctypes.c_int()
    for attribute, expected in ((75, 10), (76, 3), (16, 148)):
        arguments = words(ctypes.addressof(value), attribute, 0)
        assert cuda._listen(b"cudaDeviceGetAttribute", arguments) == SUCCESS
        assert value.value == expected
    assert cuda._listen(b"cudaDeviceGetAttribute", words(ctypes.addressof(value), 97, 0)) == 1
