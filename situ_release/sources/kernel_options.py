"""Whether a kernel's options in the metadata header agree with its name.

The runner selects by options, people and recipes by name: where the two differ, one of them lies.
The table below was derived from the public header of flashinfer-cubin 0.6.13 and holds for all of
its 2,108 entries; the numbers of the enumerations are those of the headers that lie beside it.
"""

from __future__ import annotations

from collections.abc import Mapping

from situ_release.errors import Problem
from situ_release.sources.kernel_name import KernelName
from situ_release.sources.metadata_header import MetadataEntry, Option

DTYPE_CODES: Mapping[str, int] = {
    "Bfloat16": 0x101000,
    "E2m1": 0x1100402,
    "E4m3": 0x100805,
    "Fp16": 0x101007,
    "Fp32": 0x102008,
    "MxE2m1": 0x110040C,
    "MxE4m3": 0x110080D,
    "MxInt4": 0x111040E,
}
"""``trtllm::gen::Dtype`` values.

Byte 0 is a number, byte 1 the bits; bit 16 integer, bit 20 signed, bit 24 block-scaled.
"""

ACTIVATION_CODES: Mapping[str, int] = {"swiGlu": 0, "geGlu": 1}
"""``ActType`` values of public headers, where 2 is "none". ``siTuGlu`` has another one."""

_NO_ACTIVATION = 2
_BIAS_CODES: Mapping[str | None, int] = {None: 0, "M": 1, "Mn": 3}
_ROUTE_CODES: Mapping[str | None, int] = {None: 0, "ldgsts": 1, "tma": 2, "ldg": 3}
_LAYOUT_CODES: Mapping[str, int] = {"TN": 0, "BN": 2}
_ELTWISE_CODES: Mapping[str | None, int] = {None: 0, "relu2": 2}
_STAGES = ("A", "B", "SmemSfA", "SmemSfB", "TmemSfA", "TmemSfB")
_WORK_STAGES = ("Mma", "MmaWithinWorkTile", "MmaAcrossWorkTile", "WorkId")
_EPILOGUE_WARPS = 4
_NOT_SET = -1


def check_options(entry: MetadataEntry, name: KernelName, where: str) -> list[Problem]:
    """Every disagreement between an entry's options and SM and its name; empty when they agree.

    Args:
        entry: the header's entry; without options only its SM is compared.
        name: the parsed name of that entry.
        where: the header, used in problems (:meth:`MetadataHeader.place`).
    """
    differences = {} if entry.sm == name.sm else {"SmVersion": (name.sm, entry.sm)}
    options = entry.options
    if options is not None:
        differences |= {
            field: (str(value), str(options.get(field, "no such option")))
            for field, value in expected_options(name).items()
            if options.get(field) != value
        }
        differences |= _check_cast(options, name) | _check_activation(options, name)
    return [
        Problem(
            "name and options of a kernel disagree",
            where,
            expected=f"{field} {expected} by the name {entry.name}",
            found=found,
            remedy="use a header that the pool's own generator wrote",
        )
        for field, (expected, found) in differences.items()
    ]


def expected_options(name: KernelName) -> dict[str, Option]:
    """The options that a name fixes, by field name.

    MMA operand types and the gated activation's number are not among them: see
    :func:`check_options`.
    """
    stages = name.stages * len(_STAGES) if len(name.stages) == 1 else name.stages
    expected: dict[str, Option] = {
        "mDtypeA": DTYPE_CODES[name.dtype_a],
        "mDtypeB": DTYPE_CODES[name.dtype_b],
        "mDtypeC": DTYPE_CODES[name.dtype_c],
        "mDtypeAcc": DTYPE_CODES[name.dtype_acc],
        "mPatchF2fp": int(name.patch),
        "mSfBlockSizeA": name.sf_block_a or _NOT_SET,
        "mSfBlockSizeB": name.sf_block_b or _NOT_SET,
        "mSfBlockSizeC": name.sf_block_c or _NOT_SET,
        "mUsePerTokenSfB": int(name.per_token_b is not None),
        "mTileM": name.tile.m,
        "mTileN": name.tile.n,
        "mTileK": name.tile.k,
        "mUseUnrollLoop2xForMma": int(name.unroll2),
        "mEpilogueTileM": name.epilogue_tile[0],
        "mEpilogueTileN": name.epilogue_tile[1],
        "mMmaM": name.mma.m,
        "mMmaN": name.mma.n,
        "mMmaK": name.mma.k,
        "mClusterDimX": name.cluster.x,
        "mClusterDimY": name.cluster.y,
        "mClusterDimZ": name.cluster.z,
        "mCtaSwizzleType": int(not name.raster_m),
        "mNumSlicesForSplitK": name.split_k,
        "mLayoutA": _LAYOUT_CODES[name.layout],
        "mTransposeMmaOutput": int(name.trans_out),
        "mUseShuffledMatrix": int(name.shuffled),
        "mUseDeepSeekFp8": int(name.deepseek_fp8),
        "mTileScheduler": int(name.persistent),
        "mBiasType": _BIAS_CODES[name.bias_kind],
        "mEltwiseActType": _ELTWISE_CODES[name.eltwise_act],
        "mNumEpilogueWarps": name.epilogue_warps or _EPILOGUE_WARPS,
        "mFuseUtccpWithUtcmma": int(name.fused_copy),
        "mUseMaxTmemOverlap": int(name.tmem_overlap),
        "mBatchMode": int(name.batch_n),
        "mRouteImpl": _ROUTE_CODES[name.routing],
        "mRouteSfsImpl": (_ROUTE_CODES[name.sf_routing],),
        "mUseTmaOobOpt": int(name.rg_tma),
        "mClampBeforeAct": int(name.clamp),
        "mFusedAct": int(name.gated_act is not None),
        "mNumWarpsLoadB": name.load_b_warps or 0,
        "mNumWarpsLoadSfB": name.load_sf_b_warps or 0,
        "mIsStaticBatch": int(not name.dynamic_batch),
    }
    expected |= {f"mNumStages{part}": n for part, n in zip(_STAGES, stages, strict=True)}
    # `schPdx3` gives only the last of the four.
    work = _WORK_STAGES[-len(name.scheduler_stages) :] if name.persistent else ()
    expected |= {
        f"mNumStages{part}": n for part, n in zip(work, name.scheduler_stages, strict=True)
    }
    if name.bias_dtype is not None:
        expected["mBiasDtype"] = DTYPE_CODES[name.bias_dtype]
    if name.per_token_b is not None:
        expected["mPerTokenSfDtype"] = DTYPE_CODES[name.per_token_b]
    return expected


def _check_cast(options: Mapping[str, Option], name: KernelName) -> dict[str, tuple[str, str]]:
    """Operands that the MMA sees in another type must have exactly the type after ``cast``."""
    changed = {
        options.get(f"mDtypeMma{operand}")
        for operand in "AB"
        if options.get(f"mDtypeMma{operand}") != options.get(f"mDtype{operand}")
    }
    expected = set() if name.cast is None else {DTYPE_CODES[name.cast]}
    if changed == expected:
        return {}
    found = f"{options.get('mDtypeMmaA')} and {options.get('mDtypeMmaB')}"
    return {"mDtypeMmaA or mDtypeMmaB": (f"cast to {name.cast or 'nothing'}", found)}


def _check_activation(
    options: Mapping[str, Option], name: KernelName
) -> dict[str, tuple[str, str]]:
    """A known activation has its number; any other has none of the known ones.

    Without a gated activation the number has no meaning, and real headers hold several.
    """
    found = options.get("mActType", "no such option")
    if name.gated_act is None:
        return {}
    known = ACTIVATION_CODES.get(name.gated_act)
    others = {*ACTIVATION_CODES.values(), _NO_ACTIVATION}
    if found == known or (known is None and isinstance(found, int) and found not in others):
        return {}
    return {"mActType": (name.gated_act if known is None else str(known), str(found))}
