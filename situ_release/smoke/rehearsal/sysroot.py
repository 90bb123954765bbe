"""Running Python on a newer C library than the host's, out of an unpacked system.

A runner built on a newer distribution cannot be opened where glibc is older. Starting Python
through another system's dynamic loader, with that system's libraries first on its path, is enough:
nothing is installed, and a chroot is not needed. Newer libraries serve older programs, so Python
and the rest of the host's libraries stay the host's.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from situ_release.errors import HostError, InputError, Problem, raise_all
from situ_release.sources.runner import Runner
from situ_release.sources.symbol_versions import minimum_versions, version_key

LOADER = "ld-linux-x86-64.so.2"

HOW_TO_GET_ONE = (
    "name an unpacked newer system with --sysroot: Debian trixie's libc6, libstdc++6 and "
    "libgcc-s1, each unpacked with `dpkg-deb -x`, are enough"
)

_FOLDERS = ("lib64", "lib/x86_64-linux-gnu", "lib")
_PROVIDERS = {"GLIBC": "libc.so.6", "GLIBCXX": "libstdc++.so.6", "CXXABI": "libstdc++.so.6"}
_VERSION = re.compile(rb"\0((?:GLIBC|GLIBCXX|CXXABI)_[0-9.]*[0-9])(?=\0)")


def host_problems(runner: Runner, where: str, glibc: str) -> Iterator[Problem]:
    """What this host's C library lacks for a runner.

    Args:
        runner: says the glibc it needs.
        where: the runner's name in the problem.
        glibc: the host's version ("2.36"), or "none" where the C library is another one.
    """
    wanted = runner.minimum_versions.get("GLIBC")
    if wanted and (glibc == "none" or version_key(glibc) < version_key(wanted)):
        yield Problem(
            "the host's glibc is too old for the runner",
            where,
            expected=f"glibc {wanted} or newer",
            found=f"glibc {glibc}",
            remedy=HOW_TO_GET_ONE,
        )


def python_in(sysroot: Path, runner: Runner, external: frozenset[str], glibc: str) -> list[str]:
    """The command that starts this Python on a sysroot's libraries; append Python's arguments.

    Args:
        sysroot: a folder that holds ``usr/lib64``, ``lib64`` or the like.
        runner: what is to be opened.
        external: sonames that the sysroot need not have (CUDA's).
        glibc: the host's version, which the host's own programs may need.

    Raises:
        InputError: there is no such folder, or it lacks libraries; all of them are named.
        HostError: its libraries are too old as well.
    """
    needed = {LOADER, "libc.so.6", *runner.needed} - external
    found = {name: _find(sysroot, name) for name in sorted(needed)}
    raise_all(
        InputError,
        (
            Problem(
                "the sysroot lacks a library",
                str(sysroot),
                expected=f"{name} in {', '.join(_FOLDERS)}, or these below usr",
                found="no such file" if sysroot.is_dir() else "no such folder",
                remedy=HOW_TO_GET_ONE,
            )
            for name, path in found.items()
            if path is None
        ),
    )
    libraries = {name: path for name, path in found.items() if path is not None}
    wanted = dict(runner.minimum_versions)
    if glibc != "none":
        wanted["GLIBC"] = max(wanted.get("GLIBC", "0"), glibc, key=version_key)
    raise_all(HostError, _too_old(libraries, wanted))
    folders = dict.fromkeys(str(path.parent) for path in libraries.values())
    inherited = filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(":"))
    search = ":".join([*folders, *inherited])
    return [str(libraries[LOADER]), "--library-path", search, sys.executable]


def _find(sysroot: Path, name: str) -> Path | None:
    root = sysroot.resolve()
    for folder in (sysroot / part / folder for part in ("", "usr") for folder in _FOLDERS):
        path = folder / name
        # A link to an absolute path would leave the sysroot and find the host's file.
        if path.is_file() and path.resolve().is_relative_to(root):
            return path
    return None


def _too_old(libraries: Mapping[str, Path], wanted: Mapping[str, str]) -> Iterator[Problem]:
    for name, version in wanted.items():
        path = libraries.get(_PROVIDERS[name])
        if path is None:
            continue
        offered = minimum_versions(
            text.decode() for text in _VERSION.findall(path.read_bytes())
        ).get(name, "none")
        if offered == "none" or version_key(offered) < version_key(version):
            yield Problem(
                "a library of the sysroot is too old",
                str(path),
                expected=f"{name} {version} or newer",
                found=f"{name} {offered}",
                remedy=HOW_TO_GET_ONE,
            )
