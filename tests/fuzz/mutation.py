"""Ways to damage an input. ``chance`` alone decides, so that a seed repeats a run."""

from __future__ import annotations

import io
import struct
import zipfile
from random import Random

from tests.synth.wheel import record_of

WORDS = (0, 1, 2, 3, 7, 8, 16, 24, 64, 0x7F, 0xFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 1 << 40, 1 << 63)

PIECES = (
    *(b"", b"{", b"}", b"[", b"]", b"};\n", b'"', b",", b"=", b":", b"_", b"x", b"/", b"../"),
    *(b"\n", b"\r\n", b"  ", b"\0", b"\xff", b"\xed\xa0\x80", b"\\ud800", b"/* mA */ "),
    *(b"null", b"true", b"NaN", b"1e999", b"-0", b"9" * 5000, b"[" * 5000, b'{"a":' * 2000),
)


def words(data: bytes, chance: Random) -> bytes:
    """One to eight numbers overwritten, most of them in headers and tables; sometimes a cut."""
    changed = bytearray(data)
    for _ in range(chance.randint(1, 8)):
        place = chance.choice(
            (
                chance.randrange(64),
                chance.randrange(len(data)),
                chance.randrange(len(data) // 8) * 8,
                len(data) - 1 - chance.randrange(min(1800, len(data))),
            )
        )
        numbers = (*WORDS, chance.getrandbits(64), len(data), chance.randrange(len(data)))
        size = chance.choice((1, 2, 4, 8))
        changed[place : place + size] = struct.pack("<Q", chance.choice(numbers))[:size]
    if chance.random() < 0.2:
        start = chance.randrange(len(data))
        del changed[start : start + chance.randrange(100)]
    return bytes(changed)


def pieces(data: bytes, chance: Random) -> bytes:
    """One to four pieces replaced by others, moved, doubled or cut out."""
    changed = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        start = chance.randrange(len(changed) + 1)
        end = min(len(changed), start + chance.choice((0, 1, 1, 4, 20, 400)))
        source = chance.randrange(len(changed) + 1)
        changed[start:end] = chance.choice(
            (
                chance.choice(PIECES),
                chance.randbytes(chance.randrange(8)),
                bytes(changed[source : source + chance.randrange(200)]),
            )
        )
    return bytes(changed)


def members(data: bytes, chance: Random) -> bytes:
    """A zip with one member damaged, renamed, doubled or taken out; or damaged as a whole.

    A wheel's RECORD then fits again in half of the cases, so that readers go on behind it.
    """
    if chance.random() < 0.3:
        return chance.choice((words, pieces))(data, chance)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    name = chance.choice(list(files))
    change = chance.choice((words, pieces, pieces, None))
    if change is not None:
        files[name] = change(files[name] or bytes(64), chance)
    elif chance.random() < 0.5:
        del files[name]
    else:
        spelling = pieces(name.encode(), chance).decode("latin-1")[:60000]
        files[spelling] = files.pop(name)
    record = next((name for name in files if name.endswith("/RECORD")), None)
    if record is not None and chance.random() < 0.5:
        del files[record]
        files[record] = record_of(files, record.rpartition("/")[0])
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", chance.choice((0, zipfile.ZIP_DEFLATED))) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name or "x"), content)
        if chance.random() < 0.1:
            archive.writestr(zipfile.ZipInfo(name or "x"), b"again")
    return written.getvalue()
