"""The device functions for formats and layouts, run on the host against plain arithmetic."""

from __future__ import annotations

import bisect
import math
import subprocess
from fractions import Fraction
from pathlib import Path

import pytest

from situ_release.bundle.nvcc import find_nvcc
from tests.conformance.conftest import SOURCES

pytestmark = pytest.mark.nvcc

VALUES = [
    *(sign * value for sign in (1, -1) for value in (0.0, 2.0**-10, 2.0**-9, 1.5 * 2.0**-9)),
    *(sign * (1 + i / 16) * 2.0**e for sign in (1, -1) for e in (-7, -6, 0, 8) for i in range(16)),
    *(448.0, 449.0, 464.0, 465.0, 1e6, 2.0**-140, 1.75 * 2.0**100, 1.76 * 2.0**100, 3e38),
]


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[float]]:
    folder = tmp_path_factory.mktemp("formats")
    find_nvcc().run(
        ["-x", "c++", "-std=c++17", "-O2", f"-I{SOURCES / 'kernels'}", "-cudart=none", "-nodlink"]
        + ["-o", "formats", Path(__file__).with_name("formats_main.cpp")],
        folder=folder,
        making="the printer of formats",
    )
    command = [str(folder / "formats"), *(repr(value) for value in VALUES)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\n")
    found: dict[str, list[float]] = {}
    for line in filter(None, lines):
        what, value = line.split()
        found.setdefault(what, []).append(float(value))
    return found


def e4m3(byte: int) -> float:
    """From the definition: bias 7, subnormals, no infinity, NaN where all bits are set."""
    exponent, mantissa = byte >> 3 & 15, byte & 7
    if (exponent, mantissa) == (15, 7):
        return math.nan
    magnitude = mantissa * 2.0**-9 if exponent == 0 else (1 + mantissa / 8) * 2.0 ** (exponent - 7)
    return -magnitude if byte & 128 else magnitude


def nearest_e4m3(value: float) -> int:
    """The byte of the nearest value, ties to the even mantissa, saturating."""
    grid = [e4m3(byte) for byte in range(127)]
    magnitude = min(Fraction(abs(value)), Fraction(448))
    above = bisect.bisect_left(grid, magnitude)
    if grid[above] != magnitude:
        below = Fraction(grid[above - 1])
        middle = (below + Fraction(grid[above])) / 2
        if magnitude < middle or (magnitude == middle and above % 2):
            above -= 1
    return above | (128 if math.copysign(1, value) < 0 else 0)


def test_e2m1(printed: dict[str, list[float]]) -> None:
    magnitudes = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
    assert printed["e2m1"] == [*magnitudes, *(-value for value in magnitudes)]


def test_scales(printed: dict[str, list[float]]) -> None:
    expected = [float(f"{2.0 ** (byte - 127):.9g}") for byte in range(255)]
    assert printed["scale"][:255] == expected
    assert math.isnan(printed["scale"][255])
    assert printed["inverse"] == expected[::-1]


def test_e4m3_of_all_bytes(printed: dict[str, list[float]]) -> None:
    for byte, value in enumerate(printed["e4m3"]):
        expected = e4m3(byte)
        assert value == expected or (math.isnan(value) and math.isnan(expected))


def test_rounding_to_e4m3(printed: dict[str, list[float]]) -> None:
    assert [int(byte) for byte in printed["to_e4m3"]] == [nearest_e4m3(v) for v in VALUES]


def test_scale_of_a_block(printed: dict[str, list[float]]) -> None:
    for value, byte in zip(VALUES, printed["to_scale"], strict=True):
        if math.copysign(1, value) < 0:
            continue  # amax is a magnitude
        power = -127
        while Fraction(value) > 448 * Fraction(2) ** power:
            power += 1
        assert byte == power + 127


def test_situ(printed: dict[str, list[float]]) -> None:
    for value, found in zip(VALUES, printed["situ"], strict=True):
        sigmoid = 1 / (1 + math.exp(-value)) if value > -700 else 0.0
        gate = 4 * math.tanh(value / 4) * sigmoid
        expected = gate * 25 * math.tanh(3 * value / 25)
        assert found == pytest.approx(expected, rel=3e-6, abs=1e-30)


def test_rows_are_shuffled_in_groups_of_32(printed: dict[str, list[float]]) -> None:
    rows = [int(row) for row in printed["row"]]
    for source in range(256):
        stored = 32 * (source // 32) + 8 * (source % 4) + (source % 32) // 4
        assert rows[stored] == source


def test_neighbouring_rows_meet_in_one_thread(printed: dict[str, list[float]]) -> None:
    mma_rows = [int(row) for row in printed["mma_row"]]
    assert sorted(mma_rows) == list(range(32))
    for row in range(0, 32, 2):
        assert mma_rows[row + 1] == mma_rows[row] + 8


def test_scales_lie_in_tiles_of_128_rows_and_4_blocks(printed: dict[str, list[float]]) -> None:
    found = iter(printed["scale_at"])
    for row in range(256):
        for block in range(12):
            tile = (row // 128) * 3 + block // 4
            assert next(found) == tile * 512 + (row % 32) * 16 + (row % 128) // 32 * 4 + block % 4
