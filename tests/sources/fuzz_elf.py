"""A bounded fuzz run over the binary readers: ``python -m tests.sources.fuzz_elf [secs] [seed]``.

Mutates synthetic cubins and runners where it hurts (headers, tables, whole words) and expects facts
or an InputError for each, soon. The seed is printed; with it a run repeats.
"""

from __future__ import annotations

import random
import struct
import sys
import time

from tests.sources.test_elf_robustness import CUBIN, RUNNER, survives
from tests.synth.elf import make_cubin, make_header_only_cubin

SEEDS = (CUBIN, RUNNER, make_cubin("k", sm=90, abi=7), make_header_only_cubin(filler=bytes(256)))
WORDS = (0, 1, 2, 3, 7, 8, 16, 24, 64, 0x7F, 0xFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 1 << 40, 1 << 63)
SLOWEST = 2.0
"""Seconds that one input of a few kilobytes may take at most."""


def mutated(chance: random.Random) -> bytes:
    """One of the seeds with one to eight words overwritten, sometimes shortened or shifted."""
    data = bytearray(chance.choice(SEEDS))
    for _ in range(chance.randint(1, 8)):
        place = chance.choice(
            (
                chance.randrange(64),
                chance.randrange(len(data)),
                chance.randrange(len(data) // 8) * 8,
                len(data) - 1 - chance.randrange(min(1800, len(data))),
            )
        )
        word = chance.choice(
            (*WORDS, chance.getrandbits(64), len(data), chance.randrange(len(data)))
        )
        size = chance.choice((1, 2, 4, 8))
        data[place : place + size] = struct.pack("<Q", word)[:size]
    if chance.random() < 0.2:
        start = chance.randrange(len(data))
        del data[start : start + chance.randrange(100)]
    return bytes(data)


def main(seconds: float = 30, seed: int | None = None) -> None:
    seed = random.randrange(1 << 32) if seed is None else seed
    chance = random.Random(seed)
    end = time.monotonic() + seconds
    count = 0
    slowest = 0.0
    while time.monotonic() < end:
        data = mutated(chance)
        start = time.monotonic()
        try:
            survives(data)
        except BaseException:
            sys.stderr.write(f"seed {seed}, input {count}: {data.hex()}\n")
            raise
        slowest = max(slowest, time.monotonic() - start)
        assert slowest < SLOWEST, f"seed {seed}, input {count} took {slowest:.1f} s"
        count += 1
    sys.stdout.write(f"binaries: {count:,} inputs, slowest {slowest * 1000:.0f} ms, seed {seed}\n")


if __name__ == "__main__":
    arguments = sys.argv[1:]
    main(
        float(arguments[0]) if arguments else 30,
        int(arguments[1]) if len(arguments) > 1 else None,
    )
