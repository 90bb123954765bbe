"""The wheel under test, unpacked for a run once its binaries are what its manifest says."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from situ_release.bundle.binaries import binaries, device_code
from situ_release.bundle.evidence import DeviceCode
from situ_release.bundle.manifest import MANIFEST_NAME, Manifest, read_manifest
from situ_release.errors import InputError, Problem, raise_all
from situ_release.sources.cubin import read_cubin
from situ_release.sources.runner import Runner
from situ_release.wheel.archive import MemberContent, archive_faults, in_wheel, open_wheel


@dataclass(frozen=True, slots=True)
class UnpackedWheel:
    """A wheel's content in a temporary folder.

    Attributes:
        path: the wheel file.
        sha256: digest of the wheel file.
        root: the folder that holds the import package and ``*.dist-info``.
        package: the import package's name.
        manifest: the bundle's manifest.
        runner: the runner library's bytes.
    """

    path: Path
    sha256: str
    root: Path
    package: str
    manifest: Manifest
    runner: bytes

    def device_code(self, runner: Runner) -> DeviceCode:
        """Digests over what the GPU executes; ``runner`` is what the runner says about itself.

        Raises:
            InputError: a cubin is damaged.
        """
        package = self.root / self.package
        paths = [entry.path for entry in self.manifest.cubins]
        digests = {
            path: read_cubin((package / path).read_bytes(), path).device_code_sha256
            for path in paths
        }
        return device_code(digests, runner.device_modules)


@contextmanager
def unpacked(wheel: Path, import_name: str) -> Iterator[UnpackedWheel]:
    """Unpack a wheel into a temporary folder that is removed when the block ends.

    Args:
        wheel: the wheel file.
        import_name: the package that holds ``manifest.json``.

    Raises:
        InputError: not a sound wheel, no manifest, or a binary differs from the manifest's size or
            digest; every such binary is named.
    """
    archive = open_wheel(wheel)
    contents = archive.scan(lambda name: True)
    raise_all(InputError, in_wheel(wheel, archive_faults(archive, contents)))
    prefix = f"{import_name}/"
    manifest = read_manifest(
        archive.read(prefix + MANIFEST_NAME), f"{wheel}: {prefix}{MANIFEST_NAME}"
    )
    raise_all(InputError, in_wheel(wheel, _differences(manifest, prefix, contents)))
    with tempfile.TemporaryDirectory(prefix="situ-smoke-") as folder:
        root = Path(folder)
        for name, content in contents.items():
            target = root / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content.data or b"")
        yield UnpackedWheel(
            path=wheel,
            sha256=archive.sha256,
            root=root,
            package=import_name,
            manifest=manifest,
            runner=contents[prefix + manifest.runner.path].data or b"",
        )


def _differences(
    manifest: Manifest, prefix: str, contents: dict[str, MemberContent]
) -> Iterator[Problem]:
    for entry in binaries(manifest):
        content = contents.get(prefix + entry.path)
        expected = f"{entry.size} bytes, SHA-256 {entry.sha256}"
        if content is None:
            found = "no such member"
        elif (content.size, content.sha256) != (entry.size, entry.sha256):
            found = f"{content.size} bytes, SHA-256 {content.sha256}"
        else:
            continue
        yield Problem(
            "a binary differs from the manifest",
            prefix + entry.path,
            expected=expected,
            found=found,
            remedy="run verify on the wheel, and build it again",
        )
