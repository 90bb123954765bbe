"""``python -m tests.fuzz [seconds] [seed]``: all targets, each for its share of the time.

What fails is written to ``build/fuzz/`` and shown with its seed; with the seed a run repeats.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import random
import re
import resource
import tempfile
import time
import warnings
from pathlib import Path
from random import Random

from tests.fuzz.attempt import answer
from tests.fuzz.targets import Target, all_targets

SLOWEST = 2.0
"""Seconds of processor time that one input of a few kilobytes may take at most."""

HANGING = 60
"""Seconds after which an input ends the run, with a traceback of where it hangs."""

MEMORY = 1 << 30
"""Bytes of address space that the run may take beyond what it starts with."""

FAILURES = Path("build/fuzz")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("seconds", type=float, nargs="?", default=60)
    parser.add_argument("seed", type=int, nargs="?", default=random.randrange(1 << 32))
    options = parser.parse_args()
    print(f"seed {options.seed}, {options.seconds:.0f} s", flush=True)
    warnings.simplefilter("ignore")  # zipfile warns of doubled members
    with tempfile.TemporaryDirectory() as folder:
        targets = all_targets(Path(folder))
        limit_memory()
        shares = sum(target.share for target in targets)
        for target in targets:
            fuzz(target, options.seconds * target.share / shares, options.seed)


def fuzz(target: Target, seconds: float, seed: int) -> None:
    """Feed one target mutated inputs for a while."""
    chance = Random(f"{target.name}/{seed}")
    end = time.monotonic() + seconds
    count, slowest = 0, 0.0
    while time.monotonic() < end:
        data = target.mutate(chance.choice(target.seeds), chance)
        start = time.process_time()
        faulthandler.dump_traceback_later(HANGING, exit=True)
        try:
            answer(lambda data=data: target.read(data))  # type: ignore[misc]
            slowest = max(slowest, time.process_time() - start)
            assert slowest < SLOWEST, f"{slowest:.1f} s for one input"
        except BaseException:
            report(target, data, seed, count)
            raise
        finally:
            faulthandler.cancel_dump_traceback_later()
        count += 1
    print(f"  {target.name:<16} {count:>8,} inputs, slowest {slowest * 1000:4.0f} ms", flush=True)


def report(target: Target, data: bytes, seed: int, count: int) -> None:
    """Keep the input that failed, and say where."""
    FAILURES.mkdir(parents=True, exist_ok=True)
    kept = FAILURES / f"{re.sub('[^a-zA-Z]', '-', target.name)}-{seed}-{count}.bin"
    kept.write_bytes(data)
    print(f"  {target.name} FAILED: seed {seed}, input {count}, kept as {kept}", flush=True)


def limit_memory() -> None:
    """Make an allocation beyond :data:`MEMORY` a MemoryError, which is a failure."""
    # Every thread takes address space of its own, and readers start one for each processor.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))


if __name__ == "__main__":
    main()
