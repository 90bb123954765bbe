"""Facts of one cubin."""

from __future__ import annotations

from dataclasses import dataclass

from situ_release.digests import sha256_bytes
from situ_release.errors import InputError
from situ_release.sources.cubin import Cubin, CubinKernel, Toolchain, read_cubin
from situ_release.sources.kernel_name import KernelName, parse
from situ_release.sources.sm_target import target_name

_GEMM = "bmm_"


@dataclass(frozen=True, slots=True)
class CubinFacts:
    """What a cubin says about itself, see :class:`situ_release.sources.cubin.Cubin`.

    Attributes:
        target: ``sm_103a`` for an architecture-specific one, else ``sm_100``: files do not tell
            whether they are family-specific (``sm_100f``).
        size: bytes.
        device_code_sha256: digest over what the GPU executes and reads.
        embedded_paths: absolute build paths in the file.
    """

    target: str
    sm: int
    arch_specific: bool | None
    size: int
    sha256: str
    device_code_sha256: str
    abi_version: int
    toolkit: str | None
    toolchain: Toolchain | None
    kernels: tuple[CubinKernel, ...]
    has_line_info: bool
    embedded_paths: tuple[str, ...]

    @property
    def most_registers(self) -> int:
        """Registers per thread of the kernel that takes most; 0 where no kernel says."""
        return max((kernel.registers or 0 for kernel in self.kernels), default=0)

    @property
    def kernel_name(self) -> KernelName | None:
        """The batched-GEMM kernel in it, taken apart; None where its kernels are of other kinds."""
        for kernel in self.kernels:
            if kernel.name.startswith(_GEMM):
                try:
                    return parse(kernel.name)
                except InputError:
                    continue
        return None


def cubin_facts(data: bytes, where: str) -> CubinFacts:
    """Facts of a cubin.

    Raises:
        InputError: not a cubin, or a damaged one.
    """
    return facts_of(read_cubin(data, where), data)


def facts_of(cubin: Cubin, data: bytes) -> CubinFacts:
    """Facts of a cubin that was read already; ``data`` is its content."""
    return CubinFacts(
        target=target_name(cubin.sm, "a" if cubin.arch_specific else ""),
        sm=cubin.sm,
        arch_specific=cubin.arch_specific,
        size=len(data),
        sha256=sha256_bytes(data),
        device_code_sha256=cubin.device_code_sha256,
        abi_version=cubin.abi_version,
        toolkit=cubin.toolkit,
        toolchain=cubin.toolchain,
        kernels=cubin.kernels,
        has_line_info=cubin.has_line_info,
        embedded_paths=cubin.embedded_paths,
    )
