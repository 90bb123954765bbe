"""Kernel names: one typed grammar, name to fields and back.

A batched-GEMM kernel's name spells out how it was generated::

    bmm_<C>_<A><B>[_cast<A'>][_patch]_<acc>[_Ab<n>][_Bb<n>][_Cb<n>]_t<M>x<N>x<K>[u2]_s<stages>...

C is the output, A the weights and B the activations (the runner always asks for the transposed
product, so "A" is the weight operand). The grammar covers every token of the 1,696 names in the
published runner's table and of the 2,108 names in the public flashinfer-cubin 0.6.13 pool; a token
outside it is an error, never skipped, because a kernel whose name is half understood could be
selected for work it cannot do.

The cubin of kernel ``bmm_x`` is the file ``Bmm_x.cubin``: see :func:`cubin_filename`. That mapping
is exact; nothing here folds case.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from situ_release.errors import InputError, Problem, raise_all
from situ_release.sources.faults import shown

KERNEL_PREFIX = "bmm_"
FILE_PREFIX = "Bmm_"
FILE_SUFFIX = ".cubin"

DTYPES = ("Bfloat16", "E2m1", "E4m3", "Fp16", "Fp32", "MxE2m1", "MxE4m3", "MxInt4")
"""Element types as they are spelled in kernel names."""

GATED_ACTIVATIONS = ("swiGlu", "siTuGlu", "geGlu")
"""Activations of kernels that halve the output: ``act(gate) * up``."""


class Shape(NamedTuple):
    """Extents of a tile or of one MMA instruction, in elements."""

    m: int
    n: int
    k: int


class Cluster(NamedTuple):
    """Thread-block cluster dimensions, in CTAs."""

    x: int
    y: int
    z: int


@dataclass(frozen=True, slots=True)
class KernelName:
    """Every token of a kernel's name; ``str(name)`` is the name again, character by character.

    Attributes:
        dtype_c: element type of the output.
        dtype_a: element type of the weights.
        dtype_b: element type of the activations that go in.
        cast: type that weights and activations have in the MMA, where it is another one (``cast``).
        patch: the weight conversion uses the patched instruction sequence (``patch``); the runner
            takes such kernels only for the SM that they name.
        dtype_acc: accumulator type.
        sf_block_a: elements per scale factor of the weights (``Ab``), None without block scales.
        sf_block_b: the same for the activations (``Bb``).
        sf_block_c: the same for the output (``Cb``).
        per_token_b: type of the activations' per-token scale (``tok``), None without.
        tile: CTA tile.
        unroll2: the main loop is unrolled twice (``u2``).
        stages: pipeline stages: one number, or six where they differ per resource.
        epilogue_tile: rows and columns of an epilogue tile, in elements.
        mma: shape of the MMA instruction.
        cluster: cluster dimensions; z is the number of split-K slices in one cluster.
        raster_m: CTAs are numbered along M (``rM``).
        split_k: slices of the K loop; 1 without ``splitK``.
        layout: ``TN`` (weights K-major) or ``BN`` (weights in K blocks).
        trans_out: the product is computed transposed (``transOut``).
        shuffled: the weights' rows are shuffled; False for ``noShfl``.
        deepseek_fp8: DeepSeek block scaling (``dsFp8``).
        persistent: CTAs loop over work tiles (``schPd``) instead of one tile each (``schedS``).
        scheduler_stages: the numbers after ``schPd`` (MMA stages, within and across work tiles, and
            work-id stages; or only the last), empty for the static scheduler.
        bias_dtype: type of the bias (``bias``), None without.
        bias_kind: ``M`` (a vector) or ``Mn`` (a matrix), None without a bias.
        eltwise_act: element-wise activation (``relu2``), None without.
        epilogue_warps: epilogue warps where not the default (``eW``).
        fused_copy: scale factors are copied by the MMA warp (``fCp``).
        tmem_overlap: accumulators overlap in tensor memory (``tmOv``).
        batch_n: the experts' tokens lie along N (``bN``).
        routing: how routed rows of the activations are gathered (``ldgsts`` or ``tma``), None when
            the input is already permuted.
        sf_routing: the same for their scale factors (``ldgsts``, ``tma`` or ``ldg``).
        rg_tma: the ``rgTma`` token.
        clamp: values are clamped before the activation (``clmp``).
        gated_act: gated activation, one of :data:`GATED_ACTIVATIONS`, None without.
        load_b_warps: warps that load activations (``lbW``), None for the default.
        load_sf_b_warps: warps that load their scale factors (``lsfbW``), None for the default.
        dynamic_batch: tokens per expert are read on the device (``dynB``).
        sm: target architecture with its suffix, like ``sm103a`` or ``sm100f``.
    """

    dtype_c: str
    dtype_a: str
    dtype_b: str
    cast: str | None
    patch: bool
    dtype_acc: str
    sf_block_a: int | None
    sf_block_b: int | None
    sf_block_c: int | None
    per_token_b: str | None
    tile: Shape
    unroll2: bool
    stages: tuple[int, ...]
    epilogue_tile: tuple[int, int]
    mma: Shape
    cluster: Cluster
    raster_m: bool
    split_k: int
    layout: str
    trans_out: bool
    shuffled: bool
    deepseek_fp8: bool
    persistent: bool
    scheduler_stages: tuple[int, ...]
    bias_dtype: str | None
    bias_kind: str | None
    eltwise_act: str | None
    epilogue_warps: int | None
    fused_copy: bool
    tmem_overlap: bool
    batch_n: bool
    routing: str | None
    sf_routing: str | None
    rg_tma: bool
    clamp: bool
    gated_act: str | None
    load_b_warps: int | None
    load_sf_b_warps: int | None
    dynamic_batch: bool
    sm: str

    @property
    def dtype_family(self) -> str:
        """The part before the tile: ``Bfloat16_MxE2m1MxE4m3_Fp32_Ab32_Bb32``."""
        return "_".join(filter(None, self._dtype_tokens()))

    def _dtype_tokens(self) -> tuple[str, ...]:
        block_b = f"b{self.sf_block_b}" if self.sf_block_b else ""
        token_b = f"tok{self.per_token_b}" if self.per_token_b else ""
        return (
            self.dtype_c,
            self.dtype_a + self.dtype_b,
            f"cast{self.cast}" if self.cast else "",
            "patch" if self.patch else "",
            self.dtype_acc,
            f"Ab{self.sf_block_a}" if self.sf_block_a else "",
            f"B{block_b}{token_b}" if block_b or token_b else "",
            f"Cb{self.sf_block_c}" if self.sf_block_c else "",
        )

    def __str__(self) -> str:
        if not self.persistent:
            scheduler = "schedS"
        elif len(self.scheduler_stages) == 1:
            scheduler = f"schPdx{self.scheduler_stages[0]}"
        else:
            scheduler = f"schPd{_times(self.scheduler_stages)}"
        tokens = (
            "bmm",
            *self._dtype_tokens(),
            f"t{_times(self.tile)}{'u2' if self.unroll2 else ''}",
            f"s{_times(self.stages)}",
            f"et{_times(self.epilogue_tile)}",
            f"m{_times(self.mma)}",
            f"c{_times(self.cluster)}",
            "rM" if self.raster_m else "",
            f"splitK{self.split_k}" if self.split_k > 1 else "",
            self.layout,
            "transOut" if self.trans_out else "",
            "" if self.shuffled else "noShfl",
            "dsFp8" if self.deepseek_fp8 else "",
            scheduler,
            f"bias{self.bias_dtype}{self.bias_kind}" if self.bias_dtype else "",
            self.eltwise_act,
            f"eW{self.epilogue_warps}" if self.epilogue_warps else "",
            "fCp" if self.fused_copy else "",
            "tmOv" if self.tmem_overlap else "",
            "bN" if self.batch_n else "",
            self.routing,
            f"{self.sf_routing}Sf" if self.sf_routing else "",
            "rgTma" if self.rg_tma else "",
            "clmp" if self.clamp else "",
            self.gated_act,
            f"lbW{self.load_b_warps}" if self.load_b_warps else "",
            f"lsfbW{self.load_sf_b_warps}" if self.load_sf_b_warps else "",
            "dynB" if self.dynamic_batch else "",
            self.sm,
        )
        return "_".join(filter(None, tokens))


class _Slot(NamedTuple):
    """One position of the grammar: what may stand there, and whether it must."""

    name: str
    pattern: str
    required: bool = False


# No leading zeros and at most six digits: a number has one spelling, so names round-trip.
_INT = "[1-9][0-9]{0,5}"
_DTYPE = "(?:" + "|".join(sorted(DTYPES, key=len, reverse=True)) + ")"


def _ints(count: int) -> str:
    return "x".join([_INT] * count)


_SLOTS = (
    _Slot("the prefix", "bmm", required=True),
    _Slot("the output type", f"(?P<dtype_c>{_DTYPE})", required=True),
    _Slot("the operand types", f"(?P<dtype_a>{_DTYPE})(?P<dtype_b>{_DTYPE})", required=True),
    _Slot("the cast", f"cast(?P<cast>{_DTYPE})"),
    _Slot("patch", "(?P<patch>patch)"),
    _Slot("the accumulator type", f"(?P<dtype_acc>{_DTYPE})", required=True),
    _Slot("A's scale block", f"Ab(?P<sf_block_a>{_INT})"),
    _Slot(
        "B's scale",
        f"B(?=b|tok)(?:b(?P<sf_block_b>{_INT}))?(?:tok(?P<per_token_b>{_DTYPE}))?",
    ),
    _Slot("C's scale block", f"Cb(?P<sf_block_c>{_INT})"),
    _Slot("the tile", f"t(?P<tile>{_ints(3)})(?P<unroll2>u2)?", required=True),
    _Slot("the stages", f"s(?P<stages>{_INT}(?:x{_ints(5)})?)", required=True),
    _Slot("the epilogue tile", f"et(?P<epilogue_tile>{_ints(2)})", required=True),
    _Slot("the MMA shape", f"m(?P<mma>{_ints(3)})", required=True),
    _Slot("the cluster", f"c(?P<cluster>{_ints(3)})", required=True),
    _Slot("the raster order", "(?P<raster_m>rM)"),
    _Slot("split-K", f"splitK(?P<split_k>(?!1(?:_|$)){_INT})"),
    _Slot("the weight layout", "(?P<layout>TN|BN)", required=True),
    _Slot("transOut", "(?P<trans_out>transOut)"),
    _Slot("noShfl", "(?P<no_shuffle>noShfl)"),
    _Slot("dsFp8", "(?P<deepseek_fp8>dsFp8)"),
    _Slot(
        "the scheduler",
        f"(?:schedS|schPd(?P<scheduler_stages>x{_INT}|{_ints(4)}))",
        required=True,
    ),
    _Slot("the bias", f"bias(?P<bias_dtype>{_DTYPE})(?P<bias_kind>Mn|M)"),
    _Slot("the element-wise activation", "(?P<eltwise_act>relu2)"),
    _Slot("the epilogue warps", f"eW(?P<epilogue_warps>{_INT})"),
    _Slot("fCp", "(?P<fused_copy>fCp)"),
    _Slot("tmOv", "(?P<tmem_overlap>tmOv)"),
    _Slot("the batch dimension", "(?P<batch_n>bN)"),
    _Slot("the routing", "(?P<routing>ldgsts|tma)"),
    _Slot("the scale routing", "(?P<sf_routing>ldgsts|tma|ldg)Sf"),
    _Slot("rgTma", "(?P<rg_tma>rgTma)"),
    _Slot("clmp", "(?P<clamp>clmp)"),
    _Slot("the gated activation", f"(?P<gated_act>{'|'.join(GATED_ACTIVATIONS)})"),
    _Slot("the load warps", f"lbW(?P<load_b_warps>{_INT})"),
    _Slot("the scale-load warps", f"lsfbW(?P<load_sf_b_warps>{_INT})"),
    _Slot("dynB", "(?P<dynamic_batch>dynB)"),
    _Slot("the architecture", "(?P<sm>sm[1-9][0-9]{1,2}[af]?)", required=True),
)

_NAME = re.compile(
    "_".join(slot.pattern for slot in _SLOTS[:3])
    + "".join(
        f"_{slot.pattern}" if slot.required else f"(?:_{slot.pattern})?" for slot in _SLOTS[3:]
    )
)
_SLOT_PATTERNS = tuple(re.compile(slot.pattern) for slot in _SLOTS)


def parse(text: str) -> KernelName:
    """The fields of a kernel name.

    Raises:
        InputError: a token is unknown, out of place or missing; it and the kernel are named.
    """
    match = _NAME.fullmatch(text)
    if match is None:
        raise InputError(_diagnose(text))
    field = match.groupdict()
    work = field["scheduler_stages"]
    height, width = _numbers(field["epilogue_tile"])
    return KernelName(
        dtype_c=field["dtype_c"],
        dtype_a=field["dtype_a"],
        dtype_b=field["dtype_b"],
        cast=field["cast"],
        patch=field["patch"] is not None,
        dtype_acc=field["dtype_acc"],
        sf_block_a=_number(field["sf_block_a"]),
        sf_block_b=_number(field["sf_block_b"]),
        sf_block_c=_number(field["sf_block_c"]),
        per_token_b=field["per_token_b"],
        tile=Shape(*_numbers(field["tile"])),
        unroll2=field["unroll2"] is not None,
        stages=_numbers(field["stages"]),
        epilogue_tile=(height, width),
        mma=Shape(*_numbers(field["mma"])),
        cluster=Cluster(*_numbers(field["cluster"])),
        raster_m=field["raster_m"] is not None,
        split_k=_number(field["split_k"]) or 1,
        layout=field["layout"],
        trans_out=field["trans_out"] is not None,
        shuffled=field["no_shuffle"] is None,
        deepseek_fp8=field["deepseek_fp8"] is not None,
        persistent=work is not None,
        scheduler_stages=_numbers(work.removeprefix("x")) if work else (),
        bias_dtype=field["bias_dtype"],
        bias_kind=field["bias_kind"],
        eltwise_act=field["eltwise_act"],
        epilogue_warps=_number(field["epilogue_warps"]),
        fused_copy=field["fused_copy"] is not None,
        tmem_overlap=field["tmem_overlap"] is not None,
        batch_n=field["batch_n"] is not None,
        routing=field["routing"],
        sf_routing=field["sf_routing"],
        rg_tma=field["rg_tma"] is not None,
        clamp=field["clamp"] is not None,
        gated_act=field["gated_act"],
        load_b_warps=_number(field["load_b_warps"]),
        load_sf_b_warps=_number(field["load_sf_b_warps"]),
        dynamic_batch=field["dynamic_batch"] is not None,
        sm=field["sm"],
    )


def parse_all(names: Iterable[str]) -> dict[str, KernelName]:
    """:func:`parse` for many names, by name and in their order.

    Raises:
        InputError: every name that does not parse, at once.
    """
    parsed: dict[str, KernelName] = {}
    problems: list[Problem] = []
    for name in names:
        try:
            parsed[name] = parse(name)
        except InputError as error:
            problems.extend(error.problems)
    raise_all(InputError, problems)
    return parsed


def cubin_filename(name: str | KernelName) -> str:
    """The file that holds kernel ``bmm_x``: ``Bmm_x.cubin``.

    Raises:
        InputError: the name does not begin with ``bmm_`` (exactly, in lower case).
    """
    text = str(name)
    if not text.startswith(KERNEL_PREFIX):
        raise InputError.of(
            "not a batched-GEMM kernel name",
            shown(text),
            expected=f"a name that begins with {KERNEL_PREFIX}",
            found=shown(text[:16]),
            remedy="use the name as the metadata header spells it",
        )
    return FILE_PREFIX + text.removeprefix(KERNEL_PREFIX) + FILE_SUFFIX


def kernel_of_filename(filename: str) -> str:
    """The kernel in file ``Bmm_x.cubin``: ``bmm_x``. The inverse of :func:`cubin_filename`.

    Args:
        filename: a base name, without folders.

    Raises:
        InputError: another prefix (also in another case) or another suffix.
    """
    stem = filename.removesuffix(FILE_SUFFIX)
    if "/" in filename or stem == filename or not stem.startswith(FILE_PREFIX):
        raise InputError.of(
            "not the file name of a batched-GEMM cubin",
            shown(filename),
            expected=f"{FILE_PREFIX}<kernel>{FILE_SUFFIX}, exactly in this case",
            found=shown(filename),
            remedy="rename the file as its pool names it",
        )
    return KERNEL_PREFIX + stem.removeprefix(FILE_PREFIX)


def _diagnose(text: str) -> Problem:
    """What is wrong with a name that does not match: walk the grammar token by token."""
    position = 0
    for token in text.split("_"):
        fits = [i for i, pattern in enumerate(_SLOT_PATTERNS) if pattern.fullmatch(token)]
        ahead = next((i for i in fits if i >= position), None)
        skipped = next((s for s in _SLOTS[position:ahead] if s.required), None)
        if ahead is not None and skipped is None:
            position = ahead + 1
            continue
        wanted = next((s.name for s in _SLOTS[position:] if s.required), "the end of the name")
        if not fits:
            return _problem(text, "unknown token in a kernel name", wanted, token)
        if ahead is None:
            return _problem(text, "token out of place in a kernel name", wanted, token)
        return _problem(text, "token missing in a kernel name", wanted, token)
    missing = next(slot for slot in _SLOTS[position:] if slot.required)
    return _problem(text, "token missing in a kernel name", missing.name, "")


def _problem(text: str, what: str, wanted: str, token: str) -> Problem:
    return Problem(
        what,
        shown(text),
        expected=f"{wanted} or an option that may stand before it",
        found=f"token {shown(token)!r}" if token else "the end of the name",
        remedy="add the token to situ_release/sources/kernel_name.py once its meaning is known",
    )


def _number(text: str | None) -> int | None:
    return None if text is None else int(text)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split("x")))


def _times(numbers: tuple[int, ...]) -> str:
    return "x".join(map(str, numbers))
