"""The manifest of a bundle, from what its sources and binaries say."""

from __future__ import annotations

from collections import Counter
from typing import Any, get_args

from pydantic import ValidationError

from situ_release import __version__
from situ_release.bundle.agreement import AgreedCubin
from situ_release.bundle.manifest import DeviceCodeKind, Manifest
from situ_release.bundle.model_faults import validation_problems
from situ_release.bundle.provenance import Provenance
from situ_release.bundle.recipe import LoadedRecipe
from situ_release.bundle.recipe_texts import runtime_versions
from situ_release.digests import sha256_bytes
from situ_release.errors import InputError
from situ_release.sources.cubin import Cubin
from situ_release.sources.pool import Pool
from situ_release.sources.runner import Runner
from situ_release.sources.snapshot import Snapshot
from situ_release.text import printable

_DEVICE_CODE_KINDS = get_args(DeviceCodeKind)


def cubin_path(arch: str, filename: str) -> str:
    """Where a cubin lies in the import package."""
    return f"cubins/{arch}/{filename}"


def runner_path(filename: str) -> str:
    """Where the runner lies in the import package."""
    return f"lib/{filename}"


def describe(
    loaded: LoadedRecipe,
    version: str,
    cubins: tuple[AgreedCubin, ...],
    module: bytes,
    module_name: str,
    runner: Runner,
    snapshot: Snapshot,
    pool: Pool,
    provenance: Provenance,
) -> Manifest:
    """Write down everything the sources tell.

    Args:
        loaded: the recipe and its digest.
        version: the wheel's version.
        cubins: the selected cubins, in the manifest's order.
        module: the runner's bytes.
        module_name: stem of the module's file name.
        runner: what the module says.
        snapshot: the source snapshot.
        pool: the cubin pool.
        provenance: traced from snapshot, pool and recipe.

    Raises:
        InputError: a source tells something that no manifest can hold.
    """
    recipe = loaded.recipe
    document: dict[str, Any] = {
        "schema_version": 1,
        "artifact_kind": recipe.artifact_kind,
        "package_version": version,
        "architecture": recipe.target.architecture,
        "cuda_major": recipe.target.cuda_major,
        "platform": recipe.target.platform,
        "generated_at": provenance.generated_at,
        "gpu_validated": False,
        "limitations": recipe.limitations,
        "supported_contracts": [contract.as_manifest() for contract in recipe.contracts],
        "tactic_policy": recipe.tactic_policy.model_dump(mode="json"),
        "expert_parallel": recipe.expert_parallel.model_dump(),
        "runtime_dependencies": {
            "apache_tvm_ffi": runtime_versions(recipe.package.requires_dist),
            "cuda_driver_soname": recipe.runtime.cuda_driver_soname,
            "cuda_runtime_soname": recipe.runtime.cuda_runtime_soname,
            "python": recipe.package.requires_python,
        },
        "source_provenance": provenance.source,
        "cubins": [_cubin_entry(cubin) for cubin in cubins],
        "runner": {
            "path": runner_path(recipe.runner.file),
            "sha256": sha256_bytes(module),
            "size": len(module),
            "build_mode": recipe.runner.build_mode,
            "ffi_symbols": recipe.runner.ffi_symbols,
            "source_metadata_sha256": provenance.metadata_sha256,
            "source_module_name": _text(module_name),
            **runner_facts(runner),
        },
        "recipe": {"name": recipe.name, "sha256": loaded.sha256},
        "snapshot": {
            "version": snapshot.version,
            "kind": snapshot.kind,
            "commit": snapshot.commit,
            "tree": snapshot.tree,
            "dirty": snapshot.dirty,
            "branch": None if snapshot.branch is None else _text(snapshot.branch),
        },
        "pool": {
            "name": _text(pool.name),
            "config_sha256": pool.config_sha256,
            "metadata_sha256": pool.header.sha256,
            "cubin_count": pool.cubin_count,
            "export_version": (
                None if pool.header.export_version is None else _text(pool.header.export_version)
            ),
        },
        "tools": {"situ_release": __version__},
    }
    if provenance.marker is not None:
        document["recovered_from"] = {
            "wheel": _text(provenance.marker.wheel),
            "sha256": provenance.marker.wheel_sha256,
        }
    try:
        return Manifest.model_validate(document)
    except ValidationError as error:
        where = f"{snapshot.where}, {pool.where} and {module_name}"
        raise InputError(*validation_problems(error, where, "manifest")) from error


def runner_facts(runner: Runner) -> dict[str, Any]:
    """The keys of the manifest's ``runner`` object that the binary itself tells."""
    modules = Counter(
        (module.target, module.kind if module.kind in _DEVICE_CODE_KINDS else "other")
        for module in runner.device_modules
    )
    return {
        "needed": [_text(name) for name in runner.needed],
        "minimum_versions": {
            _text(name): _text(version) for name, version in runner.minimum_versions.items()
        },
        "device_code": [
            {"arch": arch, "kind": kind, "count": count}
            for (arch, kind), count in sorted(modules.items())
        ],
        "build_id": runner.build_id,
        "compiler": list(runner.compilers),
        "kernel_table": {
            "count": runner.kernel_table.count,
            "sha256": runner.kernel_table.sha256,
        },
        "embedded_path_count": len(runner.embedded_paths),
    }


def cubin_facts(kernel: str, cubin: Cubin) -> dict[str, Any]:
    """The keys of a manifest's cubin object that the file itself tells."""
    facts: dict[str, Any] = {"device_code_sha256": cubin.device_code_sha256}
    if cubin.toolchain is not None:
        facts["toolchain"] = {
            "producer": cubin.toolchain.producer,
            "version": cubin.toolchain.version,
            "options": cubin.toolchain.options,
        }
    registers = {found.name: found.registers for found in cubin.kernels}.get(kernel)
    if registers is not None:
        facts["registers"] = registers
    return facts


def _cubin_entry(agreed: AgreedCubin) -> dict[str, Any]:
    kernel, family = agreed.selected, agreed.selected.family
    entry = {
        "filename": kernel.filename,
        "path": cubin_path(family.arch, kernel.filename),
        "role": family.role,
        "sha256": agreed.sha256,
        "size": len(agreed.data),
        "kernel": kernel.name,
        "family": family.name,
        "arch": family.arch,
        **cubin_facts(kernel.name, agreed.cubin),
    }
    if agreed.shared_memory_bytes is not None:
        entry["shared_memory_bytes"] = agreed.shared_memory_bytes
    return entry


def _text(found: str) -> str:
    """A name from a file or folder as the manifest may hold it: printable and not empty."""
    return printable(found) or "(empty)"
