"""Running NVIDIA's compiler, with messages a maintainer can act on."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from situ_release.errors import HostError, Problem, ToolError

_LOG_LINES = 20


@dataclass(frozen=True, slots=True)
class Nvcc:
    """An installed nvcc. Made by :func:`find_nvcc`."""

    program: str

    def run(self, arguments: Iterable[object], *, folder: Path, making: str) -> None:
        """Run nvcc in ``folder``.

        Args:
            arguments: everything after the program's name; paths and numbers as text.
            folder: working directory; relative paths in the arguments begin here.
            making: what the call makes, for messages.

        Raises:
            ToolError: nvcc failed; with its last lines.
        """
        command = [self.program, *map(str, arguments)]
        result = subprocess.run(
            command,
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
        if result.returncode:
            raise ToolError(
                Problem(
                    f"nvcc could not make {making}",
                    self.program,
                    expected="exit status 0",
                    found=f"exit status {result.returncode}",
                    remedy="see its last lines below",
                ),
                log_tail="\n".join(result.stdout.splitlines()[-_LOG_LINES:]),
            )


def find_nvcc(program: str = "nvcc") -> Nvcc:
    """The nvcc of that name or path.

    Raises:
        HostError: there is none.
    """
    found = shutil.which(program)
    if found is None:
        raise HostError.of(
            "NVIDIA's CUDA compiler is not here",
            program,
            expected="nvcc of CUDA 13 on the PATH, or its path given",
            found="no such program",
            remedy="install the CUDA toolkit, or the package nvidia-cuda-nvcc with its headers",
        )
    return Nvcc(found)
