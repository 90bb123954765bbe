"""What a tier needs of the host before it can begin; what is lacking refuses it."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterator, Sequence
from importlib import metadata

from packaging.requirements import Requirement

from situ_release.errors import Problem
from situ_release.smoke.run import Run
from situ_release.smoke.supervise import tvm_ffi_version
from situ_release.sources.sm_target import target_name

Need = Callable[[Run], Sequence[Problem]]
"""Says what is lacking; empty when nothing is."""


def libraries(run: Run) -> list[Problem]:
    """The glibc and the apache-tvm-ffi that the runner asks for, known before it is opened."""
    return [*_glibc(run), *tvm_ffi(run)]


def tvm_ffi(run: Run) -> list[Problem]:
    """An apache-tvm-ffi of the versions that the wheel asks for."""
    installed = tvm_ffi_version()
    wanted = map(Requirement, run.recipe.package.requires_dist)
    return [
        Problem(
            "the installed apache-tvm-ffi does not fit the wheel",
            str(requirement),
            expected=f"apache-tvm-ffi {requirement.specifier}",
            found=installed,
            remedy=f"pip install '{requirement}'",
        )
        for requirement in wanted
        if requirement.name == "apache-tvm-ffi"
        and (installed == "not installed" or not requirement.specifier.contains(installed, True))
    ]


def device(run: Run) -> list[Problem]:
    """An NVIDIA device with a driver and a CUDA runtime that are new enough."""
    return list(run.probe.problems)


def target(run: Run) -> list[Problem]:
    """A device that the bundle is made for."""
    wanted = run.recipe.target.sms
    if run.host is None or run.sm in wanted:
        return []
    names = " or ".join(target_name(sm) for sm in wanted)
    return [
        Problem(
            "the bundle is not made for this device",
            run.recipe.package.distribution,
            expected=f"an NVIDIA device of {names}",
            found=f"{run.host.devices[0].name}, {target_name(run.sm)}",
            remedy="run this tier on such a device; `load` runs on any",
        )
    ]


def torch(run: Run) -> list[Problem]:
    """An installed torch: the reference, the inputs and the streams are torch's."""
    if torch_version() is not None:
        return []
    return [
        Problem(
            "torch is not installed",
            "gpu-smoke",
            expected="torch, built for the CUDA version of the bundle",
            found="none",
            remedy="pip install 'situ-release[smoke]'",
        )
    ]


def reference(run: Run) -> list[Problem]:
    """A reference for the activation of the bundle's kernels."""
    acts = {family.gated_act for family in run.recipe.families if family.gated_act}
    unknown = sorted(acts - {"siTuGlu"})
    if not unknown:
        return []
    return [
        Problem(
            "there is no reference for the bundle's activation",
            run.recipe.name,
            expected="siTuGlu",
            found=", ".join(unknown),
            remedy="run the tiers load and cubins only, or add a reference",
        )
    ]


def host_glibc() -> str:
    """The version of this host's glibc ("2.36"); "none" where the C library is another one."""
    try:
        name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
    except ValueError:
        return "none"
    return version if name == "glibc" else "none"


def torch_version() -> str | None:
    """The installed torch's version, None without one; it is not imported."""
    if importlib.util.find_spec("torch") is None:
        return None
    try:
        return metadata.version("torch")
    except metadata.PackageNotFoundError:
        return None


def _glibc(run: Run) -> Iterator[Problem]:
    wanted = run.runner.minimum_versions.get("GLIBC")
    found = host_glibc()
    if wanted and (found == "none" or _release(found) < _release(wanted)):
        yield Problem(
            "the host's glibc is too old for the runner",
            run.recipe.runner.file,
            expected=f"glibc {wanted} or newer",
            found=f"glibc {found}",
            remedy="run gpu-smoke on a newer distribution",
        )


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())
