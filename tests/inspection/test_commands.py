"""``inspect`` and ``diff`` as they are typed."""

from __future__ import annotations

from pathlib import Path

from tests.cli.run import situ
from tests.inspection import golden
from tests.synth.elf import make_cubin, make_runner
from tests.synth.pool import KERNELS, make_pool
from tests.synth.wheel import (
    PACKAGE,
    cubin_of,
    cubin_path,
    exchange,
    kernels,
    make_payload,
    make_wheel,
)


def test_inspect_shows_the_page(tmp_path: Path) -> None:
    (tmp_path / "k.cubin").write_bytes(make_cubin(KERNELS[0]))
    result = situ("inspect", "k.cubin", cwd=tmp_path)
    assert (result.code, result.stderr) == (0, "")
    assert result.stdout.startswith("Cubin for sm_103a\n")
    assert max(map(len, result.stdout.splitlines())) <= golden.WIDTH


def test_inspect_in_full(tmp_path: Path) -> None:
    pool = make_pool(tmp_path, near_misses=True)
    pool.checksums.write_bytes(b"")
    short, full = (situ("inspect", pool.root, *flags).stdout for flags in ((), ("-v",)))
    assert "and 12 more (--json or -v shows all)" in short
    assert "shows all" not in full
    unlisted = full.replace("\n    ", "").splitlines()
    assert all(f"  {path}" in unlisted for path in pool.paths.values())


def test_inspect_json_is_complete(tmp_path: Path) -> None:
    paths = tuple(f"/home/somebody/build/part{number:02}/source.cu" for number in range(30))
    (tmp_path / "r.so").write_bytes(make_runner(strings=paths))
    document = situ("inspect", tmp_path / "r.so", "--json").json
    assert (document["kind"], document["path"]) == ("runner", str(tmp_path / "r.so"))
    assert document["facts"]["embedded_paths"] == list(paths)
    pool = situ("inspect", make_pool(tmp_path).root, "--json").json["facts"]["pools"][0]
    assert [len(pool["cubins"]["cubins"]), pool["header"]["census"]["count"]] == [8, 8]
    wheel = situ("--json", "inspect", make_wheel(tmp_path / "w")).json
    assert wheel["facts"]["manifest"]["document"]["schema_version"] == 1


def test_inspect_of_something_else(tmp_path: Path) -> None:
    (tmp_path / "k.cubin").write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    result = situ("inspect", "k.cubin", "--json", cwd=tmp_path)
    assert result.code == 3
    error = result.json["error"]
    assert error["found"] == "a git-LFS pointer, not the file itself"
    assert error["where"] == "k.cubin"
    assert result.stderr.startswith("error: k.cubin: ")
    assert len(result.stderr.splitlines()) == 1
    assert situ("inspect", tmp_path / "missing").code == 3


def test_diff(tmp_path: Path) -> None:
    kernel = kernels()["w4a8-fc1"][0]
    member = f"{PACKAGE}/{cubin_path(kernel)}"
    old = make_wheel(tmp_path / "old")
    new = make_wheel(tmp_path / "new", edit=exchange(member, cubin_of(kernel, seed=2)))
    result = situ("diff", old, new)
    assert result.code == 1
    first = "Binaries: 1 changed, 0 added, 0 removed, 8 the same."
    assert result.stdout.splitlines()[0] == first
    document = situ("diff", old, new, "--json").json
    assert document["identical"] is False
    assert document["headline"] == first
    assert [file["path"] for file in document["binaries"]["changed"]] == [member]
    assert len(document["binaries"]["same"]) == 8
    assert document["binaries"]["added"] == document["binaries"]["removed"] == []
    assert document["kernel_table"]["old"]["count"] == 9
    assert [change["key"].rpartition(".")[2] for change in document["manifest"]] == ["sha256"]
    assert document["metadata"] == document["python"] == []


def test_diff_of_the_same(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path)
    result = situ("diff", wheel, wheel, "--json")
    assert result.code == 0
    assert result.json["identical"] is True
    assert result.json["compression"]["compression"] == []


def test_diff_of_different_kinds(tmp_path: Path) -> None:
    wheel, payload = make_wheel(tmp_path / "w"), make_payload(tmp_path / "p")
    result = situ("diff", wheel, payload, "--json")
    assert result.code == 2
    assert result.json["error"]["found"] == "a wheel and a payload"
    assert situ("diff", wheel, tmp_path / "missing").code == 3
    assert situ("diff", wheel).code == 2
