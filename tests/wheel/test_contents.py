"""A7, A8: a bundle's files and its manifest, both ways."""

from __future__ import annotations

from pathlib import Path

import pytest

from situ_release.bundle.manifest import read_manifest
from situ_release.errors import InputError
from situ_release.wheel.archive import open_wheel
from situ_release.wheel.contents import (
    foreign_files,
    is_package_source,
    package_folder,
    payload_files,
    payload_problems,
)
from tests.synth.wheel import MANIFEST, PACKAGE, RUNNER, Files, edit_manifest, exchange, make_wheel


def problems(path: Path) -> list[str]:
    contents = open_wheel(path).scan(lambda name: name == MANIFEST)
    manifest = read_manifest(contents[MANIFEST].data or b"", MANIFEST)
    return [str(item) for item in payload_problems(PACKAGE, manifest, contents, "do this")]


def a_cubin(files: Files) -> str:
    return next(name for name in files if name.endswith(".cubin"))


@pytest.mark.parametrize("style", ["published", "ours"])
def test_sound(tmp_path: Path, style: str) -> None:
    assert problems(make_wheel(tmp_path, style=style)) == []


def test_the_published_one_is_sound(published_wheel: Path) -> None:
    assert problems(published_wheel) == []


def test_missing_file(tmp_path: Path) -> None:
    (problem,) = problems(make_wheel(tmp_path, edit=lambda files: files.pop(a_cubin(files))))
    assert (
        "sm103a.cubin: listed in the manifest and missing: expected a file, found none" in problem
    )


def test_extra_files(tmp_path: Path) -> None:
    extra = [
        f"{PACKAGE}/cubins/sm103a/Bmm_old_sm103a.cubin",
        f"{PACKAGE}/lib/libother.so",
        f"{PACKAGE}/licenses/libhidden.so",
        f"{PACKAGE}/manifest.json.orig",
        f"{PACKAGE}/loader.pyc",
    ]
    listed = problems(
        make_wheel(tmp_path, edit=lambda files: files.update(dict.fromkeys(extra, b"")))
    )
    assert [item.split(":")[0] for item in listed] == extra
    assert all("not listed in the manifest" in item for item in listed)


def test_changed_and_shortened(tmp_path: Path) -> None:
    def edit(files: Files) -> None:
        files[RUNNER] = files[RUNNER][:-1] + b"\1"
        files[a_cubin(files)] = b"version https://git-lfs"

    listed = problems(make_wheel(tmp_path, edit=edit))
    assert [item.split(": ")[1] for item in listed] == [
        "the bytes differ from the manifest",
        "the size differs from the manifest",
        "the bytes differ from the manifest",
    ]
    assert listed[0].startswith(f"{RUNNER}: ")


def test_an_exchanged_binary_with_corrected_manifest_is_consistent(tmp_path: Path) -> None:
    """The manifest cannot tell; the runner's own table does (recover, verify)."""
    assert problems(make_wheel(tmp_path, edit=exchange(RUNNER, b"other"))) == []


def test_listed_twice(tmp_path: Path) -> None:
    def twice(document: dict[str, list[object]]) -> None:
        document["cubins"].append(document["cubins"][0])

    (problem,) = problems(make_wheel(tmp_path, edit=edit_manifest(twice)))
    assert "listed twice in the manifest" in problem


def test_payload_files_are_runner_and_cubins(tmp_path: Path) -> None:
    archive = open_wheel(make_wheel(tmp_path))
    files = payload_files(read_manifest(archive.read(MANIFEST), MANIFEST))
    assert f"{PACKAGE}/{files[0].path}" == RUNNER
    assert len(files) == 9


@pytest.mark.parametrize(
    ("path", "own"),
    [
        ("manifest.json", True),
        ("py.typed", True),
        ("_runtime/bundle.py", True),
        ("op.pyi", True),
        ("licenses/NOTICE", True),
        ("licenses/third_party/cutlass.txt", True),
        ("licenses/x.so", False),
        ("licenses", False),
        ("data.json", False),
        ("cubins/manifest.json", False),
        ("README.md", False),
        ("x.cubin", False),
    ],
)
def test_what_a_package_may_hold_besides(path: str, own: bool) -> None:
    assert is_package_source(path) is own


def test_package_folder() -> None:
    names = ["a/manifest.json", "a/b/manifest.json", "a-1.dist-info/manifest.json", "manifest.json"]
    assert package_folder(names, "x.whl") == "a"
    with pytest.raises(InputError, match=r"x\.whl: there is no manifest: expected one <package>/"):
        package_folder(names[1:], "x.whl")
    with pytest.raises(InputError, match=r"more than one manifest.*found a/manifest.json, b/mani"):
        package_folder([*names, "b/manifest.json"], "x.whl")


def test_foreign_files() -> None:
    names = ["p/x.py", "p-1.dist-info/RECORD", "p.libs/libc.so", "p-1.data/scripts/x", "top.py"]
    assert foreign_files("p", names) == ("p.libs/libc.so", "p-1.data/scripts/x", "top.py")
