"""One bundle: the package's folder, its manifest, and the runner once it is open."""

from __future__ import annotations

import platform
import threading
from collections.abc import Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from .callback import CubinCallback
from .errors import BundleError
from .failures import CallFailures
from .integrity import read_cubin, verify_files
from .manifest import Manifest, read_manifest
from .native import open_runner


class Bundle:
    """The bundle in the package folder ``root``. Nothing is read before it is asked for.

    Args:
        root: the package's folder, which holds ``manifest.json``.
        roles: cubin roles that :meth:`info` counts even where the bundle has none of them.
    """

    def __init__(self, root: Path, roles: Sequence[str] = ()) -> None:
        self._root = root
        self._roles = tuple(roles)
        self._failures = CallFailures()
        self._opening = threading.Lock()
        self._module: Any = None
        self._callback: CubinCallback | None = None

    @cached_property
    def manifest(self) -> Manifest:
        """The manifest, read once.

        Raises:
            BundleError: it is missing, damaged or of another schema version.
        """
        return read_manifest(self._root)

    def info(self) -> dict[str, Any]:
        """Version, target, runner and counts; reads the manifest only.

        Raises:
            BundleError: as :attr:`manifest`.
        """
        manifest = self.manifest
        counts = dict.fromkeys(self._roles, 0) | manifest.role_counts()
        return {
            "package_version": manifest.package_version,
            "architecture": manifest.architecture,
            "cuda_major": manifest.cuda_major,
            "runner": str(self._root / manifest.runner.path),
            "runner_sha256": manifest.runner.sha256,
            "cubin_count": len(manifest.cubins),
            **{f"{role}_count": count for role, count in counts.items()},
            "gpu_validated": manifest.gpu_validated,
        }

    def verify(self) -> dict[str, Any]:
        """Hash the runner and every cubin; no native code is loaded.

        Returns:
            The same as :meth:`info`.

        Raises:
            BundleError: names every file that is missing or differs from the manifest.
        """
        info = self.info()
        verify_files(self._root, self.manifest)
        return info

    def open(self) -> Any:
        """The runner as a TVM-FFI module, opened on the first call and kept for good.

        Raises:
            BundleError: another platform, a damaged bundle, or a runner that cannot be opened.
        """
        with self._opening:
            if self._module is None:
                self._check_platform()
                self.verify()
                path = self._root / self.manifest.runner.path
                module, library = open_runner(path, self.manifest)
                read = partial(read_cubin, self._root, self.manifest)
                self._callback = CubinCallback(library, read, self._failures)
                self._module = module
            return self._module

    def call(self, entry_point: str, *args: Any) -> Any:
        """Call an entry point of the runner.

        Args:
            entry_point: its TVM-FFI name.
            args: passed on as they are.

        Raises:
            BundleError: as :meth:`open`, or a cubin that the call needs could not be given to it.
        """
        return self._failures.run(getattr(self.open(), entry_point), *args)

    def raise_last_callback_error(self) -> None:
        """Raise the failed cubin request that waits, once.

        Needed only after using the module of :meth:`open` directly; :meth:`call` raises by itself.

        Raises:
            BundleError: names the cubin.
        """
        self._failures.raise_last()

    def clear_callback_error(self) -> None:
        """Forget the failed cubin request that waits."""
        self._failures.clear()

    def _check_platform(self) -> None:
        host = f"{platform.system()}_{platform.machine()}".lower()
        if host != self.manifest.platform:
            raise BundleError(
                f"unsupported platform: this bundle is for {self.manifest.platform}, this is {host}"
            )
