"""``flashInferMetaInfo.h``: the same table for attention kernels, in another C++ form.

Its entries are brace lists of plain values in the order of a struct that stands before them
(flashinfer-cubin 0.6.13: 13,452 entries of 37 values). Only what every pool has is read: name,
SHA-256, SM, shared memory and threads. There is no declared length.
"""

from __future__ import annotations

import re

from situ_release.digests import sha256_bytes
from situ_release.errors import InputError
from situ_release.sources.faults import Faults, shown
from situ_release.sources.metadata_table import (
    MetadataEntry,
    MetadataHeader,
    header_problem,
    index_entries,
)

ARRAY = "sTllmGenFmhaKernelMetaInfos[] = {\n"
"""What begins the table; headers of other pools do not have it."""

_LIST_NAME = "sTllmGenFmhaKernelMetaInfos"
_NEEDED = ("mFuncName", "sha256", "mSharedMemBytes", "mThreadsPerCTA", "mSM")
_STRUCT = re.compile(r"^struct TllmGenFmhaKernelMetaInfo\n\{\n([^{}]{0,10000})\};", re.MULTILINE)
_ROW = re.compile(r"([^\n]*)(?:\n|\Z)")
_MEMBER = re.compile(r"\b(\w+);")
_ENTRY = re.compile(r"\{ ([^{}\n]*)\},?")
_NUMBER = re.compile("[0-9]{1,9}")
_SM = re.compile(r"kSM_([0-9]{2,3})f?")
_SM_OF_NAME = re.compile(r"fmhaSm([0-9]{2,3}[af]?)Kernel_")


def read_fmha_header(data: bytes, text: str, where: str) -> MetadataHeader:
    """Read an fmha pool's metadata header.

    Args:
        data: the file's bytes.
        text: the same, decoded.
        where: the name used in errors.

    Raises:
        InputError: no struct with the needed members, an entry that is garbage or cut off, a name
            twice, a digest that is none: all at once, with line numbers.
    """
    faults = Faults(where)
    struct = _STRUCT.search(text)
    members = _MEMBER.findall(struct[1]) if struct else []
    if missing := [name for name in _NEEDED if name not in members]:
        expected = f"struct TllmGenFmhaKernelMetaInfo with {', '.join(_NEEDED)}"
        found = f"none with {', '.join(missing)}"
        raise InputError(header_problem("not an fmha metadata header", where, expected, found))
    start = text.index(ARRAY) + len(ARRAY)
    first = text.count("\n", 0, start) + 1
    entries = []
    for line, row in enumerate((match[1] for match in _ROW.finditer(text, start)), first):
        if row == "};":
            break
        entry = _read_row(row, members, line)
        if entry is None:
            expected = f"an entry of {len(members)} values whose name and SM agree, or '}};'"
            place = f"{where}:{line}"
            faults.add(header_problem("malformed entry", place, expected, repr(shown(row, 60))))
        else:
            entries.append(entry)
    else:
        faults.add(
            header_problem("truncated metadata header", where, "'};'", "the end of the file")
        )
    by_name = index_entries(entries, where, faults)
    faults.raise_any()
    return MetadataHeader(
        where, sha256_bytes(data), _LIST_NAME, None, None, tuple(entries), by_name
    )


def _read_row(row: str, members: list[str], line: int) -> MetadataEntry | None:
    """One entry; None where it is malformed or its SM is not the one in the name."""
    match = _ENTRY.fullmatch(row)
    values = match[1].split(", ") if match else []
    if len(values) != len(members):
        return None
    value = dict(zip(members, values, strict=True))
    name = value["mFuncName"].strip('"')
    sm, sm_of_name = _SM.fullmatch(value["mSM"]), _SM_OF_NAME.match(name)
    memory, threads = value["mSharedMemBytes"], value["mThreadsPerCTA"]
    numbers = (memory, threads)
    if not all(_NUMBER.fullmatch(text) for text in numbers) or sm is None or sm_of_name is None:
        return None
    if sm[1] != sm_of_name[1].rstrip("af"):
        return None
    return MetadataEntry(
        name=name,
        sha256=value["sha256"].strip('"'),
        sm=f"sm{sm_of_name[1]}",
        shared_memory_bytes=int(memory),
        threads=int(threads),
        line=line,
    )
