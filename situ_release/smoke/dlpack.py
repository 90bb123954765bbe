"""DLPack's structures, and TVM-FFI's environment allocator, by ctypes.

Source: ``dlpack.h`` 1.1 and ``tvm/ffi/extra/c_env_api.h`` of apache-tvm-ffi 0.1.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from typing import Any

DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
SET_ERROR = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)


class DLTensor(ctypes.Structure):
    """``DLTensor``; strides and shape are in elements."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )

    @property
    def sizes(self) -> tuple[int, ...]:
        """The shape."""
        return tuple(self.shape[: self.ndim])

    @property
    def bytes(self) -> int:
        """Size of the content."""
        return math.prod(self.sizes) * int(self.bits) * int(self.lanes) // 8


class DLManagedTensor(ctypes.Structure):
    """``DLManagedTensor``."""

    _fields_ = (("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", DELETER))


class DLManagedTensorVersioned(ctypes.Structure):
    """``DLManagedTensorVersioned``."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", DELETER),
        ("flags", ctypes.c_uint64),
        ("tensor", DLTensor),
    )


ALLOCATOR = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.POINTER(DLTensor),
    ctypes.POINTER(ctypes.c_void_p),
    ctypes.c_void_p,
    SET_ERROR,
)
"""``DLPackManagedTensorAllocator``: prototype, result, error context, error function."""


def row_major(shape: Sequence[int]) -> tuple[ctypes.Array[ctypes.c_int64], ...]:
    """The arrays that a :class:`DLTensor` without gaps points to; it does not keep them alive.

    Args:
        shape: sizes, in elements.

    Returns:
        The shape and the strides, in elements.
    """
    extents = ctypes.c_int64 * max(len(shape), 1)
    strides = (math.prod(shape[axis + 1 :]) for axis in range(len(shape)))
    return extents(*shape), extents(*strides)


def set_allocator(function: Any) -> None:
    """Give this thread and process an allocator; the caller keeps it alive.

    Args:
        function: an :data:`ALLOCATOR`.
    """
    import tvm_ffi

    core = ctypes.CDLL(tvm_ffi.libinfo.find_libtvm_ffi())
    core.TVMFFIEnvSetDLPackManagedTensorAllocator(function, 1, None)


Place = Callable[[DLTensor], tuple[int, Callable[[], None]]]
"""Finds room for a prototype: its address, and what to do when it is given back."""


class EnvironmentAllocator:
    """An allocator for what runners ask TVM-FFI's environment for.

    Keep the object as long as runners may allocate or free: TVM-FFI holds bare C pointers.

    Args:
        place: finds room.
    """

    def __init__(self, place: Place) -> None:
        self._place = place
        self._lent: dict[int, tuple[Sequence[Any], Callable[[], None]]] = {}
        self._deleter = DELETER(self._give_back)
        self._function = ALLOCATOR(self._allocate)

    @property
    def lent(self) -> int:
        """Allocations that were not given back yet."""
        return len(self._lent)

    def install(self) -> None:
        """Make it the allocator of this thread and process.

        A call with torch tensors among its arguments still uses torch's.
        """
        set_allocator(self._function)

    def _allocate(self, prototype: Any, result: Any, context: Any, set_error: Any) -> int:
        try:
            result[0] = self._lend(prototype.contents)
        except Exception as error:  # noqa: BLE001 - nothing may be raised into native code
            set_error(context, b"RuntimeError", str(error).encode())
            return -1
        return 0

    def _lend(self, prototype: DLTensor) -> int:
        address, release = self._place(prototype)
        shape, strides = row_major(prototype.sizes)
        managed = DLManagedTensorVersioned(major=1, deleter=self._deleter)
        managed.tensor = DLTensor(
            address,
            prototype.device_type,
            prototype.device_id,
            prototype.ndim,
            prototype.code,
            prototype.bits,
            prototype.lanes,
            shape,
            strides,
        )
        key = ctypes.addressof(managed)
        self._lent[key] = ((managed, shape, strides), release)
        return key

    def _give_back(self, address: int) -> None:
        _, release = self._lent.pop(address)
        release()
