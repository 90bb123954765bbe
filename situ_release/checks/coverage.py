"""Whether the wheel holds all that its runner can select, and what it holds beyond that."""

from __future__ import annotations

from collections.abc import Iterator

from situ_release.checks.context import Context
from situ_release.checks.model import Finding, Unchecked, fail, from_problem, note
from situ_release.errors import InputError
from situ_release.sources.kernel_name import kernel_of_filename
from situ_release.text import size_text


def closed(context: Context) -> Iterator[Finding]:
    """Every kernel that a contract can select on a target SM has the runner's digest bundled."""
    try:
        devices = context.coverage
    except InputError as error:
        yield from map(from_problem, error.problems)
        return
    for device in devices:
        for kernel in device.missing:
            contracts = [item.name for item in device.contracts if kernel in item.missing]
            found = "another cubin of its name" if kernel in context.bundled else "none"
            yield fail(
                context.filename,
                f"sm_{device.sm} can select a kernel that is not bundled ({', '.join(contracts)})",
                expected=f"{kernel} with the SHA-256 that the runner asks for",
                found=found,
            )


def unreachable(context: Context) -> Iterator[Finding]:
    """Cubins that no contract can select on any target SM: weight without use."""
    try:
        devices = context.coverage
    except InputError as error:
        raise Unchecked("coverage.closed", context.filename) from error
    sizes = {kernel_of_filename(e.filename): e.size for e in context.manifest.cubins}
    unused = set(sizes)
    for device in devices:
        unused &= set(device.unreachable)
    if unused:
        total = size_text(sum(sizes[kernel] for kernel in unused))
        yield note(context.filename, f"{len(unused)} cubins ({total}) can never be selected")
