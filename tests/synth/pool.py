"""Mini pools and snapshots on disk: real names and formats, synthetic content."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from situ_release.sources.checksums import write_checksums
from situ_release.sources.kernel_name import cubin_filename, parse
from situ_release.sources.kernel_options import ACTIVATION_CODES, DTYPE_CODES, expected_options
from situ_release.sources.marker import RecoveredMarker, write_marker
from situ_release.sources.metadata_header import MetadataEntry, Option, write_header
from tests.synth.elf import make_cubin

_W4A16 = "bmm_Bfloat16_MxE2m1Bfloat16_castBfloat16_patch_Fp32_Ab32"
_W4A8_FC1 = "bmm_MxE4m3_MxE2m1MxE4m3_Fp32_Ab32_Bb32_Cb32"
_W4A8_FC2 = "bmm_Bfloat16_MxE2m1MxE4m3_Fp32_Ab32_Bb32"

FAMILIES: Mapping[str, tuple[str, str]] = {
    "w4a16-fc1": (
        (
            f"{_W4A16}_t128x8x256u2_s3_et128x8_m128x8x16_c1x1x1_rM_TN_transOut_schedS_biasFp32M_bN"
            "_ldgsts_ldgstsSf_rgTma_clmp_siTuGlu_dynB_sm103a"
        ),
        (
            f"{_W4A16}_t128x16x256u2_s3_et128x16_m128x16x16_c1x1x1_rM_TN_transOut_schPd2x1x2x3"
            "_biasFp32M_bN_ldgsts_ldgstsSf_rgTma_clmp_siTuGlu_dynB_sm103a"
        ),
    ),
    "w4a16-fc2": (
        (
            f"{_W4A16}_t128x8x256u2_s3_et128x8_m128x8x16_c1x1x1_rM_TN_transOut_schedS_biasFp32M_bN"
            "_rgTma_clmp_dynB_sm103a"
        ),
        (
            f"{_W4A16}_t128x16x256u2_s3_et128x16_m128x16x16_c1x1x1_rM_TN_transOut_schPd2x1x2x3"
            "_biasFp32M_bN_rgTma_clmp_dynB_sm103a"
        ),
    ),
    "w4a8-fc1": (
        (
            f"{_W4A8_FC1}_t128x8x256_s4_et128x8_m128x8x32_c1x1x1_rM_TN_transOut_schedS_biasFp32M_bN"
            "_tma_ldgstsSf_rgTma_clmp_siTuGlu_dynB_sm100f"
        ),
        (
            f"{_W4A8_FC1}_t128x16x256_s3_et128x16_m128x16x32_c1x1x1_rM_TN_transOut_schedS_biasFp32M_bN"
            "_tma_ldgstsSf_rgTma_clmp_siTuGlu_dynB_sm100f"
        ),
    ),
    "w4a8-fc2": (
        (
            f"{_W4A8_FC2}_t128x8x256_s5_et128x8_m128x8x32_c1x1x1_rM_TN_transOut_schPd2x1x2x3_biasFp32M"
            "_bN_rgTma_clmp_dynB_sm100f"
        ),
        (
            f"{_W4A8_FC2}_t128x8x256_s4_et128x8_m128x8x32_c1x1x2_rM_splitK2_TN_transOut_schPd2x1x2x3"
            "_biasFp32M_bN_rgTma_clmp_dynB_sm100f"
        ),
    ),
}
"""Two kernels of each family of the first bundle, by the recipe's family names."""

KERNELS: tuple[str, ...] = tuple(name for pair in FAMILIES.values() for name in pair)

NEAR_MISSES: tuple[str, ...] = (
    FAMILIES["w4a8-fc1"][0].replace("siTuGlu", "swiGlu"),
    FAMILIES["w4a8-fc1"][0].replace("_siTuGlu", "").replace("_tma_ldgstsSf", ""),
    FAMILIES["w4a8-fc1"][0].replace("MxE2m1MxE4m3", "MxE4m3MxE4m3"),
    FAMILIES["w4a16-fc1"][0].replace("sm103a", "sm100f"),
)
"""Kernels (CASES A4) that look like those of a family and are none of it; all have valid names."""

UNKNOWN_NAMES: tuple[str, ...] = (
    FAMILIES["w4a8-fc1"][0].replace("siTuGlu", "siTuGlu_extra"),
    FAMILIES["w4a8-fc1"][0].replace("siTuGlu", "siTuGluX"),
    FAMILIES["w4a8-fc1"][0].replace("bmm_MxE4m3", "bmm_E2m1xFp32"),
)
"""Names with a token that the grammar does not have."""

EXPORT_VERSION = "7.0.4.0.4.0"
VERSION = "0.6.13rc1"
INCLUDES: Mapping[str, bytes] = {
    "include/trtllmGen_bmm_export/Enums.h": b"// enumerations\n",
    "include/trtllmGen_bmm_export/trtllm/gen/DtypeDecl.h": b"// types\n",
}


@dataclass
class MiniPool:
    """A pool on disk that a test may change; :meth:`refresh` makes checksums.txt true again.

    Attributes:
        root: the pool's folder.
        kernels: names in header order.
        paths: relative path of each kernel's cubin.
    """

    root: Path
    kernels: tuple[str, ...]
    paths: dict[str, str]

    @property
    def header(self) -> Path:
        return next((self.root / "include").glob("flash*MetaInfo.h"))

    @property
    def checksums(self) -> Path:
        return self.root / "checksums.txt"

    def cubin(self, kernel: str) -> Path:
        return self.root / self.paths[kernel]

    def sha256(self, kernel: str) -> str:
        """Digest of the kernel's file as it is now."""
        return hashlib.sha256(self.cubin(kernel).read_bytes()).hexdigest()

    def table(self) -> list[tuple[str, str]]:
        """Pairs of kernel and digest, as a runner has them compiled in."""
        return [(kernel, self.sha256(kernel)) for kernel in self.kernels]

    def refresh(self) -> None:
        """Write checksums.txt anew from the cubins and headers that lie there."""
        listed = [*self.root.rglob("*.cubin"), *(self.root / "include").rglob("*.h")]
        digests = {
            path.relative_to(self.root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in listed
        }
        self.checksums.write_bytes(write_checksums(digests))


def make_pool(
    folder: Path,
    kernels: Sequence[str] = KERNELS,
    *,
    name: str = "pool",
    near_misses: bool = False,
    options: bool = False,
    header_name: str = "flashinferMetaInfo.h",
    export_version: str | None = EXPORT_VERSION,
    config: bytes | None = b'{"pool": "synthetic"}\n',
    marker: RecoveredMarker | None = None,
    path_of: Callable[[str], str] = cubin_filename,
    cubin_of: Callable[[str], bytes] | None = None,
) -> MiniPool:
    """Write a complete, consistent pool to ``folder / name``.

    Args:
        folder: where the pool's folder is made.
        kernels: names, in header order.
        name: the pool's name.
        near_misses: add :data:`NEAR_MISSES` to the kernels.
        options: give header entries options that agree with their names.
        header_name: spelling of the header's file name.
        export_version: None leaves it out.
        config: content of config.json; None for a pool without.
        marker: marks the pool as recovered.
        path_of: relative path of a kernel's cubin.
        cubin_of: a kernel's cubin instead of a synthetic one with the right SM and symbol.
    """
    root = folder / name
    listed = (*kernels, *(NEAR_MISSES if near_misses else ()))
    paths = {kernel: path_of(kernel) for kernel in listed}
    entries = []
    for index, kernel in enumerate(listed):
        content = cubin_of(kernel) if cubin_of else cubin_for(kernel, seed=index)
        _write(root / paths[kernel], content)
        entries.append(
            MetadataEntry(
                name=kernel,
                sha256=hashlib.sha256(content).hexdigest(),
                sm=kernel.rpartition("_")[2],
                shared_memory_bytes=65536,
                threads=384,
                option_text=options_for(kernel) if options else None,
            )
        )
    comment = "A synthetic pool for tests."
    header = write_header(entries, comment=comment, export_version=export_version)
    _write(root / "include" / header_name, header)
    for path, content in INCLUDES.items():
        _write(root / path, content)
    if config is not None:
        _write(root / "config.json", config)
    if marker is not None:
        write_marker(root, marker)
    pool = MiniPool(root, listed, paths)
    pool.refresh()
    return pool


def cubin_for(kernel: str, seed: int = 0) -> bytes:
    """A synthetic cubin with the SM and symbol that the kernel's name asks for."""
    sm = kernel.rpartition("_sm")[2]
    return make_cubin(
        kernel, sm=int(sm.rstrip("af")), arch_specific=sm.endswith("a"), code_size=128, seed=seed
    )


def options_for(kernel: str) -> str:
    """Options that agree with a kernel's name, as C++ text."""
    name = parse(kernel)
    options: dict[str, Option] = {"mBiasDtype": DTYPE_CODES["Fp32"], **expected_options(name)}
    options["mPerTokenSfDtype"] = DTYPE_CODES[name.per_token_b or "Bfloat16"]
    for operand, stored in (("A", name.dtype_a), ("B", name.dtype_b)):
        options[f"mDtypeMma{operand}"] = DTYPE_CODES[stored]
    if name.cast is not None:
        operand = "B" if name.cast.startswith("Mx") else "A"
        options[f"mDtypeMma{operand}"] = DTYPE_CODES[name.cast]
    options["mActType"] = ACTIVATION_CODES.get(name.gated_act or "swiGlu", 3)
    for part in ("Mma", "MmaWithinWorkTile", "MmaAcrossWorkTile", "WorkId"):
        options.setdefault(f"mNumStages{part}", 1)
    return (
        " "
        + "\n, ".join(
            f"/* {field} */ {_cpp(field, value)}" for field, value in sorted(options.items())
        )
        + "\n "
    )


def _cpp(field: str, value: Option) -> str:
    if isinstance(value, tuple):
        return "{" + ", ".join(f"batchedGemm::RouteImpl({item})" for item in value) + "}"
    return f"trtllm::gen::Dtype({value})" if "Dtype" in field else str(value)


def make_snapshot(
    folder: Path,
    *,
    layout: str = "git",
    name: str = "snapshot",
    version: str = VERSION,
    marker: RecoveredMarker | None = None,
) -> Path:
    """Write a snapshot to ``folder / name``.

    Args:
        folder: where the snapshot's folder is made.
        layout: ``git`` (a committed checkout), ``files`` (the same without git) or ``wheel`` (what
            the flashinfer-python wheel unpacks to).
        name: the folder's name.
        version: the version it states.
        marker: marks the snapshot as recovered.
    """
    root = folder / name
    if layout == "wheel":
        info = f"flashinfer_python-{version}.dist-info"
        metadata = f"Metadata-Version: 2.4\nName: flashinfer-python\nVersion: {version}\n\ntext\n"
        meta = f'__version__ = "{version}"\n__git_version__ = "{"57ba7eeb" * 5}"\n'
        _write(root / info / "METADATA", metadata.encode())
        _write(root / info / "licenses" / "LICENSE", b"Apache License\n")
        _write(root / "flashinfer" / "_build_meta.py", meta.encode())
    else:
        _write(root / "version.txt", f"{version}\n".encode())
        _write(root / "LICENSE", b"Apache License\n")
        _write(root / "NOTICE", b"FlashInfer notice\n")
        _write(root / "licenses" / "LICENSE.cutlass.txt", b"BSD 3-Clause\n")
        _write(root / "csrc" / "runner.cu", b"// source\n")
    if marker is not None:
        write_marker(root, marker)
    if layout == "git":
        git(root, "init", "--quiet", "--initial-branch=main")
        git(root, "add", "--all")
        git(root, "commit", "--quiet", "--message=snapshot")
    return root


def git(root: Path, *arguments: str) -> str:
    """Run git with a fixed identity and time, and without the user's configuration."""
    person = {"NAME": "Test", "EMAIL": "test@example.invalid", "DATE": "2026-01-02T03:04:05Z"}
    environment = {
        f"GIT_{who}_{k}": v for who in ("AUTHOR", "COMMITTER") for k, v in person.items()
    }
    environment |= {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(
        ["git", "-C", str(root), *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
