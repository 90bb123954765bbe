"""DLPack tensors of invented device memory, for the runner's arguments and its allocations.

What is handed out stays alive until its deleter is called.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from situ_release.smoke.dlpack import (
    ALLOCATOR,
    DELETER,
    DLManagedTensor,
    DLManagedTensorVersioned,
    DLTensor,
    row_major,
    set_allocator,
)
from situ_release.smoke.rehearsal.memory import Allocation, DeviceMemory

CUDA = 2
"""kDLCUDA."""


class ElementType(NamedTuple):
    """DLPack's type code and width in bits."""

    code: int
    bits: int


INT32 = ElementType(0, 32)
UINT8 = ElementType(1, 8)
FLOAT32 = ElementType(2, 32)
BFLOAT16 = ElementType(4, 16)
FLOAT8_E4M3FN = ElementType(10, 8)


_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)

_lent: dict[int, tuple[Any, Callable[[], None]]] = {}


def _take_back(address: int) -> None:
    _, release = _lent.pop(address)
    release()


_deleter = DELETER(_take_back)


class DeviceTensor:
    """A contiguous tensor in invented memory, accepted wherever a DLPack producer is.

    Attributes:
        shape: sizes, in elements.
        element: the element type.
        allocation: its memory.
    """

    def __init__(
        self, memory: DeviceMemory, name: str, element: ElementType, shape: Sequence[int]
    ) -> None:
        self.shape = tuple(shape)
        self.element = element
        self.allocation = memory.allocate(name, _bytes(element, shape))

    def __dlpack__(self, **_: Any) -> Any:
        """A capsule "dltensor"; the consumer never frees the memory."""
        address = _lend(DLManagedTensor(), self.allocation, self.element, self.shape, _nothing)
        return _new_capsule(address, b"dltensor", None)

    def __dlpack_device__(self) -> tuple[int, int]:
        """CUDA device 0."""
        return (CUDA, 0)


class EnvironmentAllocator:
    """The allocator that TVM-FFI gives to runners, on invented memory.

    Keep the object as long as runners may allocate: TVM-FFI holds the bare C pointer.

    Attributes:
        count: number of allocations since :meth:`restart`.
    """

    def __init__(self, memory: DeviceMemory) -> None:
        self._memory = memory
        self._function = ALLOCATOR(self._allocate)
        self.count = 0

    def install(self) -> None:
        """Make it the allocator of this process."""
        set_allocator(self._function)

    def restart(self) -> None:
        """Count from 0, for the names of what a call allocates."""
        self.count = 0

    def _allocate(self, prototype: Any, result: Any, context: object, set_error: object) -> int:
        wanted = prototype.contents
        shape = wanted.sizes
        element = ElementType(wanted.code, wanted.bits)
        self.count += 1
        allocation = self._memory.allocate(
            f"the runner's allocation {self.count} of shape {list(shape)}", _bytes(element, shape)
        )
        managed = DLManagedTensorVersioned(major=1)

        def release() -> None:
            self._memory.free(allocation)

        result[0] = _lend(managed, allocation, element, shape, release)
        return 0


def _lend(
    managed: DLManagedTensor | DLManagedTensorVersioned,
    allocation: Allocation,
    element: ElementType,
    shape: tuple[int, ...],
    release: Callable[[], None],
) -> int:
    """Fill a managed tensor, keep it until its deleter is called, and give its address."""
    sizes, strides = row_major(shape)
    managed.deleter = _deleter
    managed.tensor = DLTensor(
        allocation.address, CUDA, 0, len(shape), element.code, element.bits, 1, sizes, strides, 0
    )
    address = ctypes.addressof(managed)
    _lent[address] = ((managed, sizes, strides), release)
    return address


def _bytes(element: ElementType, shape: Sequence[int]) -> int:
    return math.prod(shape) * element.bits // 8


def _nothing() -> None:
    """The caller keeps the memory."""
