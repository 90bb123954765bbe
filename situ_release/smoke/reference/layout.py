"""How the runner wants weights and scales to lie in memory: a permutation of bytes, no arithmetic.

Rows of a weight matrix are reordered so that a warp's fragment is contiguous, gate and up rows of
the first product alternate, and scales are stored in tiles of 128 rows by 4 blocks. The order
along the reduced dimension stays natural, and so do all outputs. Source: FlashInfer 0.6.13
(``utils``, ``fused_moe.core`` and the MoE weight preparation of its tests), for an epilogue tile
of 128 rows.
"""

from __future__ import annotations

import torch  # noqa: TID253 - the reference is torch

SHUFFLE_ROWS = 32
"""Rows are shuffled inside groups of this many."""

TILE_ROWS = 128
TILE_BLOCKS = 4
"""A tile of interleaved scales: 128 rows by 4 blocks, 512 bytes."""


def shuffled_rows(rows: int) -> torch.Tensor:
    """Which source row each stored row holds.

    Stored row p holds row 32 * (p div 32) + 4 * (p mod 8) + (p mod 32) div 8.

    Args:
        rows: number of rows, a multiple of 32.

    Returns:
        int64 ``[rows]``; ``stored = source[shuffled_rows(rows)]``.
    """
    stored = torch.arange(rows)
    inside = stored % SHUFFLE_ROWS
    return stored - inside + 4 * (inside % 8) + inside // 8


def gated_rows(intermediate: int) -> torch.Tensor:
    """Which checkpoint row, of ``[gate | up]``, each row of the alternating matrix holds.

    Row 2j is up row j (checkpoint row I + j), row 2j + 1 is gate row j (checkpoint row j).

    Args:
        intermediate: I, rows of gate and of up.

    Returns:
        int64 ``[2 * I]``.
    """
    gate = torch.arange(intermediate)
    return torch.stack((gate + intermediate, gate), dim=-1).flatten()


def interleave_scales(scales: torch.Tensor) -> torch.Tensor:
    """Store scales in tiles of 128 rows by 4 blocks.

    The scale of row r and block c lies at byte ((r div 128) * ceil(C / 4) + c div 4) * 512
    + (r mod 32) * 16 + ((r mod 128) div 32) * 4 + c mod 4. Rows are padded to 128 and blocks to 4
    with zero bytes.

    Args:
        scales: uint8 ``[..., R, C]``.

    Returns:
        uint8 ``[..., padded R * padded C]``.
    """
    rows, blocks = scales.shape[-2:]
    padding = (0, -blocks % TILE_BLOCKS, 0, -rows % TILE_ROWS)
    padded = torch.nn.functional.pad(scales, padding)
    tiles = padded.unflatten(-1, (-1, TILE_BLOCKS)).unflatten(-3, (-1, TILE_ROWS // 32, 32))
    # [..., row tile, row div 32, row mod 32, block tile, block mod 4]
    return tiles.movedim((-2, -3, -4), (-4, -3, -2)).flatten(-5)


def prepare_w13(weights: torch.Tensor, scales: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """First product: alternate up and gate, shuffle, interleave the scales.

    Args:
        weights: uint8 ``[L, 2I, H/2]``, packed MXFP4, rows ``[gate | up]`` as in a checkpoint.
        scales: uint8 ``[L, 2I, H/32]``.

    Returns:
        uint8 ``[L, 2I, H/2]`` and float8_e4m3fn ``[L, 2I, H/32]`` (the dtype is a carrier only).
    """
    rows = weights.shape[1]
    return _prepare(weights, scales, gated_rows(rows // 2)[shuffled_rows(rows)])


def prepare_w2(weights: torch.Tensor, scales: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Second product: shuffle, interleave the scales.

    Args:
        weights: uint8 ``[L, H, I/2]``, packed MXFP4.
        scales: uint8 ``[L, H, I/32]``.

    Returns:
        uint8 ``[L, H, I/2]`` and float8_e4m3fn ``[L, H, I/32]`` (the dtype is a carrier only).
    """
    return _prepare(weights, scales, shuffled_rows(weights.shape[1]))


def _prepare(
    weights: torch.Tensor, scales: torch.Tensor, order: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    order = order.to(weights.device)
    stored = interleave_scales(scales.index_select(1, order)).reshape(scales.shape)
    return weights.index_select(1, order), stored.view(torch.float8_e4m3fn)
