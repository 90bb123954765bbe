"""The one exception of a bundle."""

from __future__ import annotations


class BundleError(RuntimeError):
    """The bundle is damaged, does not fit this host, or lacks what its runner asks for."""
