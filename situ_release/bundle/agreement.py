"""Proof that header, checksums, files and runner mean the same cubins.

For every selected kernel the metadata header's SHA-256, the line in ``checksums.txt``, the file's
own and the one the runner was compiled with must be one digest; the cubin must be device code for
the architecture in its name and hold the kernel. All disagreements are collected before raising.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from situ_release.bundle.selection import SelectedKernel, Selection
from situ_release.digests import sha256_bytes
from situ_release.errors import InputError, Problem, raise_all
from situ_release.sources.cubin import Cubin, read_cubin
from situ_release.sources.kernel_table import KernelTable
from situ_release.sources.pool import Pool

_ARCH = re.compile(r"sm(\d+)([af]?)")


@dataclass(frozen=True, slots=True)
class AgreedCubin:
    """A selected cubin whose four digests agree.

    Attributes:
        selected: the kernel and its family.
        source: relative path in the pool.
        data: the file's bytes.
        sha256: the one digest.
        cubin: what the file says about itself.
        shared_memory_bytes: dynamic shared memory per block by the metadata header, None where the
            header does not say (recovered ones).
    """

    selected: SelectedKernel
    source: str
    data: bytes
    sha256: str
    cubin: Cubin
    shared_memory_bytes: int | None


def agree(selection: Selection, pool: Pool, table: KernelTable) -> tuple[AgreedCubin, ...]:
    """Read every selected cubin and prove the agreement.

    Raises:
        InputError: all disagreements at once.
    """
    paths = pool.find_all(kernel.name for kernel in selection.kernels)
    agreed = []
    problems: list[Problem] = []
    for kernel in selection.kernels:
        path = paths[kernel.name]
        where = pool.files.place(path)
        data = pool.read(path)
        digest = sha256_bytes(data)
        problems.extend(_digest_problems(kernel, path, digest, pool, table))
        try:
            cubin = read_cubin(data, where)
        except InputError as error:
            problems.extend(error.problems)
            continue
        problems.extend(content_problems(kernel.name, kernel.family.arch, cubin, where))
        entry = pool.header.by_name[kernel.name]
        agreed.append(AgreedCubin(kernel, path, data, digest, cubin, entry.shared_memory_bytes))
    raise_all(InputError, problems)
    return tuple(agreed)


def arch_text(cubin: Cubin) -> str:
    """What a cubin is compiled for, as far as it tells: ``sm_103 (architecture-specific)``."""
    suffix = {True: " (architecture-specific)", False: " (not architecture-specific)", None: ""}
    return f"sm_{cubin.sm}{suffix[cubin.arch_specific]}"


def content_problems(kernel: str, arch: str, cubin: Cubin, where: str) -> Iterator[Problem]:
    """Whether a cubin is device code for ``arch`` (``sm103a``) and holds ``kernel``."""
    match = _ARCH.fullmatch(arch)
    if match is None:
        raise ValueError(f"not an architecture: {arch!r}")
    sm, specific = int(match[1]), match[2] == "a"
    if cubin.sm != sm or (cubin.arch_specific is not None and cubin.arch_specific != specific):
        yield Problem(
            "the cubin is for another architecture than its name says",
            where,
            expected=f"sm_{sm}{' (architecture-specific)' if specific else ''}",
            found=arch_text(cubin),
            remedy="take the cubin from the pool that the header belongs to",
        )
    names = [found.name for found in cubin.kernels]
    if kernel not in names:
        yield Problem(
            "the cubin does not hold the kernel it is named for",
            where,
            expected=kernel,
            found=", ".join(names[:3]) or "no kernel symbol",
            remedy="take the cubin from the pool that the header belongs to",
        )


def _digest_problems(
    kernel: SelectedKernel, path: str, digest: str, pool: Pool, table: KernelTable
) -> Iterator[Problem]:
    stated = pool.checksums.get(path)
    if stated is None:
        yield Problem(
            "a selected cubin has no checksum",
            pool.checksums.where,
            expected=f"a line for {path}",
            found="none",
            remedy="restore checksums.txt from the pool's origin",
        )
    compiled = table.digest_of(kernel.name)
    if compiled is None:
        yield Problem(
            "the runner does not know a selected kernel",
            "the module's kernel table",
            expected=kernel.name,
            found=f"{table.count} other kernels",
            remedy="give the module that was compiled from this pool's header",
        )
    digests = {
        "the metadata header": pool.header.by_name[kernel.name].sha256,
        "checksums.txt": stated,
        "the file": digest,
        "the runner": compiled,
    }
    known = {source: value for source, value in digests.items() if value is not None}
    if len(set(known.values())) > 1:
        by_digest: dict[str, list[str]] = {}
        for source, value in known.items():
            by_digest.setdefault(value, []).append(source)
        yield Problem(
            "digests of a selected cubin disagree",
            pool.files.place(path),
            expected="one SHA-256 in metadata header, checksums.txt, file and runner",
            found="; ".join(
                f"{' and '.join(sources)}: {value[:16]}…" for value, sources in by_digest.items()
            ),
            remedy="take header, checksums.txt, cubins and module from one and the same pool",
        )
