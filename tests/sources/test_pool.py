"""Pools: found, read and refused by path (CASES A1, A2, A3, A5), from folders and from zips."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from situ_release.digests import sha256_bytes
from situ_release.errors import InputError
from situ_release.sources.files import MAX_FILE_BYTES, DirectoryFiles
from situ_release.sources.kernel_name import cubin_filename
from situ_release.sources.marker import RecoveredClaims, RecoveredMarker
from situ_release.sources.pool import open_pool, open_pools
from tests.sources.attempt import attempt, is_complete
from tests.synth.pool import KERNELS, MiniPool, make_pool

KERNEL = KERNELS[0]
FILE = cubin_filename(KERNEL)


@pytest.fixture
def pool(tmp_path: Path) -> MiniPool:
    return make_pool(tmp_path)


def refusal(call: Callable[[], object]) -> str:
    """The message of a refused call."""
    with pytest.raises(InputError) as caught:
        call()
    assert is_complete(caught.value)
    return str(caught.value)


def zipped(root: Path, inner: str = "", compression: int = zipfile.ZIP_DEFLATED) -> Path:
    """A zip of a folder, below ``inner``, beside it."""
    target = root.with_suffix(".zip")
    with zipfile.ZipFile(target, "w", compression) as archive:
        for path in sorted(root.rglob("*")):
            archive.write(path, Path(inner) / path.relative_to(root))
    return target


def test_a_complete_pool(pool: MiniPool) -> None:
    opened = open_pool(pool.root)
    assert opened.name == "pool"
    assert opened.cubin_count == len(KERNELS)
    assert opened.config_sha256 == sha256_bytes((pool.root / "config.json").read_bytes())
    assert opened.marker is None
    assert opened.find_all(KERNELS) == {kernel: cubin_filename(kernel) for kernel in KERNELS}
    assert opened.read(FILE) == pool.cubin(KERNEL).read_bytes()
    entry = opened.header.find(KERNEL)
    assert entry is not None
    assert entry.sha256 == opened.checksums.get(FILE) == pool.sha256(KERNEL)
    opened.verify_includes()


@pytest.mark.parametrize("header_name", ["flashinferMetaInfo.h", "flashInferMetaInfo.h"])
def test_both_spellings_of_the_header(tmp_path: Path, header_name: str) -> None:
    make_pool(tmp_path, header_name=header_name)
    opened = open_pool(tmp_path / "pool")
    assert opened.header_path == f"include/{header_name}"
    assert len(opened.header) == len(KERNELS)


def test_the_name_is_the_folders_even_for_a_dot(
    pool: MiniPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(pool.root)
    assert open_pool(Path()).name == "pool"


def test_a_pool_without_config_and_with_a_marker(tmp_path: Path) -> None:
    marker = RecoveredMarker(wheel="w.whl", wheel_sha256="0" * 64, claims=RecoveredClaims())
    make_pool(tmp_path, config=None, marker=marker)
    opened = open_pool(tmp_path / "pool")
    assert opened.config_sha256 is None
    assert opened.marker == marker


# --- A2: checksums and header must be there ---------------------------------------------------


@pytest.mark.parametrize("name", ["checksums.txt", "include/flashinferMetaInfo.h"])
def test_a_missing_part_is_named(pool: MiniPool, name: str) -> None:
    (pool.root / name).unlink()
    assert f"expected a file {name}, found no such file" in refusal(lambda: open_pool(pool.root))


def test_a_folder_that_is_no_pool(tmp_path: Path) -> None:
    assert "no pool" in refusal(lambda: open_pool(tmp_path))
    assert "no pool there" in refusal(lambda: open_pool(tmp_path / "missing"))
    (tmp_path / "file").write_text("text")
    assert "no zip file" in refusal(lambda: open_pool(tmp_path / "file"))


def test_a_selected_cubin_that_is_missing(pool: MiniPool) -> None:
    pool.cubin(KERNELS[1]).unlink()
    pool.cubin(KERNELS[4]).unlink()
    with pytest.raises(InputError) as caught:
        open_pool(pool.root).find_all(KERNELS)
    assert [each.expected for each in caught.value.problems] == [
        f"a file {cubin_filename(KERNELS[1])}",
        f"a file {cubin_filename(KERNELS[4])}",
    ]


def test_a_backup_is_no_cubin(pool: MiniPool) -> None:
    pool.cubin(KERNEL).rename(pool.root / f"{FILE}.bak")
    assert "no such file" in refusal(lambda: open_pool(pool.root).find(KERNEL))
    assert open_pool(pool.root).cubin_count == len(KERNELS) - 1


# --- A1: one file name in two places ----------------------------------------------------------


def test_one_name_with_two_contents_names_both_paths(pool: MiniPool) -> None:
    for folder, content in (("a", b"one"), ("b", b"two")):
        (pool.root / folder).mkdir()
        (pool.root / folder / FILE).write_bytes(content)
    pool.cubin(KERNEL).unlink()
    pool.refresh()
    message = refusal(lambda: open_pool(pool.root).find(KERNEL))
    assert f"a/{FILE}, b/{FILE}" in message
    assert open_pool(pool.root).find(KERNELS[1]) == cubin_filename(KERNELS[1])


def test_one_name_with_equal_contents_is_one_file(pool: MiniPool) -> None:
    (pool.root / "a").mkdir()
    (pool.root / "a" / FILE).write_bytes(pool.cubin(KERNEL).read_bytes())
    assert open_pool(pool.root).find(KERNEL) == FILE
    pool.cubin(KERNEL).rename(pool.root / "b.cubin")
    assert open_pool(pool.root).find(KERNEL) == f"a/{FILE}"


# --- A3: the include folder -------------------------------------------------------------------


def test_every_include_file_is_compared_both_ways(pool: MiniPool) -> None:
    include = pool.root / "include"
    pool.header.write_bytes(pool.header.read_bytes() + b"\n")
    (include / "trtllmGen_bmm_export" / "Enums.h").unlink()
    (include / "extra.h").write_text("// not listed\n")
    with pytest.raises(InputError) as caught:
        open_pool(pool.root).verify_includes()
    assert is_complete(caught.value)
    found = {Path(each.where).name: each.found for each in caught.value.problems}
    assert found == {
        "extra.h": "none",
        "Enums.h": "no such file",
        "flashinferMetaInfo.h": sha256_bytes(pool.header.read_bytes()),
    }


def test_the_whole_pool_is_compared_both_ways(pool: MiniPool) -> None:
    opened = open_pool(pool.root)
    opened.verify_all()
    pool.cubin(KERNEL).write_bytes(b"changed")
    pool.cubin(KERNELS[1]).unlink()
    (pool.root / "Bmm_new.cubin").write_bytes(b"new")
    with pytest.raises(InputError) as caught:
        open_pool(pool.root).verify_all()
    assert is_complete(caught.value)
    assert {Path(each.where).name: each.found for each in caught.value.problems} == {
        FILE: sha256_bytes(b"changed"),
        cubin_filename(KERNELS[1]): "no such file",
        "Bmm_new.cubin": "none",
    }


# --- A5: names that differ only by case -------------------------------------------------------


def test_names_that_differ_only_by_case_name_both(pool: MiniPool) -> None:
    (pool.root / FILE.replace("Bmm_", "bmm_")).write_bytes(b"other")
    message = refusal(lambda: open_pool(pool.root).find(KERNEL))
    assert FILE in message
    assert FILE.replace("Bmm_", "bmm_") in message


def test_a_suffix_in_other_letters_is_the_same_name_too(pool: MiniPool) -> None:
    twin = pool.root / f"{FILE.removesuffix('.cubin')}.CUBIN"
    twin.write_bytes(b"")
    assert "differ only by case" in refusal(lambda: open_pool(pool.root).find(KERNEL))


def test_another_case_is_not_the_file(pool: MiniPool) -> None:
    pool.cubin(KERNEL).rename(pool.root / FILE.replace("Bmm_", "bmm_"))
    message = refusal(lambda: open_pool(pool.root).find(KERNEL))
    assert f"found only {FILE.replace('Bmm_', 'bmm_')}" in message


# --- what is no regular file of the pool ------------------------------------------------------


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _folder(path: Path) -> None:
    path.mkdir()
    (path / "x").write_bytes(b"x")


def _link_out(path: Path) -> None:
    path.symlink_to(__file__)


def _dangling(path: Path) -> None:
    path.symlink_to("nowhere")


def _loop(path: Path) -> None:
    path.symlink_to(path.name)


@pytest.mark.parametrize(
    ("plant", "reason"),
    [
        (_fifo, "neither a regular file nor a folder"),
        (_folder, "a folder"),
        (_link_out, "a symbolic link out of the folder"),
        (_dangling, "leads nowhere"),
        (_loop, "leads nowhere"),
    ],
)
def test_what_is_named_like_a_cubin_but_is_none(
    pool: MiniPool, plant: Callable[[Path], None], reason: str
) -> None:
    pool.cubin(KERNEL).unlink()
    plant(pool.cubin(KERNEL))
    opened = open_pool(pool.root)
    assert reason in refusal(lambda: opened.find(KERNEL))
    with pytest.raises(InputError):
        opened.read(FILE)
    assert opened.find(KERNELS[1])


@pytest.mark.parametrize("plant", [_fifo, _folder, _link_out])
@pytest.mark.parametrize("name", ["checksums.txt", "include/flashinferMetaInfo.h"])
def test_what_is_named_like_a_part_but_is_none(
    pool: MiniPool, plant: Callable[[Path], None], name: str
) -> None:
    (pool.root / name).unlink()
    plant(pool.root / name)
    assert f"expected a file {name}" in refusal(lambda: open_pool(pool.root))


def test_a_linked_folder_is_not_entered(pool: MiniPool, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    pool.cubin(KERNEL).rename(outside / FILE)
    (pool.root / "sub").symlink_to(outside)
    opened = open_pool(pool.root)
    assert "no such file" in refusal(lambda: opened.find(KERNEL))
    with pytest.raises(InputError):
        opened.read(f"sub/{FILE}")


def test_a_link_inside_the_pool_is_a_file(pool: MiniPool) -> None:
    (pool.root / "store").mkdir()
    pool.cubin(KERNEL).rename(pool.root / "store" / "blob")
    pool.cubin(KERNEL).symlink_to("store/blob")
    assert open_pool(pool.root).find(KERNEL) == FILE


def test_an_unreadable_file_and_a_giant(pool: MiniPool, monkeypatch: pytest.MonkeyPatch) -> None:
    with pool.cubin(KERNEL).open("wb") as stream:
        stream.truncate(MAX_FILE_BYTES + 1)
    assert str(MAX_FILE_BYTES + 1) in refusal(lambda: open_pool(pool.root).read(FILE))

    def denied(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", denied)
    assert "Permission denied" in refusal(lambda: open_pool(pool.root).read(FILE))


def test_names_that_no_checksum_line_can_hold_are_refused(pool: MiniPool) -> None:
    (pool.root / "a\nb.cubin").write_bytes(b"")
    os.close(os.open(os.fsencode(pool.root) + b"/\xff.cubin", os.O_CREAT | os.O_WRONLY))
    listing = DirectoryFiles(pool.root).listing()
    assert len(listing.refused) == 2
    assert open_pool(pool.root).cubin_count == len(KERNELS)


# --- zips and several pools -------------------------------------------------------------------


@pytest.mark.parametrize("inner", ["", "package/pools/abc"])
def test_a_pool_in_a_zip_is_the_same(pool: MiniPool, inner: str) -> None:
    plain, packed = open_pool(pool.root), open_pool(zipped(pool.root, inner))
    assert packed.header.entries == plain.header.entries
    assert packed.checksums.digests == plain.checksums.digests
    assert packed.config_sha256 == plain.config_sha256
    assert packed.find_all(KERNELS) == plain.find_all(KERNELS)
    assert packed.read(FILE) == plain.read(FILE)
    assert packed.cubin_count == plain.cubin_count
    assert packed.name == (inner.rpartition("/")[2] or "pool.zip")
    packed.verify_includes()


def test_a_folder_inside_a_zip_can_be_named(pool: MiniPool) -> None:
    archive = zipped(pool.root, "a/b")
    assert open_pool(archive / "a" / "b").name == "b"
    assert "no pool there" in refusal(lambda: open_pool(archive / "a" / "c"))


def test_only_what_is_asked_for_is_read_from_a_zip(pool: MiniPool) -> None:
    archive = zipped(pool.root, compression=zipfile.ZIP_STORED)
    data = bytearray(archive.read_bytes())
    for kernel in KERNELS[1:]:
        content = pool.cubin(kernel).read_bytes()
        at = data.index(content)
        data[at : at + len(content)] = bytes(len(content))
    archive.write_bytes(data)
    opened = open_pool(archive)
    assert sha256_bytes(opened.read(opened.find(KERNEL))) == pool.sha256(KERNEL)
    assert "damaged" in refusal(lambda: opened.read(opened.find(KERNELS[1])))


def test_bad_members_of_a_zip(pool: MiniPool) -> None:
    archive = zipped(pool.root)
    link = zipfile.ZipInfo("link.cubin")
    link.external_attr = 0o120777 << 16
    with zipfile.ZipFile(archive, "a") as add:
        add.writestr(link, "/etc/passwd")
        add.writestr("../outside.cubin", b"")
        add.writestr("/absolute.cubin", b"")
        add.writestr("/".join(["deep"] * 100), b"")
        with pytest.warns(UserWarning, match="Duplicate"):
            add.writestr(FILE, b"again")
    opened = open_pool(archive)
    assert opened.cubin_count == len(KERNELS) - 1
    assert "two members of this name" in refusal(lambda: opened.find(KERNEL))
    assert "a link or device" in refusal(lambda: opened.read("link.cubin"))
    assert len(opened.files.listing().refused) == 5


def test_other_compression_methods_are_refused(pool: MiniPool) -> None:
    archive = zipped(pool.root, compression=zipfile.ZIP_LZMA)
    assert "compression method 14" in refusal(lambda: open_pool(archive).header)


@given(st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_arbitrary_edits_of_a_zip(tmp_path: Path, data: st.DataObject) -> None:
    root = tmp_path / "pool"
    content = zipped(root if root.is_dir() else make_pool(tmp_path, KERNELS[:2]).root).read_bytes()
    start = data.draw(st.integers(len(content) - 1500, len(content)))
    end = data.draw(st.integers(start, len(content)))
    edited = tmp_path / "edited.zip"
    edited.write_bytes(content[:start] + data.draw(st.binary(max_size=40)) + content[end:])

    def read_everything() -> None:
        pool = open_pool(edited)
        _ = pool.header, pool.checksums, pool.marker, pool.config_sha256
        pool.verify_includes()
        for path in pool.find_all(KERNELS[:2]).values():
            pool.read(path)

    _, refused = attempt(read_everything)
    assert refused is None or is_complete(refused)


def test_a_damaged_zip(pool: MiniPool) -> None:
    archive = zipped(pool.root)
    archive.write_bytes(archive.read_bytes()[:-30])
    assert "no zip file" in refusal(lambda: open_pool(archive))


def test_several_pools_in_one_folder(tmp_path: Path) -> None:
    make_pool(tmp_path, name="bmm")
    other = make_pool(tmp_path, name="gemm")
    text = other.header.read_bytes()
    other.header.write_bytes(text.replace(b"tllmGenBatchedGemm", b"tllmGenGemm"))
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "checksums.txt").write_bytes(b"")
    assert [each.name for each in open_pools(tmp_path)] == ["bmm", "gemm", "plain"]
    assert open_pool(tmp_path).name == "bmm"
    assert open_pool(zipped(tmp_path)).name == "bmm"
    make_pool(tmp_path, name="second")
    message = refusal(lambda: open_pool(tmp_path))
    assert "several pools" in message
    assert f"{tmp_path}/bmm, {tmp_path}/second" in message


def test_nothing_outside_the_selection_is_read(
    pool: MiniPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    original = DirectoryFiles.head

    def spy(self: DirectoryFiles, path: str, size: int) -> bytes:
        asked.append(path)
        return original(self, path, size)

    monkeypatch.setattr(DirectoryFiles, "head", spy)
    opened = open_pool(pool.root)
    _ = opened.header, opened.checksums, opened.cubin_count
    opened.read(opened.find(KERNEL))
    assert asked == ["include/flashinferMetaInfo.h", "checksums.txt", FILE]
