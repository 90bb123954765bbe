"""The three sources of a bundle and its recipe, synthetic, consistent, and free to be changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from situ_release.bundle.recipe import LoadedRecipe, load_recipe
from situ_release.bundle.staging import StagedPayload, stage
from situ_release.digests import sha256_file
from situ_release.sources.marker import RecoveredMarker
from tests.synth.elf import make_runner
from tests.synth.pool import MiniPool, make_pool, make_snapshot
from tests.synth.wheel import write_mini_recipe

FFI_SYMBOLS = ("trtllm_fp4_block_scale_moe_private", "trtllm_get_valid_moe_configs_private")


@dataclass
class MiniInputs:
    """A snapshot, a pool, a module and a recipe with two kernels per family."""

    folder: Path
    pool: MiniPool
    snapshot: Path
    module: Path
    recipe_path: Path

    @property
    def recipe(self) -> LoadedRecipe:
        return load_recipe(str(self.recipe_path))

    @property
    def out(self) -> Path:
        return self.folder / "out"

    def edit_recipe(self, change: Callable[[str], str]) -> None:
        """Rewrite the recipe's text."""
        self.recipe_path.write_text(change(self.recipe_path.read_text()))

    def compile(self, **knobs: Any) -> None:
        """Make the module anew, as if compiled from the pool as it is now."""
        self.module.unlink(missing_ok=True)
        name = f"fused_moe_synthetic_{sha256_file(self.pool.header)[:8]}.so"
        self.module = self.folder / name
        arguments: dict[str, Any] = {"ffi_symbols": FFI_SYMBOLS, "table": self.pool.table()}
        self.module.write_bytes(make_runner(**{**arguments, **knobs}))

    def stage(self, **options: Any) -> StagedPayload:
        """Stage into :attr:`out`."""
        arguments = {"out": self.out, **options}
        out = arguments.pop("out")
        return stage(self.recipe, self.snapshot, self.pool.root, self.module, out, **arguments)

    def command(self) -> list[str]:
        """Arguments of ``situ-release stage-assets`` for these sources."""
        return [
            "stage-assets",
            f"--snapshot-root={self.snapshot}",
            f"--pool-root={self.pool.root}",
            f"--module={self.module}",
            f"--recipe={self.recipe_path}",
            f"--out={self.out}",
        ]


def make_inputs(
    folder: Path,
    *,
    layout: str = "git",
    marker: RecoveredMarker | None = None,
    **pool_options: Any,
) -> MiniInputs:
    """Write consistent sources below ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    pool = make_pool(folder, marker=marker, **pool_options)
    snapshot = make_snapshot(folder, layout=layout, marker=marker)
    recipe = write_mini_recipe(folder)
    inputs = MiniInputs(folder, pool, snapshot, folder / "none.so", recipe)
    inputs.compile()
    return inputs
