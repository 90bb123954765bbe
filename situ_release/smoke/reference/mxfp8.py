"""MXFP8: E4M3 elements with an E8M0 scale per 32.

The scale is the smallest power of two s with amax / s <= 448, so 2^ceil(log2(amax / 448));
elements are x / s rounded to nearest even. Source: OCP Microscaling Formats 1.0, section 5.3.1
for the format, and FlashInfer 0.6.13's MXFP8 quantization for the choice of the scale. That one
divides by 448 with an approximate reciprocal, so the two may differ where amax is exactly 448
times a power of two.
"""

from __future__ import annotations

import torch  # noqa: TID253 - the reference is torch

from situ_release.smoke.reference import e8m0

LARGEST = 448.0
"""The largest E4M3 magnitude, 0.875 * 2^9."""

_LARGEST_MANTISSA = 0.875
_LARGEST_EXPONENT = 9


def quantize(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantize along the last dimension.

    A block with a NaN becomes NaN, one with an infinity gets the largest scale.

    Args:
        values: a floating dtype, ``[..., K]`` with K a multiple of 32.

    Returns:
        float8_e4m3fn ``[..., K]`` and uint8 scales ``[..., K/32]``, both in linear order.
    """
    blocks = values.to(torch.float32).unflatten(-1, (-1, e8m0.BLOCK))
    amax = blocks.abs().amax(dim=-1)
    # amax = m * 2^e with m in [0.5, 1): the smallest j with amax <= 448 * 2^j needs no rounding.
    mantissa, exponent = torch.frexp(amax)
    exponent = exponent - _LARGEST_EXPONENT + (mantissa > _LARGEST_MANTISSA)
    codes = (exponent + e8m0.BIAS).clamp(0, e8m0.LARGEST)
    codes = torch.where(amax == 0, 0, codes)
    codes = torch.where(amax.isinf(), e8m0.LARGEST, codes)
    codes = torch.where(amax.isnan(), e8m0.NAN, codes).to(torch.uint8)
    scaled = (blocks / e8m0.spread(codes)).clamp(-LARGEST, LARGEST)
    return scaled.to(torch.float8_e4m3fn).flatten(-2), codes


def dequantize(elements: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """Elements times the scale of their block of 32 along the last dimension.

    Args:
        elements: float8_e4m3fn ``[..., K]``.
        scales: uint8 ``[..., K/32]``, E8M0.

    Returns:
        float32 ``[..., K]``, exact unless a value leaves float32's range.
    """
    blocks = elements.to(torch.float32).unflatten(-1, (-1, e8m0.BLOCK))
    return (blocks * e8m0.spread(scales)).flatten(-2)


def round_trip(values: torch.Tensor) -> torch.Tensor:
    """What is left of ``values`` after quantization: float32 of the same shape."""
    return dequantize(*quantize(values))
