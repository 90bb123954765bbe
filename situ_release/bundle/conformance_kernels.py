"""The kernels of a conformance bundle: a TOML list beside their sources, and its C++ form."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from situ_release import toml
from situ_release.bundle.model_faults import validation_problems
from situ_release.bundle.recipe import Arch
from situ_release.errors import InputError
from situ_release.sources import kernel_name
from situ_release.sources.kernel_name import KernelName
from situ_release.sources.kernel_options import DTYPE_CODES, expected_options
from situ_release.sources.metadata_header import MetadataEntry, Option

_TILE_ROWS = 128
_WARP_ROWS = 32
_WARP_COLUMNS = 64
_ROW_PADDING = 8
_STAGED_PADDING = 2

_ACTIVATION_CODES: Mapping[str | None, int] = {None: 2, "siTuGlu": 3}
"""``mActType`` in the header; 2 is "none" in every header, 3 is free there."""

_ALIGNMENT = 8
_NUL = r"\0"


class _Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Family(_Closed):
    precision: Literal["w4a16", "w4a8"]
    role: Literal["fc1", "fc2"]
    tile_n: list[Annotated[int, Field(ge=8, le=256, multiple_of=8)]]
    name: str


class _KernelList(_Closed):
    architectures: list[Arch]
    tile_k: list[Annotated[int, Field(ge=32, le=512, multiple_of=32)]]
    families: list[_Family]


@dataclass(frozen=True, slots=True)
class ConformanceKernel:
    """One kernel: its name, and what the name does not spell."""

    name: KernelName
    precision: Literal["w4a16", "w4a8"]
    role: Literal["fc1", "fc2"]

    @property
    def threads(self) -> int:
        """Threads of a CTA: a warp for 32 rows and up to 64 tokens."""
        columns = max(1, self.name.tile.n // _WARP_COLUMNS)
        return 32 * (_TILE_ROWS // _WARP_ROWS) * columns

    @property
    def shared_bytes(self) -> int:
        """Dynamic shared memory: both operands as bfloat16, or FC1's staged float32 products."""
        tile = self.name.tile
        operands = 2 * (tile.k + _ROW_PADDING) * (_TILE_ROWS + tile.n)
        staged = 4 * (_TILE_ROWS + _STAGED_PADDING) * tile.n if self.role == "fc1" else 0
        return max(operands, staged)

    def defines(self) -> list[str]:
        """Arguments for nvcc that make ``kernels/gemm.cu`` this kernel."""
        values: Mapping[str, object] = {
            "NAME": self.name,
            "GATED": int(self.role == "fc1"),
            "MX": int(self.precision == "w4a8"),
            "TILE_N": self.name.tile.n,
            "TILE_K": self.name.tile.k,
            "THREADS": self.threads,
            "SHARED_BYTES": self.shared_bytes,
        }
        return [f"-DSITU_{key}={value}" for key, value in values.items()]

    def metadata_entry(self, sha256: str) -> MetadataEntry:
        """The kernel's row of ``flashinferMetaInfo.h``; ``sha256`` is its cubin's."""
        mma = DTYPE_CODES[self.name.cast or self.name.dtype_b]
        options: dict[str, Option] = {
            **expected_options(self.name),
            "mDtypeMmaA": mma,
            "mDtypeMmaB": mma,
            "mActType": _ACTIVATION_CODES[self.name.gated_act],
        }
        return MetadataEntry(
            name=str(self.name),
            sha256=sha256,
            sm=self.name.sm,
            shared_memory_bytes=self.shared_bytes,
            threads=self.threads,
            option_text=", ".join(f"/* {key} */ {_cpp(options[key])}" for key in sorted(options)),
        )


def read_kernels(path: Path) -> list[ConformanceKernel]:
    """The kernels of a ``kernels.toml``, in table order.

    Raises:
        InputError: unreadable, not such a list, or a name that the grammar does not know.
    """
    _, document = toml.load(path, "kernel list")
    try:
        kernels = _KernelList.model_validate(document)
    except ValidationError as error:
        raise InputError(*validation_problems(error, str(path), "kernel list")) from error
    return list(_expand(kernels))


def kernel_table_cpp(digests: Mapping[str, str], kernels: list[ConformanceKernel]) -> str:
    """``kernel_table.inc``: the table that the runner is compiled with.

    Args:
        digests: SHA-256 of each cubin by kernel name.
        kernels: in table order.
    """
    # NULs first, so that whatever lies before the table does not run into the first name.
    text = [f'  "{_NUL * _ALIGNMENT}"']
    rows: list[str] = []
    offset = _ALIGNMENT

    def place(string: str) -> int:
        nonlocal offset
        start = offset
        padding = -(len(string) + 1) % _ALIGNMENT
        text.append(f'  "{string}" "{_NUL * (1 + padding)}"')
        offset += len(string) + 1 + padding
        return start

    for kernel in kernels:
        name, sm = str(kernel.name), kernel.name.sm.removeprefix("sm")
        fields = [
            place(name),
            place(digests[name]),
            f"Role::k{kernel.role.capitalize()}",
            f"Precision::k{kernel.precision.capitalize()}",
            kernel.name.tile.n,
            kernel.name.tile.k,
            sm[:-1],
            f"'{sm[-1]}'",
            kernel.threads,
            kernel.shared_bytes,
        ]
        rows.append(f"  SITU_KERNEL({', '.join(map(str, fields))})")
    return "\n".join(
        (
            "#define SITU_TABLE_TEXT \\",
            " \\\n".join(text),
            "",
            "#define SITU_TABLE_KERNELS \\",
            " \\\n".join(rows),
            "",
        )
    )


def _expand(kernels: _KernelList) -> Iterator[ConformanceKernel]:
    for family in kernels.families:
        for architecture, tile_n, tile_k in itertools.product(
            kernels.architectures, family.tile_n, kernels.tile_k
        ):
            name = family.name.format(architecture=architecture, tile_n=tile_n, tile_k=tile_k)
            yield ConformanceKernel(kernel_name.parse(name), family.precision, family.role)


def _cpp(value: Option) -> str:
    return str(value) if isinstance(value, int) else "{" + ", ".join(map(str, value)) + "}"
