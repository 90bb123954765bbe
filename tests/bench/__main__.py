"""``python -m tests.bench``."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

from tests.bench.measure import ROUNDS
from tests.bench.public import benchmark_public
from tests.bench.release import benchmark_release


def main() -> None:
    os.environ["SOURCE_DATE_EPOCH"] = "1785061321"
    folder = Path(tempfile.mkdtemp(prefix="situ-bench-"))
    print(f"{os.cpu_count()} cores, Python {sys.version.split()[0]}, best of {ROUNDS}\n")
    try:
        benchmark_release(folder)
        benchmark_public(folder)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
