"""Which cubins a package reads, seen from outside: Python announces every file it opens.

The package serves the runner's requests out of files, whatever its loader is like, so this is the
log of the runner's callback. The runner asks when it first launches a kernel.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from situ_release.sources.kernel_name import FILE_SUFFIX, kernel_of_filename


class CubinReads:
    """Listens from its making until the process ends; audit hooks cannot be taken back.

    Args:
        root: only files below this folder count.
    """

    def __init__(self, root: Path) -> None:
        self._root = f"{root.resolve()}{os.sep}"
        self._kernels: list[str] = []
        sys.addaudithook(self._hear)

    def take(self) -> list[str]:
        """Kernels whose cubins were read since the last call, in order."""
        kernels, self._kernels = self._kernels, []
        return kernels

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event != "open" or not isinstance(arguments[0], str):
            return
        path = arguments[0]
        if path.endswith(FILE_SUFFIX) and os.path.realpath(path).startswith(self._root):
            self._kernels.append(kernel_of_filename(Path(path).name))
