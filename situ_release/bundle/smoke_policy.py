"""The recipe's section ``[smoke]``: what ``gpu-smoke`` demands of a bundle."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

SmokeTier = Literal["load", "cubins", "numerics", "memory", "determinism", "shards", "rehearsal"]

Share = Annotated[float, Field(gt=0, lt=1)]
Tokens = Annotated[int, Field(ge=0)]


class _Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)


class SmokeTolerance(_Closed):
    """How far a correct output may be from the reference.

    Attributes:
        cosine: least cosine over the whole output.
        relative_l2: most relative L2 error over the whole output.
        worst_token: most relative L2 error of a single token.
        element: an element is outside when its error exceeds this share of the sum of its magnitude
            and its token's root mean square.
        outside: most share of elements that may be outside.
        reason: why these bounds and no others.
    """

    cosine: Annotated[float, Field(gt=0, le=1)]
    relative_l2: Share
    worst_token: Share
    element: Share
    outside: Annotated[float, Field(ge=0, lt=1)]
    reason: Annotated[str, Field(min_length=1)]


class SmokePolicy(_Closed):
    """What ``gpu-smoke`` demands of the bundle.

    Attributes:
        mandatory: tiers that must have passed before the bundle counts as validated on a GPU.
        tokens: token counts that always run; the first count of every range in which the runner
            offers other tiles joins them, up to the largest.
        full_tokens: the counts of these at which every selectable kernel of the offered tiles runs.
        tolerance: bounds of the numerics.
    """

    mandatory: Annotated[list[SmokeTier], Field(min_length=1)]
    tokens: Annotated[list[Tokens], Field(min_length=1)]
    full_tokens: list[Tokens]
    tolerance: SmokeTolerance

    @model_validator(mode="after")
    def _consistent(self) -> SmokePolicy:
        if unknown := sorted(set(self.full_tokens) - set(self.tokens)):
            raise ValueError(f"full_tokens {unknown} are not among tokens")
        return self
