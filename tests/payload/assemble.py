"""Makes a package from the templates: real code, tiny files in place of the binaries."""

from __future__ import annotations

import hashlib
import importlib
import itertools
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from situ_release import resources
from situ_release.bundle.recipe import DEFAULT_RECIPE, load_recipe
from situ_release.bundle.template import render_template, template_values

MOE = "trtllm_fp4_block_scale_moe_private"
CONFIGS = "trtllm_get_valid_moe_configs_private"

CUBINS = {
    "Bmm_one_siTuGlu_sm103a.cubin": ("sm103a", "fc1_situ", b"cubin one"),
    "Bmm_one_sm103a.cubin": ("sm103a", "fc2", b"cubin \0 two"),
    "Bmm_two_siTuGlu_sm100f.cubin": ("sm100f", "fc1_situ", b"cubin three"),
}
"""File name: folder, role, bytes."""

_numbers = itertools.count()


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@dataclass(frozen=True)
class Package:
    """A rendered project; ``folder`` is the import package in it."""

    project: Path
    name: str

    @property
    def folder(self) -> Path:
        return self.project / self.name

    @property
    def manifest(self) -> dict[str, Any]:
        return json.loads((self.folder / "manifest.json").read_text())

    def write_manifest(self, manifest: object) -> None:
        (self.folder / "manifest.json").write_text(json.dumps(manifest))

    def edit(self, **changes: object) -> None:
        """Change top-level keys of the manifest; ``None`` removes one."""
        manifest = self.manifest | changes
        self.write_manifest({key: value for key, value in manifest.items() if value is not None})

    def load(self) -> ModuleType:
        """Import it into this process. The name is used once, so nothing needs to be undone."""
        sys.path.insert(0, str(self.project))
        try:
            module = importlib.import_module(self.name)
            importlib.import_module(f"{self.name}.loader")
            return module
        finally:
            sys.path.remove(str(self.project))


def render(project: Path, name: str | None = None, recipe_name: str = DEFAULT_RECIPE) -> Package:
    """A recipe's template under another import name, with an empty SBOM and no binaries."""
    recipe = load_recipe(recipe_name).recipe
    name = name or f"synthetic_bundle_{next(_numbers)}"
    values = template_values(recipe, "1.2.3.post4") | {"import_name": name}
    render_template(resources.payload_templates() / recipe.template, project, values)
    _write(project / recipe.sbom_name, b"{}\n")
    return Package(project, name)


def assemble(
    project: Path,
    runner: bytes = b"a runner",
    name: str | None = None,
    recipe_name: str = DEFAULT_RECIPE,
) -> Package:
    """A whole package; its runner cannot be opened unless ``runner`` is a real library."""
    package = render(project, name, recipe_name)
    entries = []
    for filename, (arch, role, data) in CUBINS.items():
        path = f"cubins/{arch}/{filename}"
        _write(package.folder / path, data)
        entries.append(
            {
                "filename": filename,
                "path": path,
                "role": role,
                "sha256": sha256(data),
                "size": len(data),
            }
        )
    _write(package.folder / "lib/runner.so", runner)
    _write(package.folder / "licenses/FLASHINFER_LICENSE.txt", b"Apache License\n")
    package.write_manifest(
        {
            "schema_version": 1,
            "package_version": "1.2.3.post4",
            "architecture": "sm103a",
            "cuda_major": 13,
            "platform": "linux_x86_64",
            "gpu_validated": False,
            "runtime_dependencies": {
                "apache_tvm_ffi": ">=0.1.12,<0.2",
                "cuda_driver_soname": "libcuda.so.1",
                "cuda_runtime_soname": "libcudart.so.13",
                "python": ">=3.10",
            },
            "runner": {
                "path": "lib/runner.so",
                "sha256": sha256(runner),
                "size": len(runner),
                "ffi_symbols": load_recipe(recipe_name).recipe.runner.ffi_symbols,
            },
            "cubins": entries,
        }
    )
    return package


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
