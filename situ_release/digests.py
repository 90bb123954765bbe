"""SHA-256 of bytes and files, and the shape of a digest."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

SHA256_HEX = re.compile(r"[0-9a-f]{64}")
"""A lower-case hexadecimal SHA-256 digest; use with ``fullmatch``."""


def sha256_bytes(data: bytes | memoryview) -> str:
    """Lower-case hexadecimal SHA-256 of ``data``."""
    return hashlib.sha256(data).hexdigest()


def sha256_file(path: Path) -> str:
    """Lower-case hexadecimal SHA-256 of a file, read in 1 MiB blocks."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
