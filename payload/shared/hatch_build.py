"""Marks the wheel as one for a platform: it holds a shared library, which hatchling cannot know."""

from __future__ import annotations

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PlatformWheel(BuildHookInterface[Any]):
    """Sets the tag that ``pyproject.toml`` names."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Change the build's data; hatchling calls this before it collects files."""
        build_data["pure_python"] = False
        build_data["tag"] = self.config["tag"]
