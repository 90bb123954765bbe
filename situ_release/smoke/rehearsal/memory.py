"""Invented device memory: addresses that belong to no memory and tell whose they are.

Allocation i begins at ``(TAG + i) << 32``. So any 64-bit word in a kernel's parameters that is a
device address can be recognised, attributed to its allocation and checked against its bounds, and
addresses are never used twice: one that points into freed memory is seen as well.
"""

from __future__ import annotations

from dataclasses import dataclass

TAG = 0x53495455
"""Upper half of the first address: no sensible integer parameter, and no address of a host."""

_SLOT_BITS = 32
_MOST_SLOTS = 1 << 20


@dataclass(slots=True)
class Allocation:
    """One block of invented memory: ``size`` bytes from ``address``."""

    name: str
    address: int
    size: int
    live: bool = True


class DeviceMemory:
    """All invented memory of a process."""

    def __init__(self) -> None:
        # By slot of 4 GiB; the first stays free, so that addresses below an allocation are seen.
        self._slots: list[Allocation | None] = [None]

    def allocate(self, name: str, size: int) -> Allocation:
        """Invent a block.

        Args:
            name: what to call it in a report.
            size: in bytes, may be 0.
        """
        allocation = Allocation(name, (TAG + len(self._slots)) << _SLOT_BITS, size)
        self._slots += [allocation] * ((size >> _SLOT_BITS) + 1)
        return allocation

    def free(self, allocation: Allocation) -> None:
        """Take a block back: from now on no address may point into it."""
        allocation.live = False

    def is_address(self, word: int) -> bool:
        """Whether a 64-bit word is an invented address, valid or not."""
        return 0 <= (word >> _SLOT_BITS) - TAG < _MOST_SLOTS

    def owner(self, address: int) -> Allocation | None:
        """The allocation that an address is counted from; ``None`` in front of all and behind."""
        slot = (address >> _SLOT_BITS) - TAG
        return self._slots[slot] if 0 <= slot < len(self._slots) else None

    def fault(self, address: int, size: int = 1) -> str | None:
        """Why ``size`` bytes from an address are not all inside one live allocation.

        An address inside an empty allocation can only be its beginning.

        Returns:
            Words for a report; ``None`` where nothing is wrong.
        """
        owner = self.owner(address)
        if owner is None:
            return f"0x{address:x} belongs to no allocation"
        offset = address - owner.address
        if not owner.live:
            return f"byte {offset:,} of {owner.name}, which was freed"
        if offset + size > max(owner.size, 1):
            end = f"byte {offset:,}" if size == 1 else f"bytes {offset:,} to {offset + size - 1:,}"
            return f"{end} of {owner.name}, which has {owner.size:,} bytes"
        return None
