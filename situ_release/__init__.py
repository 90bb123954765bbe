"""Build, verify and release cubin bundles: wheels with precompiled CUDA kernels."""

from __future__ import annotations

__version__ = "0.1.0"
