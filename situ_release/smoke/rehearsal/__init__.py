"""Tier ``rehearsal``: the real runner on stub CUDA libraries, on a machine without a GPU.

The runner's host code runs under a claimed SM: it answers which tactics it has, asks for kernels
and "launches" them with invented device addresses. That proves which kernels it selects and that
its arguments are plumbed right; it proves nothing about numbers, because no device code runs.
"""

from __future__ import annotations
