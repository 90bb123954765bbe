"""A bounded fuzz run over text readers and zips: ``python -m tests.sources.fuzz_text [s] [seed]``.

Mutates headers, checksums, kernel names, markers and zipped pools, and expects an answer or a
complete InputError for each, soon. The seed is printed; with it a run repeats.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

from situ_release.sources.checksums import read_checksums
from situ_release.sources.kernel_name import parse
from situ_release.sources.kernel_options import check_options
from situ_release.sources.marker import parse_marker
from situ_release.sources.metadata_header import read_header
from situ_release.sources.pool import open_pools
from tests.sources.attempt import attempt, is_complete
from tests.sources.test_marker import MARKER
from tests.sources.test_metadata_header import BARE_TEXT, FMHA, FULL_TEXT
from tests.synth.pool import KERNELS, make_pool

PARTS = (
    b"",
    b"{",
    b"}",
    b"};\n",
    b'"',
    b"\n",
    b"\r\n",
    b"/* mA */ ",
    b"_",
    b"x",
    b"  ",
    b"\xff",
    b"\0",
)
SLOWEST = 2.0
"""Seconds that one input of a few kilobytes may take at most."""


def read_text_header(data: bytes) -> None:
    header = read_header(data, "header")
    for entry in header.entries:
        name, refusal = attempt(lambda entry=entry: parse(entry.name))
        assert refusal is None or is_complete(refusal)
        if name is not None:
            assert str(name) == entry.name
            check_options(entry, name, header.place(entry))


def read_name(data: bytes) -> None:
    text = data.decode("latin-1")
    assert str(parse(text)) == text


def read_zip(data: bytes, folder: Path) -> None:
    path = folder / "fuzzed.zip"
    path.write_bytes(data)
    for pool in open_pools(path):
        reads: tuple[Callable[[], object], ...] = (
            lambda pool=pool: pool.header,
            lambda pool=pool: pool.marker,
            lambda pool=pool: pool.verify_all(),
            lambda pool=pool: [pool.read(found) for found in pool.find_all(KERNELS[:2]).values()],
        )
        for read in reads:
            _, refusal = attempt(read)
            assert refusal is None or is_complete(refusal)


def zipped_pool(folder: Path) -> bytes:
    root = make_pool(folder, KERNELS[:2], options=True).root
    with zipfile.ZipFile(folder / "seed.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(root.rglob("*")):
            archive.write(path, Path("inner") / path.relative_to(root))
    return (folder / "seed.zip").read_bytes()


def mutated(seed: bytes, chance: random.Random) -> bytes:
    """The seed with one to four pieces replaced by others, moved, doubled or cut out."""
    data = bytearray(seed)
    for _ in range(chance.randint(1, 4)):
        start = chance.randrange(len(data) + 1)
        end = min(len(data), start + chance.choice((0, 1, 1, 4, 20, 400)))
        source = chance.randrange(len(data) + 1)
        piece = chance.choice(
            (
                chance.choice(PARTS),
                chance.randbytes(chance.randrange(8)),
                bytes(data[source : source + chance.randrange(200)]),
            )
        )
        data[start:end] = piece
    return bytes(data)


def run(seconds: float, seed: int, folder: Path) -> None:
    chance = random.Random(seed)
    targets: tuple[tuple[Callable[[bytes], object], bytes], ...] = (
        (read_text_header, FULL_TEXT.encode()),
        (read_text_header, BARE_TEXT.encode()),
        (read_text_header, FMHA.encode()),
        (
            lambda data: read_checksums(data, "c"),
            b"".join(b"%064x  a/b%d\n" % (n, n) for n in range(9)),
        ),
        (read_name, KERNELS[3].encode()),
        (lambda data: parse_marker(data, "m"), MARKER.model_dump_json().encode()),
        (lambda data: read_zip(data, folder), zipped_pool(folder)),
    )
    end = time.monotonic() + seconds
    count = 0
    slowest = 0.0
    while time.monotonic() < end:
        read, original = chance.choice(targets)
        data = mutated(original, chance)
        start = time.monotonic()
        try:
            _, refusal = attempt(lambda read=read, data=data: read(data))
            assert refusal is None or is_complete(refusal)
        except BaseException:
            sys.stderr.write(f"seed {seed}, input {count}: {data!r}\n")
            raise
        slowest = max(slowest, time.monotonic() - start)
        assert slowest < SLOWEST, f"seed {seed}, input {count} took {slowest:.1f} s"
        count += 1
    sys.stdout.write(f"texts: {count:,} inputs, slowest {slowest * 1000:.0f} ms, seed {seed}\n")


def main(seconds: float = 30, seed: int | None = None) -> None:
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run(seconds, random.randrange(1 << 32) if seed is None else seed, Path(folder))


if __name__ == "__main__":
    arguments = sys.argv[1:]
    main(
        float(arguments[0]) if arguments else 30,
        int(arguments[1]) if len(arguments) > 1 else None,
    )
