"""The manifest's schema is that of JSON: a value of another type is not the value."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from situ_release.bundle.manifest import read_manifest
from situ_release.errors import InputError
from tests.synth.wheel import MANIFEST, bundle_files, dump

Change = Callable[[dict[str, Any]], object]

SNAPSHOT = {
    "version": "0.6.13",
    "kind": "git",
    "commit": "c0" * 20,
    "tree": "7e" * 20,
    "dirty": False,
    "branch": None,
}


def reads(change: Change) -> None:
    document = json.loads(bundle_files(style="ours")[MANIFEST])
    document["snapshot"] = dict(SNAPSHOT)
    change(document)
    read_manifest(dump(document), MANIFEST)


@pytest.mark.parametrize(
    "when",
    [
        "2026-07-26T10:22:01+00:00",
        "2026-07-26T10:22:01.948560+02:00",
        "2026-07-26T10:22:01Z",
    ],
)
def test_times_with_an_offset(when: str) -> None:
    reads(lambda document: document.update(generated_at=when))


@pytest.mark.parametrize(
    ("change", "key"),
    [
        (lambda d: d["cubins"][0].update(size=str(d["cubins"][0]["size"])), "cubins.0.size"),
        (lambda d: d["cubins"][0].update(size=float(d["cubins"][0]["size"])), "cubins.0.size"),
        (lambda d: d["cubins"][0].update(size=True), "cubins.0.size"),
        (lambda d: d.update(cuda_major="13"), "cuda_major"),
        (lambda d: d.update(gpu_validated="no"), "gpu_validated"),
        (lambda d: d.update(gpu_validated=0), "gpu_validated"),
        (lambda d: d["source_provenance"].update(source_pool_cubin_count=9.0), "source_provenance"),
        (lambda d: d["source_provenance"].update(source_pool_cubin_count=True), "source_prov"),
        (lambda d: d.update(schema_version=True), "schema"),
        (lambda d: d.update(schema_version=1.0), "schema"),
        (lambda d: d.update(schema_version=[1]), "schema"),
        (lambda d: d.update(generated_at="yesterday"), "generated_at"),
        (lambda d: d.update(generated_at="2026-07-26T10:22:01"), "generated_at"),
        (lambda d: d.update(generated_at="2026-13-26T10:22:01Z"), "generated_at"),
        (lambda d: d["snapshot"].update(commit="main"), "snapshot.commit"),
        (lambda d: d["snapshot"].update(tree="E" * 40), "snapshot.tree"),
        (lambda d: d["tools"].update(situ_release="newest"), "tools.situ_release"),
        (lambda d: d["recipe"].update(sha256="0" * 63), "recipe.sha256"),
    ],
)
def test_a_value_that_does_not_fit(change: Change, key: str) -> None:
    with pytest.raises(InputError, match=key):
        reads(change)
