"""Manifests that the loader must refuse, and those that it must accept."""

from __future__ import annotations

from typing import Any

import pytest

from tests.payload.assemble import Package


def _runner(**changes: Any) -> Any:
    return lambda manifest: {"runner": manifest["runner"] | changes}


def _first_cubin(**changes: Any) -> Any:
    def change(manifest: dict[str, Any]) -> dict[str, Any]:
        first, *others = manifest["cubins"]
        return {"cubins": [first | changes, *others]}

    return change


BAD = {
    "schema 2": ({"schema_version": 2}, "expected schema_version 1, found 2"),
    "schema true": ({"schema_version": True}, "schema_version must be int, found True"),
    "schema text": ({"schema_version": "1"}, "schema_version must be int, found '1'"),
    "schema gone": ({"schema_version": None}, "schema_version must be int, found None"),
    "version gone": ({"package_version": None}, "package_version must be str"),
    "major float": ({"cuda_major": 13.0}, "cuda_major must be int"),
    "validated 0": ({"gpu_validated": 0}, "gpu_validated must be bool"),
    "runner list": ({"runner": []}, r"runner\. must be a JSON object"),
    "cubins object": ({"cubins": {}}, "cubins must be list"),
    "cubin number": ({"cubins": [1]}, r"cubins\[0\]\. must be a JSON object"),
    "runner digest": (_runner(sha256=7), r"runner\.sha256 must be str"),
    "runner outside": (_runner(path="../x.so"), "runner.path must be a path inside the package"),
    "runner absolute": (_runner(path="/lib/x.so"), "runner.path must be a path inside"),
    "runner versions": (_runner(minimum_versions=[]), "runner.minimum_versions must be dict"),
    "cubin role": (_first_cubin(role=None), r"cubins\[0\]\.role must be str"),
    "cubin outside": (_first_cubin(path="a/../../x"), r"cubins\[0\]\.path must be a path inside"),
    "cubin backslash": (_first_cubin(path="a\\b"), r"cubins\[0\]\.path must be a path inside"),
    "other file name": (_first_cubin(filename="x.cubin"), "is not a file x.cubin"),
    "two of a name": (
        lambda manifest: {"cubins": manifest["cubins"] * 2},
        "two cubins are named Bmm_one_siTuGlu_sm103a.cubin",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_manifest_that_does_not_fit_is_refused(package: Package, case: str) -> None:
    changes, message = BAD[case]
    package.edit(**(changes(package.manifest) if callable(changes) else changes))
    module = package.load()
    for function in (module.bundle_info, module.verify_bundle, module.load_raw_module):
        with pytest.raises(module.BundleError, match=message) as caught:
            function()
        assert "manifest.json" in str(caught.value)


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"\xff\xfe", b"[]", b"null", b"[" * 100_000, b'{"a": 1', b"version https://"],
)
def test_a_file_that_is_no_manifest_is_refused(package: Package, data: bytes) -> None:
    (package.folder / "manifest.json").write_bytes(data)
    module = package.load()
    with pytest.raises(module.BundleError, match=r"manifest\.json"):
        module.bundle_info()


def test_a_missing_manifest_is_refused(package: Package) -> None:
    (package.folder / "manifest.json").unlink()
    module = package.load()
    with pytest.raises(module.BundleError, match=r"manifest\.json: cannot read"):
        module.verify_bundle()


def test_the_fault_is_found_again_until_it_is_mended(package: Package) -> None:
    manifest = package.manifest
    package.edit(schema_version=3)
    module = package.load()
    with pytest.raises(module.BundleError):
        module.bundle_info()
    package.write_manifest(manifest)
    assert module.bundle_info()["cubin_count"] == 3


def test_keys_that_the_runtime_does_not_know_are_left_alone(package: Package) -> None:
    """Everything that situ-release adds to the published schema, and what may come later."""
    manifest = package.manifest
    manifest["recipe"] = {"name": "x", "sha256": "0" * 64}
    manifest["runner"] |= {
        "minimum_versions": {"GLIBC": "2.17", "GLIBCXX": "3.4.32"},
        "needed": ["libc.so.6"],
        "kernel_table": {"count": 1, "sha256": "0" * 64},
    }
    for cubin in manifest["cubins"]:
        cubin |= {"kernel": "bmm_x", "registers": 168, "toolchain": {"producer": "ptxas"}}
    package.write_manifest(manifest)
    assert package.load().verify_bundle()["cubin_count"] == 3
