"""E8M0: the scale of a block, one byte that is a power of two.

Byte c is 2^(c - 127) for c in 0..254; 255 is NaN. Source: OCP Microscaling Formats 1.0, section
5.4.
"""

from __future__ import annotations

import torch  # noqa: TID253 - the reference is torch

BLOCK = 32
"""Elements along the reduced dimension that share one scale, in MXFP4 and MXFP8."""

BIAS = 127
LARGEST = 254
NAN = 255

_SMALLEST_BITS = 0x0040_0000  # 2^-127 is below float32's normal range
_NAN_BITS = 0x7FC0_0000
_MANTISSA_BITS = 23


def decode(codes: torch.Tensor) -> torch.Tensor:
    """Scales as numbers, exactly.

    Args:
        codes: uint8, any shape.

    Returns:
        float32 of that shape.
    """
    bits = codes.to(torch.int32) << _MANTISSA_BITS
    bits = torch.where(codes == 0, _SMALLEST_BITS, bits)
    bits = torch.where(codes == NAN, _NAN_BITS, bits)
    return bits.view(torch.float32)


def spread(codes: torch.Tensor) -> torch.Tensor:
    """One scale per element instead of one per block.

    Args:
        codes: uint8 ``[..., K/32]``.

    Returns:
        float32 ``[..., K/32, 1]``, to be multiplied with elements shaped ``[..., K/32, 32]``.
    """
    return decode(codes).unsqueeze(-1)
