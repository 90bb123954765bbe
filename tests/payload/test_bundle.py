"""What a package says about itself, whether it is intact, and what importing it does not do."""

from __future__ import annotations

import ctypes
import platform
import subprocess
import sys

import pytest

from tests.payload.assemble import CUBINS, Package, sha256
from tests.payload.fakes import FakeRunner, install

INFO_KEYS = [
    "package_version",
    "architecture",
    "cuda_major",
    "runner",
    "runner_sha256",
    "cubin_count",
    "fc1_situ_count",
    "fc2_count",
    "gpu_validated",
]


def test_info_has_the_published_keys_in_order(package: Package) -> None:
    info = package.load().bundle_info()
    assert list(info) == INFO_KEYS
    assert info == {
        "package_version": "1.2.3.post4",
        "architecture": "sm103a",
        "cuda_major": 13,
        "runner": str((package.folder / "lib/runner.so").resolve()),
        "runner_sha256": sha256(b"a runner"),
        "cubin_count": 3,
        "fc1_situ_count": 2,
        "fc2_count": 1,
        "gpu_validated": False,
    }


def test_info_hashes_nothing(package: Package) -> None:
    (package.folder / "lib/runner.so").unlink()
    assert package.load().bundle_info()["cubin_count"] == 3


def test_roles_of_another_bundle_are_counted_too(package: Package) -> None:
    manifest = package.manifest
    for cubin in manifest["cubins"]:
        cubin["role"] = "swiglu"
    package.write_manifest(manifest)
    info = package.load().bundle_info()
    counts = {key: info[key] for key in info if key.endswith("_count")}
    assert counts == {"cubin_count": 3, "fc1_situ_count": 0, "fc2_count": 0, "swiglu_count": 3}


def test_verify_returns_the_info(package: Package) -> None:
    module = package.load()
    assert module.verify_bundle() == module.bundle_info()


def test_verify_names_every_damaged_file_at_once(package: Package) -> None:
    one, two, three = (f"cubins/{arch}/{name}" for name, (arch, _, _) in CUBINS.items())
    (package.folder / one).unlink()
    (package.folder / two).write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    (package.folder / "lib/runner.so").write_bytes(b"a runner\0")
    module = package.load()
    with pytest.raises(module.BundleError) as caught:
        module.verify_bundle()
    head, *lines = str(caught.value).splitlines()
    assert "3 of 4 files" in head
    assert [
        name in line for name, line in zip(["lib/runner.so", one, two], lines, strict=True)
    ] == [
        True,
        True,
        True,
    ]
    assert "cannot read: No such file" in lines[1]
    assert "(43 bytes)" in lines[2]
    assert three not in str(caught.value)


def test_importing_loads_nothing_native(package: Package) -> None:
    """Nor does asking for the contents, or a call that the checks refuse."""
    code = f"""
import sys
import {package.name} as situ, {package.name}.op, {package.name}.loader
situ.bundle_info(); situ.verify_bundle(); situ.raise_last_callback_error()
try:
    situ.get_valid_k3_situ_configs(0)
except ValueError:
    pass
heavy = {{"tvm_ffi", "torch", "flashinfer", "numpy", "cuda"}} & set(sys.modules)
assert not heavy, heavy
loaded = open("/proc/self/maps").read()
assert "libtvm" not in loaded and "libcuda" not in loaded, loaded
print(situ.__version__)
"""
    result = subprocess.run(
        [
            sys.executable,
            "-I",
            "-c",
            f"import sys; sys.path.insert(0, {str(package.project)!r})\n{code}",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "1.2.3.post4\n", "")


def test_the_runner_is_opened_once_and_only_when_needed(
    package: Package, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = FakeRunner()
    module = install(package, runner, monkeypatch)
    assert runner.opened == []
    assert module.load_raw_module() is module.load_raw_module()
    module.get_valid_k3_situ_configs(1)
    assert runner.opened == [module.bundle_info()["runner"]]


@pytest.mark.parametrize("damage", ["lib/runner.so", "cubins/sm100f/Bmm_two_siTuGlu_sm100f.cubin"])
def test_a_damaged_bundle_is_not_opened(
    package: Package, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    (package.folder / damage).write_bytes(b"other")
    runner = FakeRunner()
    module = install(package, runner, monkeypatch)
    with pytest.raises(module.BundleError, match=damage.rpartition("/")[2]):
        module.get_valid_k3_situ_configs(1)
    assert runner.opened == []


@pytest.mark.parametrize(("function", "value"), [("machine", "aarch64"), ("system", "Darwin")])
def test_another_platform_is_refused_when_opening(
    package: Package, monkeypatch: pytest.MonkeyPatch, function: str, value: str
) -> None:
    runner = FakeRunner()
    module = install(package, runner, monkeypatch)
    monkeypatch.setattr(platform, function, lambda: value)
    assert module.verify_bundle()["cubin_count"] == 3
    with pytest.raises(module.BundleError, match=f"for linux_x86_64, this is .*{value.lower()}"):
        module.load_raw_module()
    assert runner.opened == []
    monkeypatch.undo()


def test_missing_entry_points_are_all_named(
    package: Package, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = install(package, FakeRunner(entry_points=("something_else",)), monkeypatch)
    message = "trtllm_fp4_block_scale_moe_private, trtllm_get_valid_moe_configs_private"
    with pytest.raises(module.BundleError, match=f"lacks the entry points {message}"):
        module.load_raw_module()


def test_entry_points_are_those_of_the_manifest(
    package: Package, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bundle with other names needs no other loader."""
    manifest = package.manifest
    manifest["runner"]["ffi_symbols"] = ["moe", "configs"]
    package.write_manifest(manifest)
    runner = FakeRunner(entry_points=("moe", "configs"))
    module = install(package, runner, monkeypatch)
    assert module.loader.call("moe", 1, "two") == "result"
    assert runner.calls == [("moe", (1, "two"))]


def test_a_runner_without_the_cubin_functions_is_refused(
    package: Package, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = FakeRunner()
    module = install(package, runner, monkeypatch)
    monkeypatch.setattr(ctypes, "CDLL", lambda path: object())
    with pytest.raises(module.BundleError, match="FlashInferSetCubinCallback"):
        module.load_raw_module()


def test_without_apache_tvm_ffi(package: Package, monkeypatch: pytest.MonkeyPatch) -> None:
    module = package.load()
    monkeypatch.setitem(sys.modules, "tvm_ffi", None)
    with pytest.raises(module.BundleError, match=r"install apache-tvm-ffi >=0\.1\.12,<0\.2"):
        module.load_raw_module()


def test_a_failed_opening_can_be_repeated(
    package: Package, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = FakeRunner(entry_points=())
    module = install(package, runner, monkeypatch)
    with pytest.raises(module.BundleError):
        module.load_raw_module()
    runner.entry_points = (
        "trtllm_fp4_block_scale_moe_private",
        "trtllm_get_valid_moe_configs_private",
    )
    assert module.load_raw_module() is runner
