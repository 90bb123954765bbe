"""A rebuilt wheel against the published one, read with zipfile and not with the tool itself."""

from __future__ import annotations

import hashlib
import json
import zipfile
from dataclasses import dataclass
from email.parser import BytesHeaderParser
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

SINGLE = ("Name", "Version", "Summary", "License-Expression", "Requires-Python")
MULTIPLE = ("Classifier", "Project-URL")

_CUBIN_FACTS = "kernel family arch toolchain registers shared_memory_bytes device_code_sha256"
_RUNNER_FACTS = "needed minimum_versions device_code build_id compiler kernel_table"
ADDED_KEYS = {
    "": {"recipe", "snapshot", "pool", "tools", "recovered_from"},
    "cubins": set(_CUBIN_FACTS.split()),
    "runner": {*_RUNNER_FACTS.split(), "embedded_path_count"},
}
"""Manifest keys that schema 1 as published does not have, by the object that holds them."""


@dataclass(frozen=True)
class Row:
    """One line of the table: what was compared, with which outcome."""

    what: str
    same: bool
    detail: str


def compare_wheels(published: Path, rebuilt: Path, *, with_size: bool = True) -> list[Row]:
    """Every comparison; all rows must say ``same``.

    Args:
        published: the wheel that was recovered.
        rebuilt: the wheel made from what was recovered.
        with_size: the rebuilt wheel may not be larger.
    """
    old, new = _Wheel(published), _Wheel(rebuilt)
    rows = [
        _binaries(old, new),
        _equal("tag", old.tag, new.tag),
        *(_equal(f"METADATA {name}", old.header(name), new.header(name)) for name in SINGLE),
        _equal("METADATA Requires-Dist", old.requirements, new.requirements),
        *(
            _equal(f"METADATA {name}", sorted(old.headers(name)), sorted(new.headers(name)))
            for name in MULTIPLE
        ),
        _manifest(old.manifest, new.manifest),
    ]
    sizes = f"{old.size:,} -> {new.size:,} bytes ({new.size - old.size:+,})"
    if with_size:
        rows.append(Row("wheel not larger", new.size <= old.size, sizes))
    return rows


class _Wheel:
    def __init__(self, path: Path) -> None:
        self.size = path.stat().st_size
        self.tag = path.stem.split("-", 2)[2]
        with zipfile.ZipFile(path) as archive:
            self.members = {
                name: archive.read(name) for name in archive.namelist() if not name.endswith("/")
            }
        info = next(name for name in self.members if name.endswith(".dist-info/METADATA"))
        self.metadata = BytesHeaderParser().parsebytes(self.members[info])
        path_of = next(name for name in self.members if name.endswith("/manifest.json"))
        self.manifest: dict[str, Any] = json.loads(self.members[path_of])

    def header(self, name: str) -> str:
        return str(self.metadata[name])

    def headers(self, name: str) -> list[str]:
        return [str(value) for value in self.metadata.get_all(name, [])]

    @property
    def requirements(self) -> list[tuple[str, str]]:
        parsed = map(Requirement, self.headers("Requires-Dist"))
        return sorted((item.name, str(item.specifier)) for item in parsed)

    @property
    def binaries(self) -> dict[str, str]:
        return {
            name: hashlib.sha256(data).hexdigest()
            for name, data in self.members.items()
            if name.endswith((".cubin", ".so"))
        }


def _binaries(old: _Wheel, new: _Wheel) -> Row:
    same = [name for name, digest in old.binaries.items() if new.binaries.get(name) == digest]
    total = len(old.binaries | new.binaries)
    return Row("binaries byte-identical", len(same) == total, f"{len(same)} of {total}")


def _equal(what: str, old: object, new: object) -> Row:
    shown = str(old if isinstance(old, str) else f"{len(old)} equal")  # type: ignore[arg-type]
    return Row(what, old == new, shown if old == new else f"{old!r} -> {new!r}")


def _manifest(old: dict[str, Any], new: dict[str, Any]) -> Row:
    """Every schema-1 key of the published manifest has its value in the new one, lists in order."""
    differences = sorted(_differences(_schema_1(old), new, ""))
    allowed = {"generated_at"}
    detail = ", ".join(differences) or "all keys, values and list order"
    return Row("manifest, schema-1 keys", set(differences) <= allowed, detail)


def _schema_1(manifest: dict[str, Any]) -> dict[str, Any]:
    """The manifest without what situ-release adds (a published one is unchanged)."""

    def without(fields: dict[str, Any], where: str) -> dict[str, Any]:
        return {key: value for key, value in fields.items() if key not in ADDED_KEYS[where]}

    cubins = [without(entry, "cubins") for entry in manifest["cubins"]]
    runner = without(manifest["runner"], "runner")
    return without(manifest, "") | {"cubins": cubins, "runner": runner}


def _differences(old: Any, new: Any, where: str) -> set[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        return {
            found
            for key, value in old.items()
            for found in _differences(value, new.get(key, "absent"), f"{where}.{key}".strip("."))
        }
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return {
            found
            for index, (left, right) in enumerate(zip(old, new, strict=True))
            for found in _differences(left, right, f"{where}[{index}]")
        }
    return set() if old == new else {where}
