"""Fields of ``inspect``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class InspectOutput:
    """Fields of ``inspect``; ``facts`` depends on ``kind``."""

    path: str
    kind: str
    facts: dict[str, Any]
