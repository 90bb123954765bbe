"""Whatever the bytes are: an InputError or facts, quickly, and never anything else."""

from __future__ import annotations

import gc
import random
import struct
import time
from collections.abc import Callable
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from situ_release.errors import InputError, Problem
from situ_release.sources.content_kind import describe_content
from situ_release.sources.cubin import read_cubin
from situ_release.sources.elf import read_elf
from situ_release.sources.embedded_paths import find_paths
from situ_release.sources.runner import read_runner
from tests.synth.elf import make_cubin, make_fatbin, make_header_only_cubin, make_runner

CUBIN = make_cubin("bmm_a_sm103a", source_path="/home/jane/a/b.cu")
RUNNER = make_runner(
    table=[("bmm_a_sm103a", "0" * 64), ("bmm_b_sm103a", "1" * 64)],
    undefined=["cuInit", "printf@GLIBC_2.2.5"],
    fatbin=make_fatbin(make_cubin(code_size=128), "//\n.version 9.0\n"),
    large_data=make_cubin(code_size=128),
    strings=["/home/jane/a/b.cu"],
    rpath="/opt/x",
)


def survives(data: bytes) -> None:
    """Read ``data`` as everything, and look at everything lazy too."""
    cubin = facts_or_problems(read_cubin, data)
    if cubin is not None:
        assert len(cubin.device_code_sha256) == 64
        assert isinstance(cubin.embedded_paths, tuple)
    runner = facts_or_problems(read_runner, data)
    if runner is not None:
        assert runner.kernel_table.count >= 0
        assert isinstance(runner.masked_paths(), tuple)
    assert describe_content(data)


Facts = TypeVar("Facts")


def facts_or_problems(read: Callable[[bytes, str], Facts], data: bytes) -> Facts | None:
    """What a reader says; ``None`` when it refuses, with problems that say enough."""
    problems: tuple[Problem, ...] = ()
    facts = None
    try:
        facts = read(data, "x")
    except InputError as error:
        problems = error.problems
    assert all(problem.where.startswith("x") and problem.found for problem in problems)
    return facts


@given(st.binary(max_size=4096))
def test_arbitrary_bytes(data: bytes) -> None:
    survives(data)


@given(st.binary(max_size=2048))
def test_arbitrary_bytes_after_a_header(data: bytes) -> None:
    survives(CUBIN[:16] + data)
    survives(make_header_only_cubin()[:40] + data)


Edit = tuple[int, bytes]
INTERESTING = st.sampled_from(
    [0, 1, 2, 7, 8, 0x7F, 0xFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 1 << 40, (1 << 63), (1 << 64) - 1]
)


def edits(size: int) -> st.SearchStrategy[list[Edit]]:
    """Overwrites at any place, most of them in headers, tables or at whole words."""
    words = st.one_of(INTERESTING, st.integers(0, (1 << 64) - 1)).map(
        lambda number: struct.pack("<Q", number)
    )
    pieces = st.builds(lambda word, length: word[:length], words, st.sampled_from([1, 2, 4, 8]))
    places = st.one_of(
        st.integers(0, 63),
        st.integers(0, size - 1),
        st.integers(0, size // 8 - 1).map(lambda index: index * 8),
        st.integers(max(0, size - 1400), size - 1),
    )
    return st.lists(st.tuples(places, pieces), min_size=1, max_size=6)


def edited(data: bytes, changes: list[Edit]) -> bytes:
    content = bytearray(data)
    for position, piece in changes:
        content[position : position + len(piece)] = piece
    return bytes(content)


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow], deadline=2000)
@given(edits(len(CUBIN)))
def test_damaged_cubins(changes: list[Edit]) -> None:
    survives(edited(CUBIN, changes))


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow], deadline=2000)
@given(edits(len(RUNNER)))
def test_damaged_runners(changes: list[Edit]) -> None:
    survives(edited(RUNNER, changes))


@given(st.integers(0, len(RUNNER)), st.integers(0, 200))
def test_runners_with_a_hole(start: int, length: int) -> None:
    survives(RUNNER[:start] + RUNNER[start + length :])


@given(st.binary(max_size=600))
def test_arbitrary_device_code_sections(content: bytes) -> None:
    survives(make_runner(fatbin=content))
    survives(make_runner(fatbin=make_fatbin(CUBIN)[:16] + content))
    survives(make_runner(large_data=content + CUBIN[:40] + content))


# --- files made to take time or memory ---------------------------------------------------------


def blob(seed: int, size: int, alphabet: bytes) -> bytes:
    chosen = random.Random(seed)
    return bytes(chosen.choice(alphabet) for _ in range(size // 100)) * 100


HOSTILE: dict[str, Callable[[], bytes]] = {
    "images end to end": lambda: make_runner(large_data=make_header_only_cubin() * 30_000),
    "headers of images": lambda: make_runner(large_data=CUBIN[:64] * 30_000),
    "containers end to end": lambda: make_runner(fatbin=make_fatbin() * 100_000),
    "magic only": lambda: make_runner(large_data=b"\x7fELF\x02\x01\x01\0" * 200_000),
    "slashes": lambda: make_runner(large_data=b"/" * 2_000_000),
    "short folders": lambda: make_runner(large_data=b"/a" * 1_000_000),
    "long folders": lambda: make_runner(large_data=(b" /" + b"a" * 255) * 8_000),
    "folders without end": lambda: make_runner(large_data=b"/" + b"a" * 2_000_000),
    "digits": lambda: make_runner(large_data=b"\0" + b"0" * 2_000_000),
    "digests without names": lambda: make_runner(large_data=(b"\0" + b"0" * 64) * 30_000),
    "one endless name": lambda: make_runner(
        large_data=b"b" * 2_000_000 + b"\0" + b"0" * 64 + b"\0"
    ),
    "path letters": lambda: make_runner(large_data=blob(1, 2_000_000, b"/ab\0 ")),
    "table letters": lambda: make_runner(large_data=blob(2, 2_000_000, b"\0\0a0f")),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_nothing_takes_long(name: str) -> None:
    data = HOSTILE[name]()
    start = time.perf_counter()
    survives(data)
    assert time.perf_counter() - start < 5, f"{name}: {len(data):,} bytes"


def test_many_symbols_with_one_long_name_are_refused() -> None:
    data = bytearray(make_runner(undefined=[f"symbol{index}" for index in range(4000)]))
    # Every symbol's name at a different place of one string without a NUL.
    start = data.index(b"symbol0\0")
    end = data.index(b"libcudart.so.13")
    data[start : end - 1] = b"x" * (end - 1 - start)
    with pytest.raises(InputError) as caught:
        read_runner(bytes(data), "x")
    assert "overlap beyond reason" in caught.value.problems[0].found


def test_paths_of_a_large_block_are_found_once() -> None:
    assert find_paths([b"\0/home/jane/x/y.cu" * 50_000]) == ("/home/jane/x/y.cu",)


def test_a_refusal_that_is_kept_can_be_collected() -> None:
    """A view in use inside a garbage cycle of error and frames would crash CPython 3.11."""
    table = read_elf(CUBIN, "x").section(".symtab")
    assert table is not None
    data = bytearray(CUBIN)
    struct.pack_into("<I", data, table.offset + 24, 0xFFFFFFF)

    def refuse() -> InputError:
        with pytest.raises(InputError) as caught:
            read_cubin(bytes(data), "x")
        return caught.value  # the frame holds the error, whose traceback holds the frame

    for _ in range(100):
        assert "0xfffffff" in str(refuse())
    gc.collect()
