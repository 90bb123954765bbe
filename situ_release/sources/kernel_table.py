"""The table of kernels compiled into a runner: which names it may ask for, with which SHA-256.

A runner carries each kernel's name and the SHA-256 its cubin must have as two NUL-terminated
strings, one after the other, in the order of the compiled table. What it will ask for is therefore
known without loading it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from situ_release.errors import InputError, Problem
from situ_release.sources.elf import read_elf
from situ_release.sources.fatbin import FATBIN_SECTIONS, data_blocks

# A look-ahead, because the NUL that ends one pair may be the NUL before the next digest.
_DIGEST = re.compile(rb"\0([0-9a-f]{64})(?=\0)")
_NAME = re.compile(rb"[A-Za-z_][A-Za-z0-9_]*")
_LONGEST_NAME = 1024
_ALIGNMENT = 8  # compilers align strings, so up to seven NULs more lie between name and digest


@dataclass(frozen=True)
class KernelTable:
    """Kernel names and SHA-256 digests, in table order.

    Attributes:
        pairs: ``(kernel name, 64 hex digits)``.
    """

    pairs: tuple[tuple[str, str], ...] = field(repr=False)

    @property
    def count(self) -> int:
        """How many kernels the table has."""
        return len(self.pairs)

    @cached_property
    def sha256(self) -> str:
        r"""SHA-256 of the table: the UTF-8 lines ``<digest>  <name>\n`` in table order."""
        lines = "".join(f"{digest}  {name}\n" for name, digest in self.pairs)
        return hashlib.sha256(lines.encode()).hexdigest()

    @cached_property
    def digests(self) -> Mapping[str, str]:
        """Digest by kernel name."""
        return dict(self.pairs)

    def digest_of(self, name: str) -> str | None:
        """The SHA-256 that the cubin of that kernel must have; ``None`` for an unknown kernel."""
        return self.digests.get(name)


def read_kernel_table(data: bytes, where: str) -> KernelTable:
    """The kernel table of a runner library; empty when it has none.

    Raises:
        InputError: not an ELF file, or a name with two digests.
    """
    elf = read_elf(data, where)
    return find_kernel_table(
        (
            data[offset : offset + size]
            for section, offset, size in data_blocks(elf)
            if section not in FATBIN_SECTIONS
        ),
        where,
    )


def find_kernel_table(blocks: Iterable[bytes], where: str) -> KernelTable:
    """The table in blocks of data; a pair that occurs again (another source file) counts once.

    Raises:
        InputError: a name with two digests.
    """
    digests: dict[str, str] = {}
    problems = []
    for block in blocks:
        for name, digest in _pairs(block):
            if digests.setdefault(name, digest) != digest:
                problems.append(
                    Problem(
                        "the kernel table names one kernel with two digests",
                        where,
                        expected=f"one SHA-256 for {name}",
                        found=f"{digests[name]} and {digest}",
                        remedy="build the runner from one metadata header",
                    )
                )
    if problems:
        raise InputError(*problems)
    return KernelTable(tuple(digests.items()))


def _pairs(block: bytes) -> Iterator[tuple[str, str]]:
    for match in _DIGEST.finditer(block):
        end = match.start() + 1
        start = max(0, end - _ALIGNMENT - _LONGEST_NAME)
        before = block[start:end]
        text = before.rstrip(b"\0")
        _, separator, name = text.rpartition(b"\0")
        aligned = len(before) - len(text) <= _ALIGNMENT
        if aligned and (separator or start == 0) and _NAME.fullmatch(name):
            yield name.decode("ascii"), match.group(1).decode("ascii")
