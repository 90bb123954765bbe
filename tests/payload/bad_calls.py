"""Calls outside the supported contract; each must raise, before anything native is loaded.

Shared by the unit tests, which know the type that each must raise, and by the comparison with the
published package, which must agree. Runs without pytest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.payload.fakes import Tensor, k3_arguments


class _Unreadable:
    """Not a tensor."""


class _Shape:
    def __init__(self, shape: Any) -> None:
        self.shape = shape


def _shard(local: int, offset: Any, **more: Any) -> dict[str, Any]:
    return k3_arguments(local_num_experts=local, local_expert_offset=offset, **more)


WEIGHTS = (
    "gemm1_weights",
    "gemm1_weights_scale",
    "gemm1_alpha",
    "gemm1_beta",
    "gemm2_weights",
    "gemm2_weights_scale",
)

MOE: dict[str, tuple[dict[str, Any], type[Exception]]] = {
    "895 experts": (k3_arguments(num_experts=895), ValueError),
    "0 experts": (k3_arguments(num_experts=0), ValueError),
    "experts as text": (k3_arguments(num_experts="896"), ValueError),
    "experts None": (k3_arguments(num_experts=None), ValueError),
    "top-k 8": (k3_arguments(top_k=8), ValueError),
    "top-k None": (k3_arguments(top_k=None), ValueError),
    "intermediate 0": (k3_arguments(intermediate_size=0), ValueError),
    "intermediate -128": (k3_arguments(intermediate_size=-128), ValueError),
    "intermediate 100": (k3_arguments(intermediate_size=100), ValueError),
    "intermediate 384.5": (k3_arguments(intermediate_size=384.5), ValueError),
    "intermediate text": (k3_arguments(intermediate_size="384"), TypeError),
    "intermediate None": (k3_arguments(intermediate_size=None), TypeError),
    "local 0": (_shard(0, 0), ValueError),
    "local -112": (_shard(-112, 0), ValueError),
    "local 897": (_shard(897, 0), ValueError),
    "local 1792": (_shard(1792, 0), ValueError),
    "local 100": (_shard(100, 0), ValueError),
    "local None": (k3_arguments(local_num_experts=None), TypeError),
    "offset -112": (_shard(112, -112), ValueError),
    "offset 1": (_shard(112, 1), ValueError),
    "offset 111": (_shard(112, 111), ValueError),
    "offset 896": (_shard(112, 896), ValueError),
    "offset 448 of one shard": (_shard(896, 448), ValueError),
    "offset 896 of one shard": (_shard(896, 896), ValueError),
    "offset text": (_shard(112, "0"), TypeError),
    "offset None": (_shard(112, None), TypeError),
    "tactic of one": (k3_arguments(tactic=(8,)), ValueError),
    "tactic of three": (k3_arguments(tactic=(8, 0, 0)), ValueError),
    "tactic empty": (k3_arguments(tactic=()), ValueError),
    "tactic None": (k3_arguments(tactic=None), TypeError),
    "tactic number": (k3_arguments(tactic=8), TypeError),
    "tactic generator": (k3_arguments(tactic=iter((8, 0))), TypeError),
    "tactic before experts": (k3_arguments(tactic=None, num_experts=895), TypeError),
    "experts before tensors": (k3_arguments(num_experts=895, hidden_states=None), ValueError),
    "states None": (k3_arguments(hidden_states=None), TypeError),
    "states without shape": (k3_arguments(hidden_states=_Unreadable()), TypeError),
    "states shape number": (k3_arguments(hidden_states=_Shape(5)), TypeError),
    "states shape text": (k3_arguments(hidden_states=_Shape("ab")), TypeError),
    "states shape None inside": (k3_arguments(hidden_states=Tensor(None, 3584)), TypeError),
    "states list": (k3_arguments(hidden_states=[[0.0] * 3584]), TypeError),
    "states 0-D": (k3_arguments(hidden_states=Tensor()), ValueError),
    "states 1-D": (k3_arguments(hidden_states=Tensor(3584)), ValueError),
    "states 3-D": (k3_arguments(hidden_states=Tensor(4, 3584, 1)), ValueError),
    "states wide": (k3_arguments(hidden_states=Tensor(4, 7168)), ValueError),
    "states before ids": (k3_arguments(hidden_states=Tensor(4), topk_ids=None), ValueError),
    "ids None": (k3_arguments(topk_ids=None), TypeError),
    "ids of 8": (k3_arguments(topk_ids=Tensor(4, 8)), ValueError),
    "ids of other tokens": (k3_arguments(topk_ids=Tensor(5, 16)), ValueError),
    "ids flat": (k3_arguments(topk_ids=Tensor(64)), ValueError),
    "weights of 17": (k3_arguments(topk_weights=Tensor(4, 17)), ValueError),
    "weights None": (k3_arguments(topk_weights=None), TypeError),
    "ids before output": (k3_arguments(topk_ids=Tensor(4, 8), output=None), ValueError),
    "output None": (k3_arguments(output=None), TypeError),
    "output narrow": (k3_arguments(output=Tensor(4, 3583)), ValueError),
    "output of other tokens": (k3_arguments(output=Tensor(3, 3584)), ValueError),
    "output 3-D": (k3_arguments(output=Tensor(4, 3584, 1)), ValueError),
    "scale narrow": (k3_arguments(hidden_states_scale=Tensor(4, 111)), ValueError),
    "scale flat": (k3_arguments(hidden_states_scale=Tensor(448)), ValueError),
    "scale of other tokens": (k3_arguments(hidden_states_scale=Tensor(5, 112)), ValueError),
    "scale without shape": (k3_arguments(hidden_states_scale=_Unreadable()), TypeError),
    "scale False": (k3_arguments(hidden_states_scale=False), TypeError),
    "tokens gone for a 0-token call": (k3_arguments(tokens=0, topk_ids=Tensor(1, 16)), ValueError),
    "not a name": (k3_arguments(bogus=1), TypeError),
}
for _name in WEIGHTS:
    MOE[f"{_name} of another shard"] = (k3_arguments(**{_name: Tensor(112, 1)}), ValueError)
    MOE[f"{_name} 0-D"] = (k3_arguments(**{_name: Tensor()}), ValueError)
    MOE[f"{_name} None"] = (k3_arguments(**{_name: None}), TypeError)

K3_CONFIGS: dict[str, tuple[tuple[Any, ...], dict[str, Any], type[Exception]]] = {
    "0 tokens": ((0,), {}, ValueError),
    "-1 tokens": ((-1,), {}, ValueError),
    "tokens text": (("1",), {}, TypeError),
    "tokens None": ((None,), {}, TypeError),
    "tokens first": ((0,), {"intermediate_size": "x"}, ValueError),
    "895 experts": ((1,), {"num_experts": 895}, ValueError),
    "intermediate 0": ((1,), {"intermediate_size": 0}, ValueError),
    "intermediate 100": ((1,), {"intermediate_size": 100}, ValueError),
    "local 0": ((1,), {"local_num_experts": 0}, ValueError),
    "local 100": ((1,), {"local_num_experts": 100}, ValueError),
    "local 1792": ((1,), {"local_num_experts": 1792}, ValueError),
    "two positions": ((1, 384), {}, TypeError),
    "nothing": ((), {}, TypeError),
}

OTHERS: dict[str, tuple[str, tuple[Any, ...], type[Exception]]] = {
    "info with an argument": ("bundle_info", (1,), TypeError),
    "verify with an argument": ("verify_bundle", (1,), TypeError),
    "load with an argument": ("load_raw_module", (1,), TypeError),
    "last error with an argument": ("raise_last_callback_error", (1,), TypeError),
    "configs without arguments": ("get_valid_moe_configs", (), TypeError),
    "moe by position": ("mxfp4_situ_routed_moe", (1,), TypeError),
    "activation 10": ("ActivationType", (10,), ValueError),
    "routing mode 3": ("RoutingInputMode", (3,), ValueError),
}


def calls(package: Any) -> dict[str, tuple[Callable[[], Any], type[Exception]]]:
    """Every bad call of ``package``, by name, with the exception that it must raise."""
    table: dict[str, tuple[Callable[[], Any], type[Exception]]] = {}
    for name, (arguments, error) in MOE.items():
        table[f"moe: {name}"] = (
            lambda arguments=arguments: package.mxfp4_situ_routed_moe(**arguments),
            error,
        )
    for name, (position, keywords, error) in K3_CONFIGS.items():
        table[f"k3 configs: {name}"] = (
            lambda position=position, keywords=keywords: package.get_valid_k3_situ_configs(
                *position, **keywords
            ),
            error,
        )
    for name, (function, position, error) in OTHERS.items():
        table[name] = (
            lambda function=function, position=position: getattr(package, function)(*position),
            error,
        )
    return table
