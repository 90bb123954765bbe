"""The public FlashInfer wheels, pinned by SHA-256, and a stand-in for the runner made from them.

The wheel with the cubins has 458 MB. It is fetched only where ``SITU_BIG=1`` says so, and then
kept.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from situ_release.bundle.recipe import load_recipe
from situ_release.sources.metadata_header import MetadataEntry
from tests.published import NotFetchedError, cache_folder, fetch
from tests.synth.elf import make_runner

RECIPE = "flashinfer-mxfp4-swiglu"
CUBIN_WHEEL = (
    "flashinfer-cubin==0.6.13",
    "41e4848c2d09d220e8394489b2fb6cfec6b6ad09f897b5ab8b39fc23055f6c24",
)
SNAPSHOT_WHEEL = (
    "flashinfer-python==0.6.13",
    "239e6ddc3cbbaf0bee251861a8c7c69438b1171830d69ddfa133ddea4494850d",
)
POOL = "batched_gemm-91e0ba0-896b90b"
POOL_FOLDER = f"flashinfer_cubin/cubins/d2c5915bf45ae64308a947824c14966c2718a292/{POOL}"
"""The batched-GEMM pool in the wheel with the cubins."""

EPOCH = "1782335000"
"""A SOURCE_DATE_EPOCH: neither wheel says when its sources were committed."""


def cubin_wheel() -> Path:
    """The wheel with the public pools.

    Raises:
        NotFetchedError: it is not cached, and nobody asked to fetch it or the index cannot be
            reached.
    """
    requirement, sha256 = CUBIN_WHEEL
    cached = any((cache_folder() / sha256).glob("*.whl"))
    if not cached and os.environ.get("SITU_BIG") != "1":
        raise NotFetchedError("458 MB that are not cached yet; SITU_BIG=1 fetches them")
    return fetch(requirement, sha256, "any")


def snapshot_wheel() -> Path:
    """The wheel with the sources that runners are compiled from (14 MB).

    Raises:
        NotFetchedError: the index cannot be reached.
    """
    requirement, sha256 = SNAPSHOT_WHEEL
    return fetch(requirement, sha256, "any")


def write_stand_in(path: Path, entries: Iterable[MetadataEntry]) -> Path:
    """A shared object with the recipe's symbols and the whole kernel table, and no code.

    Args:
        path: where to write it.
        entries: of the metadata header that a real one would be compiled with.
    """
    policy = load_recipe(RECIPE).recipe.runner
    table = [(entry.name, entry.sha256) for entry in entries]
    path.write_bytes(
        make_runner(policy.ffi_symbols, policy.c_symbols, table, undefined=["TVMFFIErrorCreate"])
    )
    return path
