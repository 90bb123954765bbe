"""Memory with guards on both sides: whoever writes beyond an allocation changes one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch  # noqa: TID253 - is the memory

from situ_release.smoke.dlpack import DLTensor

GUARD_BYTES = 1 << 20
"""On each side of an allocation. A multiple of every alignment that kernels ask for."""

GUARD_FILL = 0xAB


@dataclass(frozen=True, slots=True)
class Damage:
    """What was changed beside an allocation.

    Attributes:
        allocation: what it is, in words.
        side: "before" or "after" it.
        bytes: how many bytes of the guard were changed.
        nearest: distance of the nearest changed byte from the allocation; 0 is the adjacent one.
    """

    allocation: str
    side: str
    bytes: int
    nearest: int

    def __str__(self) -> str:
        return (
            f"{self.bytes} bytes {self.side} {self.allocation}, "
            f"the nearest {self.nearest} bytes away"
        )


@dataclass(frozen=True, slots=True)
class _Block:
    name: str
    memory: torch.Tensor
    bytes: int

    @property
    def content(self) -> torch.Tensor:
        return self.memory[GUARD_BYTES : GUARD_BYTES + self.bytes]

    def damage(self) -> Iterator[Damage]:
        before = self.memory[:GUARD_BYTES].flip(0)
        after = self.memory[GUARD_BYTES + self.bytes :]
        for side, guard in (("before", before), ("after", after)):
            changed = (guard != GUARD_FILL).nonzero()
            if len(changed):
                yield Damage(self.name, side, len(changed), int(changed[0]))


class GuardedMemory:
    """Allocations of one call; they live until the object does, whatever becomes of the tensors.

    Args:
        device: a torch device.
        fill: the byte that allocations begin with; 0xff is a NaN in bfloat16, float32 and E4M3.
    """

    def __init__(self, device: str, fill: int) -> None:
        self._device = device
        self._fill = fill
        self._blocks: list[_Block] = []
        self.placed: list[int] = []
        """Bytes of each allocation of the runner's, in order."""

    def tensor(self, name: str, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        """A guarded tensor."""
        block = self._block(name, math.prod(shape) * dtype.itemsize)
        return block.content.view(dtype).view(*shape)

    def place(self, prototype: DLTensor) -> tuple[int, Callable[[], None]]:
        """Room for an allocation of the runner's (:data:`situ_release.smoke.dlpack.Place`)."""
        self.placed.append(prototype.bytes)
        name = (
            f"allocation {len(self.placed)} of {prototype.bytes} bytes "
            f"(shape {list(prototype.sizes)}, {prototype.bits} bits)"
        )
        return self._block(name, prototype.bytes).content.data_ptr(), lambda: None

    def damage(self) -> list[Damage]:
        """Guards that were changed; the device must be idle."""
        return [damage for block in self._blocks for damage in block.damage()]

    def _block(self, name: str, size: int) -> _Block:
        memory = torch.full(
            (size + 2 * GUARD_BYTES,), GUARD_FILL, dtype=torch.uint8, device=self._device
        )
        block = _Block(name, memory, size)
        block.content.fill_(self._fill)
        self._blocks.append(block)
        return block
