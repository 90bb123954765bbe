"""The serial number that ties a bill of materials to the manifest beside it."""

from __future__ import annotations

import uuid

_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_OID, "situ-release manifest")


def serial_number(manifest_sha256: str) -> str:
    """The serial number of the bill that belongs to a manifest, as a URN."""
    return uuid.uuid5(_NAMESPACE, manifest_sha256).urn
