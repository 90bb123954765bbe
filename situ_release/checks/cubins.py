"""Checks of the cubins: what the file, its place and the manifest say is what the ELF says."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from situ_release.checks.context import BundledCubin, Context
from situ_release.checks.model import (
    Finding,
    Unchecked,
    fail,
    false_claim,
    from_problem,
    note,
    warn,
)
from situ_release.errors import InputError
from situ_release.sources.cubin import Toolchain
from situ_release.sources.kernel_name import kernel_of_filename

_ARCH_SUFFIX = re.compile(r"_(sm([0-9]{2,3})([af]?))\.cubin")
_SIZE_HELPER = "GetSmemSize"
_UNKNOWN = "not recorded"


def readable(context: Context) -> Iterator[Finding]:
    """Every cubin of the manifest is an ELF file for CUDA."""
    missing = None
    for bundled in context.cubins:
        yield from map(from_problem, bundled.problems)
        content = context.contents.get(bundled.member)
        if content is None:
            missing = bundled.member
        elif content.data is None:
            yield fail(bundled.member, "the cubin is damaged in the archive")
    if missing:
        raise Unchecked("manifest.files", missing)


def architecture(context: Context) -> Iterator[Finding]:
    """File name, folder, manifest path and ELF header agree on the architecture."""
    for bundled, cubin in context.each_cubin():
        entry = bundled.entry
        match = _ARCH_SUFFIX.search(entry.filename)
        if match is None:
            yield fail(
                bundled.member,
                "the file name does not end in an architecture",
                expected="…_sm<number>[a|f].cubin",
                found=entry.filename,
            )
            continue
        arch, number, kind = match.groups()
        expected = f"cubins/{arch}/{entry.filename}"
        if entry.path != expected:
            yield fail(
                bundled.member,
                "the manifest's path does not fit the file name",
                expected=expected,
                found=entry.path,
            )
        if entry.arch not in (None, arch):
            yield fail(
                bundled.member,
                "the manifest names another architecture than the file name",
                expected=arch,
                found=str(entry.arch),
            )
        if cubin.sm != int(number):
            yield fail(
                bundled.member,
                "the cubin is for another architecture than its name says",
                expected=f"sm_{number} in the ELF header",
                found=f"sm_{cubin.sm}",
            )
        elif cubin.arch_specific is None:
            yield warn(
                bundled.member,
                "the cubin does not say whether it is architecture-specific",
                expected=f"a .nv.compat record that fits {arch}",
                found="none",
                remedy="rebuild the cubin with CUDA 13 or newer, which records it",
            )
        elif cubin.arch_specific != (kind == "a"):
            yield fail(
                bundled.member,
                "the cubin's architecture-specific flag does not fit its name",
                expected=f"a cubin for {arch}",
                found=f"one that is {'' if cubin.arch_specific else 'not '}architecture-specific",
            )


def symbol(context: Context) -> Iterator[Finding]:
    """The kernel of the file's name is in the file, as the manifest describes it."""
    for bundled, cubin in context.each_cubin():
        entry = bundled.entry
        try:
            name = kernel_of_filename(entry.filename)
        except InputError as error:
            yield from (
                fail(bundled.member, problem.what, expected=problem.expected, found=problem.found)
                for problem in error.problems
            )
            continue
        if entry.kernel not in (None, name):
            yield fail(
                bundled.member,
                "the manifest names another kernel than the file name",
                expected=name,
                found=str(entry.kernel),
            )
        kernels = {kernel.name: kernel for kernel in cubin.kernels}
        if name not in kernels:
            yield fail(
                bundled.member,
                "another kernel is inside",
                expected=name,
                found=_listed(kernels) or "no kernel at all",
            )
            continue
        kernel = kernels[name]
        yield from _claim(bundled, "registers", kernel.registers)
        if entry.device_code_sha256 is not None:
            yield from _claim(bundled, "device_code_sha256", cubin.device_code_sha256)


def _listed(kernels: Iterable[str]) -> str:
    # Beside every kernel lies a helper that tells its shared memory; it says nothing new.
    return ", ".join(name for name in kernels if not name.endswith(_SIZE_HELPER))


def _claim(bundled: BundledCubin, key: str, found: object) -> Iterator[Finding]:
    claimed = getattr(bundled.entry, key)
    if claimed is not None and claimed != found:
        yield false_claim(bundled.member, key, claimed, found)


def toolchain(context: Context) -> Iterator[Finding]:
    """The manifest's toolchain is the cubin's; what there is, is summarised."""
    counts: Counter[str] = Counter()
    for bundled, cubin in context.each_cubin():
        claimed, found = bundled.entry.toolchain, cubin.toolchain
        counts[_shown(found)] += 1
        if claimed is None:
            continue
        claim = Toolchain(claimed.producer, "", claimed.version, claimed.options)
        actual = found and Toolchain(found.producer, "", found.version, found.options)
        if claim != actual:
            yield false_claim(bundled.member, "toolchain", _shown(claim), _shown(found))
    for text, count in sorted(counts.items()):
        yield note(f"{context.package}/cubins", f"{count} cubins made by {text}")


def _shown(toolchain: Toolchain | None) -> str:
    if toolchain is None:
        return f"a tool that is {_UNKNOWN}"
    return " ".join(filter(None, (toolchain.producer, toolchain.version, toolchain.options)))
