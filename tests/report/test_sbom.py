"""The bill of materials: valid, complete, and the same bytes for the same manifest."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from situ_release.bundle.manifest import Manifest, read_manifest
from situ_release.bundle.recipe import Recipe
from situ_release.bundle.sbom import sbom
from situ_release.digests import sha256_bytes
from situ_release.errors import InputError
from situ_release.wheel.build import build_wheel
from tests.checks.bundle import sound_recipe
from tests.synth.inputs import make_inputs
from tests.synth.wheel import MANIFEST, bundle_files, kernels


@pytest.fixture(scope="module")
def text() -> bytes:
    return bundle_files(style="ours")[MANIFEST]


@pytest.fixture(scope="module")
def manifest(text: bytes) -> Manifest:
    return read_manifest(text, MANIFEST)


@pytest.fixture(scope="module")
def recipe() -> Recipe:
    return sound_recipe()


@pytest.fixture(scope="module")
def bill(manifest: Manifest, text: bytes, recipe: Recipe) -> dict[str, Any]:
    return json.loads(sbom(manifest, text, recipe))


def by_ref(bill: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {component["bom-ref"]: component for component in bill["components"]}


def test_valid_by_the_published_schema(bill: dict[str, Any]) -> None:
    validator = JsonStrictValidator(SchemaVersion.V1_6)
    assert validator.validate_str(json.dumps(bill)) is None
    broken = bill | {"components": [{"name": "no type"}]}
    assert validator.validate_str(json.dumps(broken)) is not None


def test_the_wheel_is_named_and_has_no_hash(bill: dict[str, Any], manifest: Manifest) -> None:
    wheel = bill["metadata"]["component"]
    assert (wheel["name"], wheel["version"]) == ("tokenspeed-situ", manifest.package_version)
    assert wheel["purl"] == f"pkg:pypi/tokenspeed-situ@{manifest.package_version}"
    assert "hashes" not in wheel


def test_runner_and_families_with_hashes_and_licences(
    bill: dict[str, Any], manifest: Manifest, recipe: Recipe
) -> None:
    components = by_ref(bill)
    runner = components["runner"]
    assert runner["hashes"] == [{"alg": "SHA-256", "content": manifest.runner.sha256}]
    assert [entry["expression"] for entry in runner["licenses"]] == ["Apache-2.0"]
    listed = {}
    for family in kernels():
        component = components[f"family/{family}"]
        assert [entry["expression"] for entry in component["licenses"]] == [
            recipe.declared.cubin_license
        ]
        for member in component["components"]:
            (digest,) = member["hashes"]
            listed[member["name"]] = digest["content"]
    assert listed == {entry.path: entry.sha256 for entry in manifest.cubins}
    assert components["python"]["licenses"][0]["expression"] == "MIT"
    assert components["source/FlashInfer"]["licenses"][0]["expression"] == "Apache-2.0"
    assert "requirement/apache-tvm-ffi" in components
    assert "host/libcuda.so.1" in components


def test_a_licence_that_nobody_declared_is_a_blank(
    manifest: Manifest, text: bytes, recipe: Recipe
) -> None:
    declared = recipe.declared.model_copy(update={"runner_license": ""})
    blank = recipe.model_copy(update={"declared": declared})
    runner = by_ref(json.loads(sbom(manifest, text, blank)))["runner"]
    assert "licenses" not in runner
    assert {"name": "situ-release:licence", "value": "not declared"} in runner["properties"]


def test_the_same_bytes_and_the_manifests_number(
    manifest: Manifest, text: bytes, recipe: Recipe, bill: dict[str, Any]
) -> None:
    assert sbom(manifest, text, recipe) == sbom(manifest, text, recipe)
    number = uuid.UUID(bill["serialNumber"])
    assert number.version == 5
    assert bill["metadata"]["timestamp"] == manifest.generated_at
    other = json.loads(sbom(manifest, text + b" ", recipe))
    assert other["serialNumber"] != bill["serialNumber"]
    properties = {p["name"]: p["value"] for p in bill["metadata"]["properties"]}
    assert properties["situ-release:manifest_sha256"] == sha256_bytes(text)


@pytest.mark.parametrize("when", ["yesterday", "2026-07-26T10:22:01", ""])
def test_a_time_that_is_none_is_an_error(
    manifest: Manifest, text: bytes, recipe: Recipe, when: str
) -> None:
    with pytest.raises(InputError, match="generated_at is not a time"):
        sbom(manifest.model_copy(update={"generated_at": when}), text, recipe)


def test_two_cubins_of_one_content_are_both_listed(
    manifest: Manifest, text: bytes, recipe: Recipe
) -> None:
    first, second, *rest = manifest.cubins
    twin = second.model_copy(update={"sha256": first.sha256})
    double = manifest.model_copy(update={"cubins": [first, twin, *rest]})
    document = json.loads(sbom(double, text, recipe))
    named = [
        member["name"]
        for component in document["components"]
        for member in component.get("components", ())
    ]
    assert {first.path, second.path} <= set(named)
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(document)) is None


def test_build_refuses_a_bill_that_the_backend_lost(tmp_path: Path) -> None:
    inputs = make_inputs(tmp_path / "in")
    payload = inputs.stage().payload
    project = payload / "pyproject.toml"
    project.write_text(project.read_text().replace("sbom-files", "# sbom-files"))
    with pytest.raises(Exception, match="another bill of materials"):
        build_wheel(payload, tmp_path / "raw")
