"""The grammar of kernel names: one table of positions reads them and tells what is wrong."""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from situ_release.errors import Problem
from situ_release.sources.faults import shown

DTYPES = ("Bfloat16", "E2m1", "E4m3", "Fp16", "Fp32", "MxE2m1", "MxE4m3", "MxInt4")
"""Element types as they are spelled in kernel names."""

GATED_ACTIVATIONS = ("swiGlu", "siTuGlu", "geGlu")
"""Activations of kernels that halve the output: ``act(gate) * up``."""


class Slot(NamedTuple):
    """One position: what it is called, what may stand there, and whether something must."""

    name: str
    pattern: str
    required: bool = False


# No leading zeros and at most six digits: a number has one spelling, so names round-trip.
_INT = "[1-9][0-9]{0,5}"
_DTYPE = "(?:" + "|".join(sorted(DTYPES, key=len, reverse=True)) + ")"


def _ints(count: int) -> str:
    return "x".join([_INT] * count)


_SLOTS = (
    Slot("the prefix", "bmm", required=True),
    Slot("the output type", f"(?P<dtype_c>{_DTYPE})", required=True),
    Slot("the operand types", f"(?P<dtype_a>{_DTYPE})(?P<dtype_b>{_DTYPE})", required=True),
    Slot("the cast", f"cast(?P<cast>{_DTYPE})"),
    Slot("patch", "(?P<patch>patch)"),
    Slot("the accumulator type", f"(?P<dtype_acc>{_DTYPE})", required=True),
    Slot("A's scale block", f"Ab(?P<sf_block_a>{_INT})"),
    Slot(
        "B's scale",
        f"B(?=b|tok)(?:b(?P<sf_block_b>{_INT}))?(?:tok(?P<per_token_b>{_DTYPE}))?",
    ),
    Slot("C's scale block", f"Cb(?P<sf_block_c>{_INT})"),
    Slot("the tile", f"t(?P<tile>{_ints(3)})(?P<unroll2>u2)?", required=True),
    Slot("the stages", f"s(?P<stages>{_INT}(?:x{_ints(5)})?)", required=True),
    Slot("the epilogue tile", f"et(?P<epilogue_tile>{_ints(2)})", required=True),
    Slot("the MMA shape", f"m(?P<mma>{_ints(3)})", required=True),
    Slot("the cluster", f"c(?P<cluster>{_ints(3)})", required=True),
    Slot("the raster order", "(?P<raster_m>rM)"),
    Slot("split-K", f"splitK(?P<split_k>(?!1(?:_|$)){_INT})"),
    Slot("the weight layout", "(?P<layout>TN|BN)", required=True),
    Slot("transOut", "(?P<trans_out>transOut)"),
    Slot("noShfl", "(?P<no_shuffle>noShfl)"),
    Slot("dsFp8", "(?P<deepseek_fp8>dsFp8)"),
    Slot(
        "the scheduler",
        f"(?:schedS|schPd(?P<scheduler_stages>x{_INT}|{_ints(4)}))",
        required=True,
    ),
    Slot("the bias", f"bias(?P<bias_dtype>{_DTYPE})(?P<bias_kind>Mn|M)"),
    Slot("the element-wise activation", "(?P<eltwise_act>relu2)"),
    Slot("the epilogue warps", f"eW(?P<epilogue_warps>{_INT})"),
    Slot("fCp", "(?P<fused_copy>fCp)"),
    Slot("tmOv", "(?P<tmem_overlap>tmOv)"),
    Slot("the batch dimension", "(?P<batch_n>bN)"),
    Slot("the routing", "(?P<routing>ldgsts|tma)"),
    Slot("the scale routing", "(?P<sf_routing>ldgsts|tma|ldg)Sf"),
    Slot("rgTma", "(?P<rg_tma>rgTma)"),
    Slot("clmp", "(?P<clamp>clmp)"),
    Slot("the gated activation", f"(?P<gated_act>{'|'.join(GATED_ACTIVATIONS)})"),
    Slot("the load warps", f"lbW(?P<load_b_warps>{_INT})"),
    Slot("the scale-load warps", f"lsfbW(?P<load_sf_b_warps>{_INT})"),
    Slot("dynB", "(?P<dynamic_batch>dynB)"),
    Slot("the architecture", "(?P<sm>sm[1-9][0-9]{1,2}[af]?)", required=True),
)

_REQUIRED_HEAD = 3

NAME = re.compile(
    "_".join(slot.pattern for slot in _SLOTS[:_REQUIRED_HEAD])
    + "".join(
        f"_{slot.pattern}" if slot.required else f"(?:_{slot.pattern})?"
        for slot in _SLOTS[_REQUIRED_HEAD:]
    )
)
"""A whole name; the groups are the fields of ``KernelName``."""


@cache
def _patterns() -> tuple[re.Pattern[str], ...]:
    # Compiled only where a name is wrong: three dozen patterns take longer than to read the names.
    return tuple(re.compile(slot.pattern) for slot in _SLOTS)


def diagnose(text: str) -> Problem:
    """What is wrong with a name that :data:`NAME` does not match, found token by token."""
    position = 0
    for token in text.split("_"):
        fits = [i for i, pattern in enumerate(_patterns()) if pattern.fullmatch(token)]
        here = next((i for i in fits if i >= position), None)
        missing = next((slot.name for slot in _SLOTS[position:here] if slot.required), None)
        if here is not None and missing is None:
            position = here + 1
            continue
        found = f"token {shown(token, 60)!r}"
        if not fits:
            what = "unknown token in a kernel name"
        elif here is None:
            what = "token out of place in a kernel name"
        else:
            what = "token missing in a kernel name"
        return _problem(what, text, missing or "the end of the name", found)
    missing = next(slot.name for slot in _SLOTS[position:] if slot.required)
    return _problem("token missing in a kernel name", text, missing, "the end of the name")


def _problem(what: str, text: str, expected: str, found: str) -> Problem:
    remedy = "check the name; a token that is new must be added to the grammar before it is bundled"
    return Problem(what, shown(text) or "an empty name", expected, found, remedy)
