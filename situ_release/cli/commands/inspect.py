"""pending."""

from __future__ import annotations


def inspect() -> None:
    """Say what a file says about itself."""
