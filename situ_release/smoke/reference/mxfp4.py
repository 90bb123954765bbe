"""MXFP4: E2M1 elements, two in a byte, with an E8M0 scale per 32.

Byte b of a row holds element 2b in its low nibble and 2b + 1 in its high one. Bit 3 of a code is
the sign; codes 0 to 7 are 0, 0.5, 1, 1.5, 2, 3, 4, 6. Source: OCP Microscaling Formats 1.0,
section 5.3.3; the nibble order is that of FlashInfer 0.6.13.
"""

from __future__ import annotations

import torch  # noqa: TID253 - the reference is torch

from situ_release.smoke.reference import e8m0

MAGNITUDES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
"""Values of the codes 0 to 7."""


def decode_elements(packed: torch.Tensor) -> torch.Tensor:
    """Elements without their scales.

    Args:
        packed: uint8 ``[..., K/2]``.

    Returns:
        float32 ``[..., K]``.
    """
    values = torch.tensor(MAGNITUDES, dtype=torch.float32, device=packed.device)
    by_code = torch.cat((values, -values))
    byte = torch.arange(256, device=packed.device)
    by_byte = torch.stack((by_code[byte & 15], by_code[byte >> 4]), dim=-1)
    return by_byte[packed.to(torch.int32)].flatten(-2)


def dequantize(packed: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """Elements times the scale of their block of 32 along the last dimension.

    Args:
        packed: uint8 ``[..., K/2]``.
        scales: uint8 ``[..., K/32]``, E8M0.

    Returns:
        float32 ``[..., K]``, exact unless a value leaves float32's range.
    """
    elements = decode_elements(packed).unflatten(-1, (-1, e8m0.BLOCK))
    return (elements * e8m0.spread(scales)).flatten(-2)
