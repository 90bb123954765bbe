"""What the GPU executes and reads in a cubin, as one digest.

Two cubins with the same device code behave the same on the GPU even where their relocations,
symbol tables or debug data differ (two builds for different hosts, for example), so that evidence
from running one holds for the other.
"""

from __future__ import annotations

import hashlib
import struct

from situ_release.sources.elf import Elf

_PREFIXES = (".text.", ".nv.constant", ".nv.info", ".nv.shared", ".nv.global")


def is_device_code(section_name: str) -> bool:
    """Whether a section of that name is executed or read by the GPU or the driver's launch."""
    return section_name.startswith(_PREFIXES)


def device_code_sha256(elf: Elf) -> str:
    """SHA-256 over what the GPU executes or reads in a cubin.

    That is the sections ``.text.*``, ``.nv.constant*``, ``.nv.info*``, ``.nv.shared*`` and
    ``.nv.global*``. Hashed is, for each of them in the order of their names (then of the file): the
    name, a NUL, the size as a 64-bit little-endian number, one byte that is 1 where the section has
    content in the file and 0 where it is only reserved memory, and the content. The order of
    sections, their offsets and everything else in the file have no influence.
    """
    digest = hashlib.sha256()
    chosen = (section for section in elf.sections if is_device_code(section.name))
    for section in sorted(chosen, key=lambda section: section.name):
        digest.update(section.name.encode() + b"\0")
        digest.update(struct.pack("<QB", section.size, section.stored))
        if section.stored:
            digest.update(elf.data[section.offset : section.offset + section.size])
    return digest.hexdigest()
