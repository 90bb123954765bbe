"""A contract of K3's kind that a CPU can compute."""

from __future__ import annotations

from situ_release.bundle.recipe import Contract, load_recipe

EXPERTS = 8
TOP_K = 4


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
