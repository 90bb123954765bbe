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

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

from situ_release.errors import InputError, Problem, raise_all
from situ_release.sources.faults import shown
from situ_release.sources.kernel_grammar import NAME, diagnose

KERNEL_PREFIX = "bmm_"
FILE_PREFIX = "Bmm_"
"""How the names of batched-GEMM kernels begin, and how their files do."""

FILE_PREFIXES: Mapping[str, str] = {
    KERNEL_PREFIX: FILE_PREFIX,
    "gemm_": "Gemm_",
    "fmhaSm": "fmhaSm",
}
"""The same for all pools that are known: plain GEMM and attention kernels too."""

FILE_SUFFIX = ".cubin"


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


class KernelName(NamedTuple):
    """Every token of a kernel's name; ``str(name)`` is the name again, character by character.

    What the tokens mean was read off the options of the same kernels in the public metadata header;
    :mod:`situ_release.sources.kernel_options` holds the two against each other.

    Attributes:
        dtype_c: element type of the output.
        dtype_a: element type of the weights.
        dtype_b: element type of the activations that go in.
        cast: type that an operand has in the MMA, where it is stored in another one (``cast``).
        patch: patched float conversions (``patch``); the runner takes such kernels only for the
            SM that they name.
        dtype_acc: accumulator type.
        sf_block_a: elements per scale factor of the weights (``Ab``), None without block scales.
        sf_block_b: the same for the activations (``Bb``).
        sf_block_c: the same for the output (``Cb``).
        per_token_b: type of the activations' per-token scale (``tok``), None without.
        tile: CTA tile.
        unroll2: the main loop is unrolled twice (``u2``).
        stages: pipeline stages: one number, or six for A, B, A's and B's scales in shared memory,
            A's and B's scales in tensor memory.
        epilogue_tile: rows and columns of an epilogue tile, in elements.
        mma: shape of the MMA instruction.
        cluster: cluster dimensions; z is the number of split-K slices in one cluster.
        raster_m: CTAs are rasterized along M (``rM``).
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
        epilogue_warps: epilogue warps where not four (``eW``).
        fused_copy: copies to tensor memory are fused with the MMA (``fCp``).
        tmem_overlap: tensor memory is overlapped as far as possible (``tmOv``).
        batch_n: the experts' tokens lie along N (``bN``).
        routing: how routed rows of the activations are gathered (``ldgsts`` or ``tma``), None when
            the input is already permuted.
        sf_routing: the same for their scale factors (``ldgsts``, ``tma`` or ``ldg``).
        rg_tma: the ``rgTma`` token; in the public header always with ``mUseTmaOobOpt``.
        clamp: dequantized values are clamped before the activation (``clmp``).
        gated_act: gated activation, ``act(gate) * up``, None without.
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


@lru_cache(maxsize=8192)
def parse(text: str) -> KernelName:
    """The fields of a kernel name; a name that several readers ask for is parsed once.

    Raises:
        InputError: a token is unknown, out of place or missing; it and the kernel are named.
    """
    match = NAME.fullmatch(text)
    if match is None:
        raise InputError(diagnose(text))
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
    """The file that holds a kernel: ``Bmm_x.cubin`` for ``bmm_x``.

    Raises:
        InputError: the name has none of the prefixes of :data:`FILE_PREFIXES`, exactly.
    """
    text = str(name)
    for kernel_prefix, file_prefix in FILE_PREFIXES.items():
        if text.startswith(kernel_prefix):
            return file_prefix + text.removeprefix(kernel_prefix) + FILE_SUFFIX
    raise InputError.of(
        "not a kernel name",
        shown(text),
        expected=f"a name that begins with {' or '.join(FILE_PREFIXES)}, exactly in this case",
        found=repr(shown(text[:16])),
        remedy="use the name as the metadata header spells it",
    )


def kernel_of_filename(filename: str) -> str:
    """The kernel in a file: ``bmm_x`` for ``Bmm_x.cubin``. The inverse of :func:`cubin_filename`.

    Args:
        filename: a base name, without folders.

    Raises:
        InputError: another prefix (also in another case) or another suffix.
    """
    if filename.endswith(FILE_SUFFIX) and "/" not in filename:
        for kernel_prefix, file_prefix in FILE_PREFIXES.items():
            if filename.startswith(file_prefix):
                return kernel_prefix + filename.removeprefix(file_prefix).removesuffix(FILE_SUFFIX)
    prefixes = " or ".join(FILE_PREFIXES.values())
    raise InputError.of(
        "not the file name of a kernel's cubin",
        shown(filename),
        expected=f"{prefixes}, then the kernel, then {FILE_SUFFIX}, exactly in this case",
        found=repr(shown(filename, 60)),
        remedy="name the file as its pool names it",
    )


def _number(text: str | None) -> int | None:
    return None if text is None else int(text)


@lru_cache(maxsize=1024)  # thousands of names spell a few dozen shapes
def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split("x")))


def _times(numbers: tuple[int, ...]) -> str:
    return "x".join(map(str, numbers))
