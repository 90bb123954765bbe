"""What a path is, and what is said of one that is nothing known."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest

from situ_release.errors import InputError
from situ_release.inspection.identify import identify
from situ_release.inspection.inspect import inspect_path
from tests.synth.elf import make_cubin, make_runner
from tests.synth.pool import KERNELS, make_pool, make_snapshot
from tests.synth.wheel import PACKAGE, RUNNER, cubin_path, kernels, make_payload, make_wheel


def test_files(tmp_path: Path) -> None:
    (tmp_path / "any.name").write_bytes(make_cubin())
    (tmp_path / "other").write_bytes(make_runner())
    header = make_pool(tmp_path).header
    renamed = tmp_path / "table.txt"
    renamed.write_bytes(header.read_bytes())
    assert identify(tmp_path / "any.name").kind == "cubin"
    assert identify(tmp_path / "other").kind == "runner"
    assert identify(header).kind == identify(renamed).kind == "metadata-header"
    payload = make_payload(tmp_path / "p")
    assert identify(payload / PACKAGE / "manifest.json").kind == "manifest"
    assert identify(make_wheel(tmp_path / "w")).kind == "wheel"


def test_folders(tmp_path: Path) -> None:
    assert identify(make_payload(tmp_path / "p")).kind == "payload"
    pool = make_pool(tmp_path)
    assert identify(pool.root).kind == "pool"
    assert identify(tmp_path / "pool" / "include" / "..").kind == "pool"
    for layout in ("files", "wheel"):
        assert identify(make_snapshot(tmp_path, layout=layout, name=layout)).kind == "snapshot"
    (tmp_path / "several").mkdir()
    make_pool(tmp_path / "several", KERNELS[:1], name="one")
    make_pool(tmp_path / "several", KERNELS[:1], name="two")
    assert identify(tmp_path / "several").kind == "pool"


def test_inside_a_wheel(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path / "w")
    kernel = kernels()["w4a8-fc1"][0]
    assert identify(wheel / PACKAGE / cubin_path(kernel)).kind == "cubin"
    assert identify(wheel / RUNNER).kind == "runner"
    assert identify(wheel / PACKAGE / "manifest.json").kind == "manifest"
    pool = make_pool(tmp_path)
    packed = tmp_path / "pools.zip"
    with zipfile.ZipFile(packed, "w") as archive:
        for path in pool.root.rglob("*"):
            archive.write(path, f"inner/{path.relative_to(pool.root)}")
    assert identify(packed).kind == identify(packed / "inner").kind == "pool"
    folder, inside = (inspect_path(path).facts for path in (pool.root, packed / "inner"))
    assert folder.pools[0].cubins == inside.pools[0].cubins  # type: ignore[union-attr]


def test_a_link_to_a_file_is_that_file(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "a" / "k.cubin").write_bytes(make_cubin())
    (tmp_path / "b" / "link").symlink_to(tmp_path / "a" / "k.cubin")
    assert identify(tmp_path / "b" / "link").kind == "cubin"


@pytest.mark.parametrize(
    ("name", "content", "found"),
    [
        ("k.cubin", b"version https://git-lfs.github.com/spec/v1\noid sha256:00\n", "git-LFS"),
        ("k.cubin", b"<!DOCTYPE html><html>404</html>", "HTML"),
        ("k.cubin", b"", "empty file"),
        ("k.cubin", bytes(64), "zero bytes"),
        ("runner.so", b"plain words\n", "text beginning 'plain words'"),
        ("notes.md", b"# flashinferMetaInfo.h has a tllmGenBatchedGemmList\n", "text beginning"),
        ("provenance.json", b'{"schema": 2}', "JSON"),
        ("x.whl", b"PK\x03\x04 and then nothing", "no zip file"),
        ("x.gz", b"\x1f\x8b\x08", "gzip"),
    ],
)
def test_what_is_not_known_is_named(tmp_path: Path, name: str, content: bytes, found: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        inspect_path(path)
    (problem,) = caught.value.problems
    assert problem.where.endswith(name)
    assert found in problem.found
    assert problem.remedy


def test_a_zip_that_is_no_wheel(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("a.txt", "a")
    with pytest.raises(InputError, match="no wheel and holds no pool"):
        identify(tmp_path / "x.zip")


def test_what_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "empty").mkdir()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x.txt").write_text("x")
    payload = make_payload(tmp_path / "p")
    for path, found in (
        (tmp_path / "pipe", "neither a regular file nor a folder"),
        (tmp_path / "missing", "nothing"),
        (tmp_path / "empty", "an empty folder"),
        (tmp_path / "full", "a folder with 1 entries"),
        (payload / PACKAGE, "import package"),
        (make_wheel(tmp_path / "w") / "missing", "nothing"),
    ):
        with pytest.raises(InputError, match=found):
            identify(path)
