"""Checks of a routed mixture-of-experts call, made before native code runs.

Tensors are anything with a ``shape``; nothing else of them is looked at, so torch is not needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

INTERMEDIATE_ALIGNMENT = 128
"""The physical intermediate size is a multiple of this, in elements."""

SCALE_BLOCK = 32
"""Elements along a row that share one MXFP8 scale."""


class TensorLike(Protocol):
    """What the checks look at."""

    @property
    def shape(self) -> Sequence[int]:
        """Sizes of the dimensions, in elements."""
        ...


def check_tactic(tactic: Sequence[int]) -> None:
    """Check that a tactic is a pair.

    Raises:
        ValueError: it is not.
        TypeError: it has no length.
    """
    if len(tactic) != 2:
        raise ValueError(f"tactic must be a (tile_n, config) pair, got {tactic!r}")


def check_shard(
    num_experts: int, intermediate_size: int, local_num_experts: int, local_expert_offset: int = 0
) -> None:
    """Check the sizes of one rank's share of the experts.

    Args:
        num_experts: experts over all ranks.
        intermediate_size: physical, per rank; a positive multiple of 128.
        local_num_experts: experts of this rank; must divide ``num_experts``.
        local_expert_offset: first expert of this rank; a multiple of ``local_num_experts``.

    Raises:
        ValueError: names the size, what is supported and what was given.
        TypeError: a size that cannot be compared with a number.
    """
    if intermediate_size <= 0 or intermediate_size % INTERMEDIATE_ALIGNMENT:
        raise ValueError(
            f"intermediate_size must be a positive multiple of {INTERMEDIATE_ALIGNMENT}, "
            f"got {intermediate_size}"
        )
    if not 0 < local_num_experts <= num_experts:
        raise ValueError(f"local_num_experts must be in 1..{num_experts}, got {local_num_experts}")
    if num_experts % local_num_experts:
        raise ValueError(
            f"local_num_experts must divide {num_experts} (equal shards), got {local_num_experts}"
        )
    last = num_experts - local_num_experts
    if not 0 <= local_expert_offset <= last or local_expert_offset % local_num_experts:
        raise ValueError(
            f"local_expert_offset must be a multiple of the shard of {local_num_experts} experts "
            f"in 0..{last}, got {local_expert_offset}"
        )


def check_tensors(
    *,
    hidden_size: int,
    top_k: int,
    topk_ids: TensorLike,
    topk_weights: TensorLike,
    hidden_states: TensorLike,
    hidden_states_scale: TensorLike | None,
    output: TensorLike,
    weights: Mapping[str, TensorLike],
    local_num_experts: int,
) -> None:
    """Check the tensors' shapes.

    Args:
        hidden_size: width of a token, in elements.
        top_k: experts per token.
        topk_ids: ``[tokens, top_k]``.
        topk_weights: ``[tokens, top_k]``.
        hidden_states: ``[tokens, hidden_size]``; says how many tokens there are.
        hidden_states_scale: ``[tokens, hidden_size / 32]`` for MXFP8 activations, None for
            bfloat16.
        output: ``[tokens, hidden_size]``.
        weights: by name; the first dimension of each is ``local_num_experts``.
        local_num_experts: experts of this rank.

    Raises:
        ValueError: a shape does not fit; names the tensor.
        TypeError: something without a readable shape.
    """
    shape = shape_of("hidden_states", hidden_states)
    if len(shape) != 2 or shape[1] != hidden_size:
        raise ValueError(f"hidden_states must have the shape (tokens, {hidden_size}), got {shape}")
    tokens = shape[0]
    _require_shape("topk_ids", topk_ids, (tokens, top_k))
    _require_shape("topk_weights", topk_weights, (tokens, top_k))
    _require_shape("output", output, (tokens, hidden_size))
    if hidden_states_scale is not None:
        scales = (tokens, hidden_size // SCALE_BLOCK)
        _require_shape("hidden_states_scale", hidden_states_scale, scales)
    for name, tensor in weights.items():
        shape = shape_of(name, tensor)
        if shape[:1] != (local_num_experts,):
            raise ValueError(
                f"{name} must hold {local_num_experts} local experts "
                f"in its first dimension, got the shape {shape}"
            )


def shape_of(name: str, tensor: TensorLike) -> tuple[int, ...]:
    """The shape of a tensor.

    Raises:
        TypeError: it has none, or not of numbers; names the tensor.
    """
    shape = getattr(tensor, "shape", None)
    if shape is None:
        raise TypeError(f"{name} must be a tensor with a shape, got {type(tensor).__name__}")
    try:
        return tuple(int(size) for size in shape)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} has an unreadable shape {shape!r}") from error


def _require_shape(name: str, tensor: TensorLike, expected: tuple[int, ...]) -> None:
    shape = shape_of(name, tensor)
    if shape != expected:
        raise ValueError(f"{name} must have the shape {expected}, got {shape}")
