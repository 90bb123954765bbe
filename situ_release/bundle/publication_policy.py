"""The recipe's section ``[publication]``: what reviewers must have decided before a release."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

ApprovalKind = Literal[
    "nvidia-redistribution", "model-owner", "export-control", "license", "release-provenance"
]
"""What a reviewer can decide on. Texts for people are in ``data/approvals.toml``."""

APPROVAL_KINDS: tuple[ApprovalKind, ...] = get_args(ApprovalKind)


class PublicationPolicy(BaseModel):
    """What must be there before a wheel of this recipe may be published.

    Attributes:
        approvals: kinds of approval that must be given for the very wheel, each signed.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)

    approvals: Annotated[list[ApprovalKind], Field(json_schema_extra={"uniqueItems": True})]
