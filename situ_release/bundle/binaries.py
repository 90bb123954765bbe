"""Digests that name a bundle's binaries as a whole, whatever the wheel around them is called."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from situ_release.bundle.evidence import DeviceCode
from situ_release.bundle.manifest import CubinEntry, Manifest, RunnerEntry
from situ_release.digests import sha256_bytes
from situ_release.sources.fatbin import DeviceModule


def binaries(manifest: Manifest) -> list[RunnerEntry | CubinEntry]:
    """The runner, then the cubins."""
    return [manifest.runner, *manifest.cubins]


def binaries_sha256(manifest: Manifest) -> str:
    """One digest over the runner and all cubins.

    SHA-256 of what ``sha256sum`` prints for them: a line ``<sha256>  <path>`` each, sorted by path,
    paths relative to the import package.
    """
    return _digest_of_digests((entry.path, entry.sha256) for entry in binaries(manifest))


def device_code(cubins: Mapping[str, str], modules: Iterable[DeviceModule]) -> DeviceCode:
    """Digests over what the GPU executes.

    Args:
        cubins: device-code digest by path, relative to the import package.
        modules: the device modules embedded in the runner.
    """
    return DeviceCode(
        cubins_sha256=_digest_of_digests(cubins.items()),
        runner_sha256=_digest_of_digests(
            (module.target, module.device_code_sha256 or module.payload_sha256)
            for module in modules
        ),
    )


def _digest_of_digests(named: Iterable[tuple[str, str]]) -> str:
    text = "".join(f"{digest}  {name}\n" for name, digest in sorted(named))
    return sha256_bytes(text.encode())
