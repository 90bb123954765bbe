"""Where the tool's own data lies: beside the sources, or inside the package once installed."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
_CHECKOUT = _PACKAGE.parent

DATA = _PACKAGE / "data"
"""Schemas, policies and texts that are always inside the package."""


def _data_folder(name: str) -> Path:
    # An installed package carries the folder inside, a checkout has it on top.
    installed = DATA / name
    return installed if installed.is_dir() else _CHECKOUT / name


def recipes() -> Path:
    """The folder with ``<name>.toml`` and ``<name>.lock.json``."""
    return _data_folder("recipes")


def payload_templates() -> Path:
    """The folder with the shared runtime and one payload template per import package."""
    return _data_folder("payload")
