"""Small bundle wheels and payload projects, made of synthetic binaries: eight cubins and a runner.

Break one by editing what goes in: ``edit`` sees the files before RECORD is written (a wheel that is
consistent in itself and wrong), ``tamper`` sees them afterwards (RECORD no longer fits).
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from situ_release import resources
from situ_release.bundle.recipe import Recipe, load_recipe
from tests.synth.elf import DEFAULT_NEEDED, DEFAULT_VERSIONS, make_cubin, make_runner

PACKAGE = "tokenspeed_situ"
VERSION = "0.1.0.post20260727"
DIST_INFO = f"{PACKAGE}-{VERSION}.dist-info"
PUBLISHED_TAG = "py3-none-manylinux_2_39_x86_64"
RAW_TAG = "py3-none-linux_x86_64"
RUNNER = f"{PACKAGE}/lib/fused_moe_k3_situ_sm103.so"
MANIFEST = f"{PACKAGE}/manifest.json"
METADATA_SHA256 = "a61443e1" + "5a" * 28
MODULE_NAME = "fused_moe_synthetic_a61443e1"
GENERATED_AT = "2026-07-26T10:22:01.948560+00:00"

Files = dict[str, bytes]
Edit = Callable[[Files], object]

_KERNELS = {
    "w4a16-fc1": "bmm_Bfloat16_MxE2m1Bfloat16_castBfloat16_patch_Fp32_Ab32_t128x{n}x256_s3"
    "_et128x{n}_m128x{n}x16_c1x1x1_rM_TN_transOut_schedS_biasFp32M_bN_ldgsts_ldgstsSf_rgTma_clmp_siTuGlu"
    "_dynB_sm103a",
    "w4a16-fc2": "bmm_Bfloat16_MxE2m1Bfloat16_castBfloat16_patch_Fp32_Ab32_t128x{n}x256_s3"
    "_et128x{n}_m128x{n}x16_c1x1x1_rM_TN_transOut_schedS_biasFp32M_bN_rgTma_clmp_dynB_sm103a",
    "w4a8-fc1": "bmm_MxE4m3_MxE2m1MxE4m3_Fp32_Ab32_Bb32_Cb32_t128x{n}x128_s7_et128x{n}_m128x{n}x32"
    "_c1x1x1_rM_TN_transOut_schPd2x1x2x3_biasFp32M_bN_tma_ldgstsSf_rgTma_clmp_siTuGlu_lbW8_lsfbW4"
    "_dynB_sm100f",
    "w4a8-fc2": "bmm_Bfloat16_MxE2m1MxE4m3_Fp32_Ab32_Bb32_t128x{n}x128_s7_et128x{n}_m128x{n}x32"
    "_c1x1x1_rM_TN_transOut_schPd2x1x2x3_biasFp32M_bN_rgTma_clmp_dynB_sm100f",
}
OTHER_KERNEL = (
    "bmm_MxE4m3_MxE4m3MxE4m3_Fp32_Ab32_Bb32_Cb32_t128x8x128_s7_et128x8_m128x8x32_c1x1x1_rM_TN"
    "_transOut_schPd2x1x2x3_biasFp32M_bN_rgTma_clmp_dynB_sm100f"
)
"""A kernel of the runner's table that no family of the recipe takes."""


def mini_recipe_text(per_family: int = 2) -> str:
    """The shipped recipe with ``per_family`` cubins in each family."""
    text = (resources.recipes() / "kimi-k3-situ.toml").read_text(encoding="utf-8")
    return re.sub(r"(?m)^count = \d+$", f"count = {per_family}", text)


def write_mini_recipe(folder: Path, per_family: int = 2) -> Path:
    """:func:`mini_recipe_text` as a file to pass as ``--recipe``."""
    path = folder / "kimi-k3-situ.toml"
    path.write_text(mini_recipe_text(per_family), encoding="utf-8")
    return path


def mini_recipe(folder: Path, per_family: int = 2) -> Recipe:
    """The recipe that :func:`bundle_files` fulfils."""
    return load_recipe(str(write_mini_recipe(folder, per_family))).recipe


def kernels(per_family: int = 2) -> dict[str, tuple[str, ...]]:
    """Kernel names by family."""
    return {
        family: tuple(template.format(n=8 << number) for number in range(per_family))
        for family, template in _KERNELS.items()
    }


def arch_of(kernel: str) -> str:
    return kernel.rpartition("_")[2]


def cubin_of(kernel: str, seed: int = 0) -> bytes:
    """A synthetic cubin for a kernel name."""
    arch = arch_of(kernel)
    return make_cubin(kernel, sm=int(arch[2:5]), arch_specific=arch.endswith("a"), seed=seed)


def cubin_path(kernel: str) -> str:
    """Where a kernel's cubin lies, relative to the package."""
    return f"cubins/{arch_of(kernel)}/B{kernel[1:]}.cubin"


def runner_for(cubins: Mapping[str, bytes], **knobs: object) -> bytes:
    """A runner compiled with the digests of ``cubins`` (by kernel) and of one further kernel."""
    table = [(kernel, _sha256(data)) for kernel, data in sorted(cubins.items())]
    table.append((OTHER_KERNEL, _sha256(b"not bundled")))
    arguments: dict[str, object] = {
        "ffi_symbols": (
            "trtllm_fp4_block_scale_moe_private",
            "trtllm_get_valid_moe_configs_private",
            "trtllm_bf16_moe_private",
        ),
        "table": table,
        "needed": DEFAULT_NEEDED,
        "versions": DEFAULT_VERSIONS,
        "undefined": ("TVMFFIErrorSetRaised", "TVMFFIFunctionSetGlobal"),
    }
    return make_runner(**{**arguments, **knobs})  # type: ignore[arg-type]


def bundle_files(
    per_family: int = 2,
    *,
    style: str = "published",
    package: str = PACKAGE,
    runner: bytes | None = None,
    **runner_knobs: object,
) -> Files:
    """The files of the import package by member name, manifest included.

    Args:
        per_family: cubins in each of the four families.
        style: "published" (schema 1 as it is on the index) or "ours" (with the added keys).
        package: import package.
        runner: instead of a synthetic one that fits.
        runner_knobs: passed to ``make_runner``.
    """
    named = kernels(per_family)
    cubins = {kernel: cubin_of(kernel) for family in named.values() for kernel in family}
    runner = runner_for(cubins, **runner_knobs) if runner is None else runner
    entries = []
    for family, members in named.items():
        for kernel in members:
            path = cubin_path(kernel)
            entry: dict[str, object] = {
                "filename": path.rpartition("/")[2],
                "path": path,
                "role": "fc1_situ" if family.endswith("fc1") else "fc2",
                "sha256": _sha256(cubins[kernel]),
                "size": len(cubins[kernel]),
            }
            if style == "ours":
                entry |= {"kernel": kernel, "family": family, "arch": arch_of(kernel)}
            entries.append(entry)
    manifest = _manifest(entries, runner, per_family)
    if style == "ours":
        manifest["recipe"] = {
            "name": "kimi-k3-situ",
            "sha256": _sha256(mini_recipe_text(per_family).encode()),
        }
        manifest["tools"] = {"situ_release": "0.1.0"}
    files = {
        f"{package}/__init__.py": b'"""A synthetic bundle."""\n',
        f"{package}/loader.py": b'"""The loader of a synthetic bundle."""\n',
        f"{package}/licenses/FLASHINFER_LICENSE.txt": b"Apache License, Version 2.0\n",
        f"{package}/licenses/FLASHINFER_NOTICE.txt": b"FlashInfer\n",
        f"{package}/lib/fused_moe_k3_situ_sm103.so": runner,
        f"{package}/manifest.json": dump(manifest),
    }
    files |= {f"{package}/{cubin_path(kernel)}": data for kernel, data in cubins.items()}
    return files


def wheel_files(files: Files, *, tag: str = PUBLISHED_TAG, metadata: str | None = None) -> Files:
    """``files`` with a dist-info, RECORD aside."""
    recipe = load_recipe().recipe.package
    lines = [
        "Metadata-Version: 2.4",
        f"Name: {recipe.distribution}",
        f"Version: {VERSION}",
        f"Summary: {recipe.summary}",
        f"License-Expression: {recipe.license_expression}",
        *(f"Project-URL: {label}, {url}" for label, url in recipe.urls.items()),
        *(f"Classifier: {classifier}" for classifier in recipe.classifiers),
        f"Requires-Python: {recipe.requires_python}",
        "Description-Content-Type: text/markdown",
        "License-File: LICENSE",
        "License-File: THIRD_PARTY_NOTICES.md",
        *(f"Requires-Dist: {requirement}" for requirement in recipe.requires_dist),
        "",
        "A synthetic bundle.",
        "",
    ]
    wheel = [
        "Wheel-Version: 1.0",
        "Generator: synthetic (1)",
        "Root-Is-Purelib: false",
        f"Tag: {tag}",
        "",
    ]
    return {
        **files,
        f"{DIST_INFO}/METADATA": (metadata or "\n".join(lines)).encode(),
        f"{DIST_INFO}/WHEEL": "\n".join(wheel).encode(),
        f"{DIST_INFO}/licenses/LICENSE": b"MIT License\n",
        f"{DIST_INFO}/licenses/THIRD_PARTY_NOTICES.md": b"# Third-party notices\n",
    }


def record_of(files: Mapping[str, bytes], dist_info: str = DIST_INFO) -> bytes:
    """RECORD for ``files``."""
    rows = [f"{name},sha256={_digest(data)},{len(data)}" for name, data in files.items()]
    return "\n".join([*rows, f"{dist_info}/RECORD,,", ""]).encode()


def make_wheel(
    folder: Path,
    *,
    files: Files | None = None,
    style: str = "published",
    per_family: int = 2,
    tag: str = PUBLISHED_TAG,
    filename: str | None = None,
    metadata: str | None = None,
    edit: Edit | None = None,
    tamper: Edit | None = None,
    **runner_knobs: object,
) -> Path:
    """A wheel in ``folder``, valid unless a knob breaks it.

    Args:
        folder: where to write it; made if need be.
        files: instead of :func:`bundle_files` with the knobs given.
        style: see :func:`bundle_files`.
        per_family: see :func:`bundle_files`.
        tag: in the file name and in WHEEL.
        filename: instead of the one that fits.
        metadata: the text of METADATA, instead of the one that fits.
        edit: changes the files before RECORD is written.
        tamper: changes the files, RECORD among them, before they are packed.
        runner_knobs: passed to ``make_runner``.
    """
    if files is None:
        files = bundle_files(per_family, style=style, **runner_knobs)  # type: ignore[arg-type]
    members = wheel_files(files, tag=tag, metadata=metadata)
    if edit:
        edit(members)
    members[f"{DIST_INFO}/RECORD"] = record_of(members)
    if tamper:
        tamper(members)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / (filename or f"{PACKAGE}-{VERSION}-{tag}.whl")
    write_zip(path, members)
    return path


def write_zip(path: Path, members: Mapping[str, bytes]) -> None:
    """Pack members as they stand."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            info = zipfile.ZipInfo(name, (2026, 7, 27, 4, 3, 28))
            info.external_attr = 0o100644 << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, data)


def edit_manifest(change: Callable[[dict[str, object]], object], package: str = PACKAGE) -> Edit:
    """An ``edit`` that changes the manifest's document."""

    def edit(files: Files) -> None:
        document = json.loads(files[f"{package}/manifest.json"])
        change(document)
        files[f"{package}/manifest.json"] = dump(document)

    return edit


def exchange(member: str, data: bytes, package: str = PACKAGE) -> Edit:
    """An ``edit`` that exchanges a binary and corrects the manifest to fit."""

    def change(document: dict[str, object]) -> None:
        entries: Sequence[dict[str, object]] = [*document["cubins"], document["runner"]]  # type: ignore[misc]
        for entry in entries:
            if f"{package}/{entry['path']}" == member:
                entry |= {"sha256": _sha256(data), "size": len(data)}

    def edit(files: Files) -> None:
        files[member] = data
        edit_manifest(change, package)(files)

    return edit


def make_payload(folder: Path, files: Files | None = None, *, style: str = "ours") -> Path:
    """A payload project of the smallest kind: hatchling, and a hook that sets the tag."""
    package = files if files is not None else bundle_files(style=style)
    project = {
        "pyproject.toml": _PYPROJECT.encode(),
        "hatch_build.py": _HOOK.encode(),
        "LICENSE": b"MIT License\n",
        "THIRD_PARTY_NOTICES.md": b"# Third-party notices\n",
        "README.md": b"A synthetic bundle.\n",
    }
    for name, data in {**project, **package}.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    return folder


def dump(document: object) -> bytes:
    return (json.dumps(document, sort_keys=True, indent=2) + "\n").encode()


def _manifest(
    entries: list[dict[str, object]], runner: bytes, per_family: int
) -> dict[str, object]:
    recipe = load_recipe().recipe
    return {
        "schema_version": 1,
        "artifact_kind": recipe.artifact_kind,
        "package_version": VERSION,
        "architecture": recipe.target.architecture,
        "cuda_major": recipe.target.cuda_major,
        "platform": recipe.target.platform,
        "generated_at": GENERATED_AT,
        "gpu_validated": False,
        "limitations": recipe.limitations,
        "cubins": entries,
        "runner": {
            "path": "lib/fused_moe_k3_situ_sm103.so",
            "sha256": _sha256(runner),
            "size": len(runner),
            "build_mode": recipe.runner.build_mode,
            "ffi_symbols": recipe.runner.ffi_symbols,
            "source_metadata_sha256": METADATA_SHA256,
            "source_module_name": MODULE_NAME,
        },
        "runtime_dependencies": {
            "apache_tvm_ffi": ">=0.1.12,<0.2",
            "cuda_driver_soname": recipe.runtime.cuda_driver_soname,
            "cuda_runtime_soname": recipe.runtime.cuda_runtime_soname,
            "python": recipe.package.requires_python,
        },
        "source_provenance": {
            "bundled_sm100f_w4a8_cubin_count": 2 * per_family,
            "bundled_sm103a_cubin_count": 2 * per_family,
            "flashinfer_branch": recipe.provenance.declared["flashinfer_branch"],
            "flashinfer_version": "0.6.13rc1",
            "private_pool_config_sha256": "1c" * 32,
            "private_pool_metadata_sha256": METADATA_SHA256,
            "private_pool_name": "synthetic_pool",
            "source_pool_cubin_count": 4 * per_family + 1,
            "trtllm_gen_branch": recipe.provenance.declared["trtllm_gen_branch"],
        },
        "supported_contracts": [contract.as_manifest() for contract in recipe.contracts],
        "tactic_policy": recipe.tactic_policy.model_dump(mode="json"),
        "expert_parallel": recipe.expert_parallel.model_dump(mode="json"),
    }


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


_PYPROJECT = f"""\
[build-system]
requires = ["hatchling>=1.27,<2"]
build-backend = "hatchling.build"

[project]
name = "tokenspeed-situ"
version = "{VERSION}"
description = "AOT TensorRT-LLM-Gen MXFP4+SiTU MoE kernel bundle"
readme = "README.md"
requires-python = ">=3.10"
license = "LicenseRef-Proprietary"
license-files = ["LICENSE", "THIRD_PARTY_NOTICES.md"]
dependencies = ["apache-tvm-ffi>=0.1.12,<0.2"]

[tool.hatch.build.targets.wheel]
packages = ["{PACKAGE}"]
ignore-vcs = true

[tool.hatch.build.targets.wheel.hooks.custom]
"""

_HOOK = """\
from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Hook(BuildHookInterface):
    def initialize(self, version, build_data):
        build_data["tag"] = "py3-none-linux_x86_64"
        build_data["pure_python"] = False
"""
