"""The fuzz run finds what it is for; and every target for a moment."""

from __future__ import annotations

import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from situ_release.errors import InputError, Problem
from tests.fuzz import __main__ as driver
from tests.fuzz.mutation import members, pieces, words
from tests.fuzz.targets import Target, all_targets

SEED = b"0123456789" * 20


@pytest.fixture(autouse=True)
def failures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(driver, "FAILURES", tmp_path / "failures")
    return tmp_path / "failures"


def test_every_target_for_a_moment(tmp_path: Path, failures: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for target in all_targets(tmp_path):
            driver.fuzz(target, seconds=0.05, seed=1)
    assert not failures.exists()


def refuse_badly(data: bytes) -> None:
    raise InputError(Problem("wrong", "here", expected="something", found=""))


def take_long(data: bytes) -> None:
    end = time.process_time() + 0.01
    while time.process_time() < end:
        pass


@pytest.mark.parametrize(
    ("read", "error"),
    [
        (lambda data: data.decode("ascii")[999], (IndexError, UnicodeDecodeError)),
        (refuse_badly, AssertionError),
        (take_long, AssertionError),
    ],
)
def test_what_is_wrong_ends_the_run_and_is_kept(
    failures: Path,
    monkeypatch: pytest.MonkeyPatch,
    read: Callable[[bytes], object],
    error: type[Exception],
) -> None:
    monkeypatch.setattr(driver, "SLOWEST", 0.005)
    with pytest.raises(error):
        driver.fuzz(Target("x y", read, (SEED,)), seconds=5, seed=3)
    (kept,) = failures.iterdir()
    assert kept.name == "x-y-3-0.bin"
    chance = Random("x y/3")
    assert kept.read_bytes() == pieces(chance.choice((SEED,)), chance)  # the seed repeats the run


def test_a_hang_ends_the_run() -> None:
    code = """
import time
from tests.fuzz import __main__ as driver
from tests.fuzz.targets import Target
driver.HANGING = 0.3
driver.fuzz(Target("h", lambda data: time.sleep(60), (bytes(99),)), seconds=9, seed=0)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=50
    )
    assert done.returncode == 1
    assert "Timeout" in done.stderr


def test_an_absurd_allocation_is_a_failure() -> None:
    code = "from tests.fuzz.__main__ import limit_memory; limit_memory(); bytearray(2 << 30)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "MemoryError" in done.stderr


@pytest.mark.parametrize("mutate", [words, pieces, members])
def test_mutations_differ_and_repeat(
    tmp_path: Path, mutate: Callable[[bytes, Random], bytes]
) -> None:
    (wheel,) = next(each for each in all_targets(tmp_path) if each.name == "wheel").seeds
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [mutate(wheel, Random(number)) for number in range(20)]
        assert found == [mutate(wheel, Random(number)) for number in range(20)]
    assert len({wheel, *found}) > 15
