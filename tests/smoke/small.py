"""Contracts of K3's kind that a CPU can compute, and a recipe of them."""

from __future__ import annotations

import re
from pathlib import Path

from situ_release.bundle.recipe import Contract, load_recipe
from tests.synth.wheel import mini_recipe_text

EXPERTS = 8
TOP_K = 4
TILES = 6
"""Kernels per family of the small recipe: tiles of 8 to 256 tokens."""


def small_contract(precision: str, *, expert_parallel: int = 1) -> Contract:
    contracts = load_recipe().recipe.contracts
    real = next(contract for contract in contracts if contract.precision == precision)
    return real.model_copy(
        update={
            "num_experts": EXPERTS,
            "local_num_experts": EXPERTS // expert_parallel,
            "expert_parallel_size": expert_parallel,
            "tensor_parallel_size": 1,
            "top_k": TOP_K,
            "hidden_size": 256,
            "logical_intermediate_size": 128,
            "physical_intermediate_size": 128,
        }
    )


def write_small_recipe(folder: Path, *changes: tuple[str, str]) -> Path:
    """The shipped recipe at a small size: one tensor- and one expert-parallel contract.

    Args:
        folder: where to write it.
        changes: further texts to replace, with what.
    """
    text = mini_recipe_text(TILES)
    head, *contracts, tail = re.split(r"(?=\[\[contracts\]\])|(?=\[tactic_policy\])", text)
    text = head + contracts[0] + contracts[3] + tail
    for old, new in (
        ("num_experts = 896\n", f"num_experts = {EXPERTS}\n"),
        (f"local_num_experts = {EXPERTS}\n", f"local_num_experts = {EXPERTS}\n"),
        ("local_num_experts = 112\n", "local_num_experts = 4\n"),
        ("top_k = 16\n", f"top_k = {TOP_K}\n"),
        ("hidden_size = 3584\n", "hidden_size = 256\n"),
        ("intermediate_size = 384\n", "intermediate_size = 128\n"),
        ("intermediate_size = 3072\n", "intermediate_size = 256\n"),
        ("parallel_size = 8\n", "parallel_size = 2\n"),
        ("tokens = [1, 128, 4096]\n", "tokens = [0, 1, 65]\n"),
        ("full_tokens = [1, 128]\n", "full_tokens = [1]\n"),
        *changes,
    ):
        assert old in text, old
        text = text.replace(old, new)
    path = folder / "small.toml"
    path.write_text(text, encoding="utf-8")
    return path
