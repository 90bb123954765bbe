"""Checks of what is inside the runner: its kernel table, its device code, its build's traces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from situ_release.checks.context import Context
from situ_release.checks.model import Finding, Unchecked, fail, false_claim, note, warn
from situ_release.errors import InputError
from situ_release.sources.embedded_paths import mask_paths
from situ_release.sources.kernel_name import kernel_of_filename
from situ_release.sources.sm_target import target_name

_SHOWN_PATHS = 2


def table(context: Context) -> Iterator[Finding]:
    """Every bundled cubin is the one that the runner was compiled to ask for."""
    member, kernels = context.runner_member, context.runner.kernel_table
    found, missing = [], ""
    for entry in context.manifest.cubins:
        cubin = f"{context.package}/{entry.path}"
        content = context.contents.get(cubin)
        if content is None:
            missing = missing or cubin
            continue
        try:
            wanted = kernels.digest_of(kernel_of_filename(entry.filename))
        except InputError:
            wanted = None
        found.append((cubin, wanted, content.sha256))
    if found and not any(wanted for _, wanted, _ in found):
        yield fail(
            member,
            "the runner was compiled for none of the bundled cubins",
            expected=f"a table with the names and SHA-256 of {len(found)} cubins",
            found=f"a table of {kernels.count} other kernels" if kernels.count else "no table",
        )
    else:
        for cubin, wanted, sha256 in found:
            if wanted is None:
                yield fail(
                    cubin,
                    "a cubin that the runner never asks for",
                    expected="a kernel of its table",
                )
            elif wanted != sha256:
                yield fail(
                    cubin,
                    "the cubin is not the one that the runner was compiled with",
                    expected=f"SHA-256 {wanted}",
                    found=sha256,
                )
    claimed = context.manifest.runner.kernel_table
    if claimed is not None and (claimed.count, claimed.sha256) != (kernels.count, kernels.sha256):
        yield false_claim(
            member,
            "runner.kernel_table",
            f"{claimed.count} kernels, SHA-256 {claimed.sha256}",
            f"{kernels.count} kernels, SHA-256 {kernels.sha256}",
        )
    if missing:
        raise Unchecked("manifest.files", missing)


def device_code(context: Context) -> Iterator[Finding]:
    """The runner's embedded device code runs on every target."""
    member, modules = context.runner_member, context.runner.device_modules
    counted = Counter((module.target, module.kind) for module in modules)
    shown = ", ".join(f"{n} {kind} for {arch}" for (arch, kind), n in sorted(counted.items()))
    for sm in context.recipe.target.sms:
        if not any(module.runs_on(sm) for module in modules):
            yield warn(
                member,
                f"the runner has no device code for {target_name(sm)}",
                expected=f"embedded device code that runs on {target_name(sm)}",
                found=shown or "none",
            )
    if shown:
        yield note(member, f"embedded device code: {shown}")
    claimed = context.manifest.runner.device_code
    if claimed is not None:
        claims = Counter({(item.arch, item.kind): item.count for item in claimed})
        if claims != counted:
            text = ", ".join(f"{n} {kind} for {arch}" for (arch, kind), n in sorted(claims.items()))
            yield false_claim(member, "runner.device_code", text or "none", shown or "none")


def leaks(context: Context) -> Iterator[Finding]:
    """No binary tells where it was built."""
    member, paths = context.runner_member, context.runner.embedded_paths
    yield from _leak(member, paths)
    claimed = context.manifest.runner.embedded_path_count
    if claimed is not None and claimed != len(paths):
        yield false_claim(member, "runner.embedded_path_count", str(claimed), str(len(paths)))
    for bundled, cubin in context.each_cubin():
        # Paths come into cubins with line tables; searching all of them would cost more than all
        # other checks together.
        if cubin.has_line_info:
            yield from _leak(bundled.member, cubin.embedded_paths)


def _leak(member: str, paths: tuple[str, ...]) -> Iterator[Finding]:
    if not paths:
        return
    shown = ", ".join(mask_paths(paths)[:_SHOWN_PATHS])
    yield warn(
        member,
        "absolute paths of the build host are inside",
        expected="none",
        found=f"{len(paths)} ({shown}{', …' if len(paths) > _SHOWN_PATHS else ''})",
    )
