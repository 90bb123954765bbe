"""The published wheels: pinned by SHA-256, fetched once from the package index into a cache."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from situ_release.digests import sha256_file

CURRENT = "0.1.0.post20260727"
PREVIOUS = "0.1.0.post20260726"
SHA256 = {
    CURRENT: "3d92a31bc50f13fea3da6a174b049943bf0fa2848509d960150b13a611ea3e9f",
    PREVIOUS: "a23a3932a2b6d7e55b19697ccca51fcc3483a12a7708fb37798d32b182429e3b",
}
PLATFORM = "manylinux_2_39_x86_64"


class NotFetchedError(Exception):
    """The package index could not be reached, or does not have the wheel."""


def cache_folder() -> Path:
    """Where fetched wheels are kept: ``SITU_CACHE``, else the user's cache folder."""
    if given := os.environ.get("SITU_CACHE"):
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "situ-release"


def fetch(requirement: str, sha256: str, platform: str = PLATFORM) -> Path:
    """The wheel of ``requirement`` (``name==version``), out of the cache if it is there.

    Raises:
        NotFetchedError: pip could not download it.
        ValueError: what the index has is not the pinned file.
    """
    folder = cache_folder() / sha256
    for path in folder.glob("*.whl"):
        if sha256_file(path) == sha256:
            return path
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as fresh:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--only-binary=:all:", "--platform", platform, "--python-version", "3.12"]
        command += ["--retries", "1", "--dest", fresh, requirement]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode:
            raise NotFetchedError(result.stderr.strip()[-300:])
        (path,) = Path(fresh).glob("*.whl")
        found = sha256_file(path)
        if found != sha256:
            raise ValueError(f"{path.name} has SHA-256 {found}, pinned is {sha256}")
        folder.mkdir(exist_ok=True)
        # A rename, so that two test processes that fetch at once do not meet half a file.
        os.replace(path, folder / path.name)
    return folder / path.name


def published(version: str = CURRENT) -> Path:
    """A published tokenspeed-situ wheel."""
    return fetch(f"tokenspeed-situ=={version}", SHA256[version])
