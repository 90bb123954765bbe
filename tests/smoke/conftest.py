"""Torch without threads: waking threads costs more than small tensors gain."""

from __future__ import annotations

import contextlib

with contextlib.suppress(ImportError):
    import torch

    torch.set_num_threads(1)
