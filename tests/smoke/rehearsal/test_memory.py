"""Invented memory and the tensors in it."""

from __future__ import annotations

import ctypes

from situ_release.smoke.dlpack import (
    ALLOCATOR,
    SET_ERROR,
    DLManagedTensor,
    DLManagedTensorVersioned,
    DLTensor,
)
from situ_release.smoke.rehearsal.dlpack import (
    BFLOAT16,
    UINT8,
    DeviceTensor,
    EnvironmentAllocator,
)
from situ_release.smoke.rehearsal.memory import TAG, DeviceMemory

GIB = 1 << 30


def test_each_allocation_has_addresses_of_its_own() -> None:
    memory = DeviceMemory()
    first, second = memory.allocate("a", 100), memory.allocate("b", 0)
    assert first.address == (TAG + 1) << 32
    assert second.address == (TAG + 2) << 32
    assert memory.owner(first.address + 99) is first
    assert memory.fault(first.address + 99) is None
    assert memory.fault(first.address, 100) is None
    assert memory.fault(second.address) is None


def test_an_address_outside_says_of_what() -> None:
    memory = DeviceMemory()
    first, second = memory.allocate("a", 100), memory.allocate("b", 16)
    assert memory.fault(first.address + 100) == "byte 100 of a, which has 100 bytes"
    assert memory.fault(first.address + 64, 64) == "bytes 64 to 127 of a, which has 100 bytes"
    assert memory.fault(second.address - 8) == "byte 4,294,967,288 of a, which has 100 bytes"
    below, behind = first.address - 1, second.address + (1 << 32)
    assert memory.fault(below) == f"0x{below:x} belongs to no allocation"
    assert memory.fault(behind) == f"0x{behind:x} belongs to no allocation"
    memory.free(first)
    assert memory.fault(first.address) == "byte 0 of a, which was freed"


def test_allocations_beyond_4_gib_take_more_room() -> None:
    memory = DeviceMemory()
    large, next_one = memory.allocate("large", 9 * GIB), memory.allocate("next", 1)
    assert memory.fault(large.address + 9 * GIB - 1) is None
    assert memory.fault(large.address + 9 * GIB) is not None
    assert memory.owner(large.address + 9 * GIB) is large
    assert memory.owner(next_one.address) is next_one


def test_numbers_of_a_runner_are_no_addresses() -> None:
    memory = DeviceMemory()
    memory.allocate("a", 1)
    for word in (0, 896, (3584 << 32) | 4096, (1 << 64) - 1, 0x7FFF_FFFF_0000, 1 << 47):
        assert not memory.is_address(word)
    assert memory.is_address(TAG << 32)
    assert memory.is_address((TAG + 1000) << 32)


def test_a_tensor_is_a_dlpack_producer() -> None:
    memory = DeviceMemory()
    tensor = DeviceTensor(memory, "x", BFLOAT16, (3, 5))
    assert tensor.__dlpack_device__() == (2, 0)
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    capsule = tensor.__dlpack__(stream=None)
    managed = DLManagedTensor.from_address(pointer(capsule, b"dltensor"))
    seen = managed.tensor
    assert (seen.data, seen.device_type, seen.ndim) == (tensor.allocation.address, 2, 2)
    assert (seen.code, seen.bits, seen.lanes) == (4, 16, 1)
    assert (seen.shape[:2], seen.strides[:2]) == ([3, 5], [5, 1])
    assert tensor.allocation.size == 30
    managed.deleter(ctypes.addressof(managed))
    assert tensor.allocation.live


def test_the_allocator_gives_memory_and_takes_it_back() -> None:
    memory = DeviceMemory()
    allocator = EnvironmentAllocator(memory)
    shape = (ctypes.c_int64 * 2)(7, 9)
    wanted = DLTensor(None, 2, 0, 2, UINT8.code, UINT8.bits, 1, shape, None, 0)
    result = ctypes.c_void_p()
    function = ctypes.cast(allocator._function, ALLOCATOR)
    assert function(ctypes.byref(wanted), ctypes.byref(result), None, SET_ERROR()) == 0
    assert allocator.count == 1
    managed = DLManagedTensorVersioned.from_address(result.value or 0)
    assert managed.major == 1
    owner = memory.owner(managed.tensor.data)
    assert owner is not None
    assert (owner.name, owner.size) == ("the runner's allocation 1 of shape [7, 9]", 63)
    assert managed.tensor.strides[:2] == [9, 1]
    managed.deleter(ctypes.addressof(managed))
    assert not owner.live
