"""Numbers that all TensorRT-LLM-Gen runners share; activations are numbered by each on its own."""

from __future__ import annotations

from enum import IntEnum


class DtypeTrtllmGen(IntEnum):
    """Element types, as TensorRT-LLM-Gen encodes them.

    Byte 0 is the type's number, byte 1 its bits; bit 20 says signed, bit 24 block-scaled.
    """

    BFLOAT16 = 0x101000
    MXE2M1 = 0x110040C
    MXE4M3 = 0x110080D


class Fp8QuantizationType(IntEnum):
    """How an 8-bit activation is scaled."""

    NONE = 0
    DEEPSEEK_FP8 = 1
    MXFP8 = 2


class RoutingInputMode(IntEnum):
    """How the caller gives the routing: logits, packed int32, or ids and weights apart."""

    FROM_LOGITS = 0
    PACKED_PRECOMPUTED = 1
    UNPACKED_PRECOMPUTED = 2
