"""Staging on synthetic sources: what goes in, and every way in which the sources can disagree."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from situ_release.atomic import OWNER_FILE
from situ_release.bundle.lock import write_lock_file
from situ_release.bundle.selection import select
from situ_release.errors import HostError, InputError, Problem, UsageError
from situ_release.sources.marker import RecoveredClaims, RecoveredMarker
from tests.synth.elf import make_cubin, make_fatbin
from tests.synth.inputs import MiniInputs, make_inputs
from tests.synth.pool import FAMILIES, KERNELS, NEAR_MISSES, UNKNOWN_NAMES, git

FIRST = KERNELS[0]


def refused(inputs: MiniInputs, **options: object) -> tuple[Problem, ...]:
    """The problems of a staging that must fail, and leave nothing behind."""
    before = sorted(path.name for path in inputs.folder.iterdir())
    with pytest.raises(InputError) as caught:
        inputs.stage(**options)
    assert sorted(path.name for path in inputs.folder.iterdir()) == before
    for problem in caught.value.problems:
        assert problem.what
        assert problem.where
        assert problem.remedy
    return caught.value.problems


def tree(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_payload_holds_exactly_the_families(inputs: MiniInputs) -> None:
    staged = inputs.stage()
    cubins = {path.name for path in inputs.out.rglob("*.cubin")}
    assert cubins == {f"B{name[1:]}.cubin" for name in KERNELS}
    assert [family.selected for family in staged.families] == [2, 2, 2, 2]
    manifest = json.loads(staged.manifest_path.read_text())
    assert [entry["filename"] for entry in manifest["cubins"]] == sorted(cubins)
    assert {entry["family"] for entry in manifest["cubins"]} == set(FAMILIES)
    for entry in manifest["cubins"]:
        path = staged.manifest_path.parent / entry["path"]
        assert path.stat().st_size == entry["size"]
        assert entry["toolchain"]["producer"] == "ptxas"
    assert manifest["snapshot"]["kind"] == "git"
    assert manifest["snapshot"]["dirty"] is False
    assert len(manifest["snapshot"]["commit"]) == 40
    assert manifest["generated_at"] == "2026-01-02T03:04:05+00:00"
    assert "recovered_from" not in manifest
    assert str(inputs.folder) not in staged.manifest_path.read_text()


def test_near_misses_are_not_selected(tmp_path: Path) -> None:  # A4
    inputs = make_inputs(tmp_path / "sources", near_misses=True)
    (inputs.pool.root / f"B{FIRST[1:]}.cubin.bak").write_bytes(b"backup")
    inputs.stage()
    names = {path.name for path in inputs.out.rglob("*.cubin*")}
    assert names == {f"B{name[1:]}.cubin" for name in KERNELS}
    assert NEAR_MISSES


def test_names_with_unknown_tokens_are_reported_not_selected(inputs: MiniInputs) -> None:  # A4
    selection = select((*KERNELS, *UNKNOWN_NAMES), inputs.recipe.recipe, "table")
    assert {kernel.name for kernel in selection.kernels} == set(KERNELS)
    assert len(selection.unknown_names) == len(UNKNOWN_NAMES)
    for problem, name in zip(selection.unknown_names, UNKNOWN_NAMES, strict=True):
        assert name in str(problem)


def test_a_family_without_kernels_is_named(tmp_path: Path) -> None:  # A4
    kernels = [name for name in KERNELS if name not in FAMILIES["w4a8-fc1"]]
    problems = refused(make_inputs(tmp_path / "sources", kernels=kernels))
    assert [problem.what for problem in problems] == ["family w4a8-fc1 is not complete"]
    assert problems[0].found == "0"
    assert "siTuGlu" in problems[0].expected


def test_overlapping_families_are_an_error(inputs: MiniInputs) -> None:  # A4
    def overlap(text: str) -> str:
        head, _, tail = text.partition("[[families]]")
        family = '[[families]]\nname = "again"\nrole = "fc2"\nprecision = "w4a8"\narch = "sm100f"\n'
        family += 'count = 2\ndtypes = "Bfloat16_MxE2m1MxE4m3_Fp32_Ab32_Bb32"\ngated_act = ""\n\n'
        return head + family + "[[families]]" + tail

    inputs.edit_recipe(overlap)
    problems = refused(inputs)
    assert any("more than one family" in problem.what for problem in problems)


def test_one_name_in_two_folders(inputs: MiniInputs) -> None:  # A1
    copy = inputs.pool.root / "other" / inputs.pool.cubin(FIRST).name
    copy.parent.mkdir()
    copy.write_bytes(inputs.pool.cubin(FIRST).read_bytes())
    inputs.pool.refresh()
    inputs.stage()  # equal bytes: one file, twice
    copy.write_bytes(copy.read_bytes() + b"\0")
    inputs.pool.refresh()
    (problem,) = refused(inputs)
    assert "several contents" in problem.what
    assert copy.name in problem.found


def _without_line(inputs: MiniInputs) -> None:
    name = inputs.pool.cubin(FIRST).name
    lines = inputs.pool.checksums.read_text().splitlines(keepends=True)
    inputs.pool.checksums.write_text("".join(line for line in lines if name not in line))


def _empty_digest(inputs: MiniInputs) -> None:
    digest = inputs.pool.sha256(FIRST)
    text = inputs.pool.checksums.read_text()
    inputs.pool.checksums.write_text(text.replace(digest, ""))


def _no_checksums(inputs: MiniInputs) -> None:
    inputs.pool.checksums.unlink()


def _two_digests(inputs: MiniInputs) -> None:
    with inputs.pool.checksums.open("a") as stream:
        stream.write(f"{'0' * 64}  {inputs.pool.cubin(FIRST).name}\n")


def _header_differs(inputs: MiniInputs) -> None:
    header = inputs.pool.header
    header.write_text(header.read_text().replace(inputs.pool.sha256(FIRST), "1" * 64))
    inputs.pool.refresh()
    table = inputs.pool.table()
    inputs.compile(table=table)


def _file_differs(inputs: MiniInputs) -> None:
    path = inputs.pool.cubin(FIRST)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def _runner_differs(inputs: MiniInputs) -> None:
    table = [(name, "2" * 64 if name == FIRST else digest) for name, digest in inputs.pool.table()]
    inputs.compile(table=table)


def _runner_lacks(inputs: MiniInputs) -> None:
    inputs.compile(table=[pair for pair in inputs.pool.table() if pair[0] != FIRST])


def _include_differs(inputs: MiniInputs) -> None:
    next(inputs.pool.root.rglob("Enums.h")).write_text("// other enumerations\n")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_without_line, ["no checksum", "checksums.txt"]),  # A2
        (_empty_digest, ["checksums.txt:", "digest"]),  # A2
        (_no_checksums, ["checksums.txt"]),  # A2
        (_two_digests, ["checksums.txt:"]),  # A2
        (_header_differs, ["disagree", "the metadata header"]),  # A3
        (_file_differs, ["disagree", "the file"]),  # A3
        (_runner_differs, ["disagree", "the runner"]),  # A3
        (_runner_lacks, ["does not know", FIRST]),  # A3
        (_include_differs, ["Enums.h", "checksums.txt"]),  # A3
    ],
)
def test_sources_must_agree(
    inputs: MiniInputs, change: Callable[[MiniInputs], None], words: list[str]
) -> None:
    change(inputs)
    text = "\n".join(map(str, refused(inputs)))
    for word in words:
        assert word in text


def _replaced(data: bytes) -> Callable[[MiniInputs], None]:
    def change(inputs: MiniInputs) -> None:
        path = inputs.pool.cubin(FIRST)
        old = inputs.pool.sha256(FIRST)
        path.write_bytes(data)
        header = inputs.pool.header
        header.write_text(header.read_text().replace(old, hashlib.sha256(data).hexdigest()))
        inputs.pool.refresh()
        inputs.compile()

    return change


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n", "LFS"),
        (b"", "empty"),
        (b"<!DOCTYPE html><html>404</html>", "HTML"),
        (make_cubin(FIRST, sm=100, arch_specific=False), "another architecture"),
        (make_cubin(FIRST, sm=103, arch_specific=False), "another architecture"),
        (make_cubin("bmm_other", sm=103), "does not hold the kernel"),
    ],
)
def test_cubins_must_be_what_they_say(inputs: MiniInputs, data: bytes, words: str) -> None:  # A15
    _replaced(data)(inputs)
    assert words.lower() in "\n".join(map(str, refused(inputs))).lower()


@pytest.mark.parametrize(
    ("knobs", "words"),
    [
        ({"machine": 183}, "x86-64 shared object"),
        ({"elf_type": 2}, "x86-64 shared object"),
        ({"ffi_symbols": ["trtllm_get_valid_moe_configs_private"]}, "trtllm_fp4_block_scale_moe"),
        ({"c_symbols": []}, "FlashInferSetCubinCallback"),
        ({"undefined": ["TVMFFIThere", "nowhere_to_be_found"]}, "nowhere_to_be_found"),
    ],
)
def test_module_must_be_the_runner(
    inputs: MiniInputs, knobs: dict[str, object], words: str
) -> None:
    inputs.compile(**knobs)
    assert words in "\n".join(map(str, refused(inputs)))


def test_module_of_another_header(inputs: MiniInputs) -> None:
    inputs.module = inputs.module.rename(inputs.folder / "fused_moe_00000000.so")
    (problem,) = refused(inputs)
    assert "another metadata header" in problem.what
    assert problem.found == "fused_moe_00000000.so"


def test_a_text_file_as_module(inputs: MiniInputs) -> None:
    inputs.module.write_text("not a library")
    (problem,) = refused(inputs)
    assert "text" in problem.found


def test_missing_licence(inputs: MiniInputs) -> None:
    (inputs.snapshot / "NOTICE").unlink()
    (problem,) = refused(inputs)
    assert problem.expected == "NOTICE"


def test_dirty_snapshot_is_recorded(inputs: MiniInputs) -> None:
    (inputs.snapshot / "csrc" / "runner.cu").write_text("// changed\n")
    staged = inputs.stage()
    assert staged.manifest.snapshot is not None
    assert staged.manifest.snapshot.dirty is True
    assert any("uncommitted" in warning for warning in staged.warnings)


def test_snapshot_without_git_needs_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = make_inputs(tmp_path / "sources", layout="files")
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    with pytest.raises(UsageError, match="SOURCE_DATE_EPOCH"):
        inputs.stage()
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    staged = inputs.stage()
    assert staged.manifest.generated_at == "2023-11-14T22:13:20+00:00"
    assert staged.manifest.snapshot is not None
    assert staged.manifest.snapshot.kind == "files"
    assert staged.manifest.snapshot.commit is None


@pytest.mark.parametrize("seconds", [0, 315532799, 4354819200, 99999999999])
def test_unusable_commit_time(
    inputs: MiniInputs, monkeypatch: pytest.MonkeyPatch, seconds: int
) -> None:
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    tree = git(inputs.snapshot, "rev-parse", "HEAD^{tree}")
    text = inputs.folder / "commit"
    text.write_text(f"tree {tree}\nauthor a <a> 1 +0000\ncommitter a <a> {seconds} +0000\n\nx\n")
    commit = git(inputs.snapshot, "hash-object", "-t", "commit", "-w", str(text))
    git(inputs.snapshot, "update-ref", "refs/heads/main", commit)
    with pytest.raises(UsageError, match="set SOURCE_DATE_EPOCH"):
        inputs.stage()
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    assert inputs.stage().manifest.generated_at == "2023-11-14T22:13:20+00:00"


@pytest.mark.parametrize(
    "value", ["", "now", "-1", "1e9", "99999999999999", "1700000000999", "٣١٥٥٣٢٨٠٠"]
)
def test_unusable_epoch(inputs: MiniInputs, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", value)
    with pytest.raises(UsageError, match="SOURCE_DATE_EPOCH"):
        inputs.stage()


def _marker(**claims: object) -> RecoveredMarker:
    facts = {
        "metadata_sha256": "a" * 64,
        "config_sha256": "b" * 64,
        "pool_name": "original",
        "pool_cubin_count": 1696,
        "source_module_name": "fused_aaaaaaaa",
        "generated_at": "2026-07-26T10:22:01.948560+00:00",
        **claims,
    }
    return RecoveredMarker(
        wheel="w.whl", wheel_sha256="c" * 64, claims=RecoveredClaims.model_validate(facts)
    )


def test_claims_of_a_marked_pool(tmp_path: Path) -> None:
    inputs = make_inputs(tmp_path / "sources", layout="files", marker=_marker())
    inputs.module = inputs.module.rename(inputs.folder / "fused_aaaaaaaa.so")
    staged = inputs.stage()
    manifest = staged.manifest
    assert manifest.recovered_from is not None
    assert manifest.recovered_from.wheel == "w.whl"
    assert manifest.source_provenance["private_pool_metadata_sha256"] == "a" * 64
    assert manifest.source_provenance["private_pool_name"] == "original"
    assert manifest.source_provenance["source_pool_cubin_count"] == 1696
    assert manifest.pool is not None
    assert manifest.pool.metadata_sha256 != "a" * 64
    assert manifest.generated_at == "2026-07-26T10:22:01.948560+00:00"
    assert any("recovered" in warning for warning in staged.warnings)


def test_claims_need_the_marker_in_both(tmp_path: Path) -> None:
    inputs = make_inputs(tmp_path / "sources", layout="files", marker=_marker())
    (inputs.snapshot / "RECOVERED.json").unlink()
    problems = refused(inputs)
    assert "one origin" in problems[0].what


def test_claims_that_contradict_the_recipe(tmp_path: Path) -> None:
    marker = _marker(build_mode="debug")
    inputs = make_inputs(tmp_path / "sources", layout="files", marker=marker)
    problems = refused(inputs)
    assert "contradicts" in problems[0].what


def test_replaced_as_a_whole(inputs: MiniInputs) -> None:  # A6
    inputs.stage()
    first = tree(inputs.out)
    stray = next(inputs.out.rglob("cubins")) / "sm103a" / "Bmm_old_sm103a.cubin"
    stray.write_bytes(make_cubin("bmm_old_sm103a"))
    inputs.stage()
    assert tree(inputs.out) == first


def test_foreign_folders_are_never_replaced(inputs: MiniInputs) -> None:  # A6
    inputs.out.mkdir()
    (inputs.out / "precious.txt").write_text("mine")
    (problem,) = refused(inputs)
    assert OWNER_FILE in problem.expected
    assert (inputs.out / "precious.txt").read_text() == "mine"


def test_the_current_folder_is_never_replaced(
    inputs: MiniInputs, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs.stage()
    monkeypatch.chdir(inputs.out)
    (problem,) = refused(inputs, out=Path())
    assert "current directory" in problem.found


def test_failed_run_keeps_the_old_payload(inputs: MiniInputs) -> None:  # A6
    inputs.stage()
    before = tree(inputs.out)
    _file_differs(inputs)
    refused(inputs)
    assert tree(inputs.out) == before


def test_full_disk_leaves_nothing(inputs: MiniInputs, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Path, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    before = sorted(path.name for path in inputs.folder.iterdir())
    with pytest.raises(HostError, match="No space left"):
        inputs.stage()
    assert sorted(path.name for path in inputs.folder.iterdir()) == before


def test_dry_run_writes_nothing(inputs: MiniInputs) -> None:
    before = tree(inputs.folder)
    staged = inputs.stage(dry_run=True)
    assert len(staged.manifest.cubins) == len(KERNELS)
    assert tree(inputs.folder) == before


def test_lock(inputs: MiniInputs) -> None:
    (problem,) = refused(inputs, locked=True)
    assert "lock" in problem.what
    staged = inputs.stage()
    path = inputs.recipe_path.with_suffix(".lock.json")
    write_lock_file(path, staged.manifest, "kimi-k3-situ")
    assert inputs.stage(locked=True).differences == ()
    inputs.compile(compiler="GCC: another")
    assert [d.file for d in inputs.stage().differences] == ["fused_moe_k3_situ_sm103.so"]
    problems = refused(inputs, locked=True)
    assert [problem.where for problem in problems] == ["fused_moe_k3_situ_sm103.so"]


def test_snapshot_in_a_foreign_repository_has_no_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(tmp_path, "init", "--quiet")
    inputs = make_inputs(tmp_path / "sources", layout="files")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    staged = inputs.stage()
    assert staged.manifest.snapshot is not None
    assert staged.manifest.snapshot.commit is None


def test_pool_in_a_zip(inputs: MiniInputs) -> None:
    inputs.stage()
    first = tree(inputs.out)
    archive = shutil.make_archive(
        str(inputs.folder / "pool-archive"), "zip", inputs.folder, inputs.pool.root.name
    )
    inputs.pool.root = Path(archive)
    inputs.stage()
    assert tree(inputs.out) == first


def test_version(inputs: MiniInputs) -> None:
    assert inputs.stage(version="1.2.3").manifest.package_version == "1.2.3"
    assert 'version = "1.2.3"' in (inputs.out / "pyproject.toml").read_text()


def test_odd_names_are_written_escaped(inputs: MiniInputs) -> None:
    pool = inputs.pool.root.rename(inputs.folder / "po\nol\udcff")
    inputs.pool = replace(inputs.pool, root=pool)
    git(inputs.snapshot, "checkout", "--quiet", "-b", "br\u202e")
    inputs.compile(
        needed=["libc\x1b[31m.so"],
        fatbin=make_fatbin("ptx").replace(b"\x01\0\x01\x01", b"\x10\0\x01\x01", 1),
    )
    module = inputs.module.with_name(f"mod\n\udcff_{inputs.module.stem.rpartition('_')[2]}.so")
    inputs.module = inputs.module.rename(module)
    manifest = inputs.stage().manifest
    assert manifest.pool is not None
    assert manifest.pool.name == r"po\nol\udcff"
    assert manifest.snapshot is not None
    assert manifest.snapshot.branch == r"br\u202e"
    assert manifest.runner.source_module_name.startswith(r"mod\n\udcff_")
    assert manifest.runner.needed is not None
    assert r"libc\x1b[31m.so" in manifest.runner.needed
    assert manifest.runner.device_code is not None
    assert [found.kind for found in manifest.runner.device_code] == ["other"]
    assert manifest.canonical().encode() == inputs.stage().manifest_path.read_bytes()


def test_a_cubin_whose_producer_tells_no_version(inputs: MiniInputs) -> None:
    toolchain = ("nvasm_internal", "", "", "")
    _replaced(make_cubin(FIRST, toolchain=toolchain))(inputs)
    entries = {entry.kernel: entry for entry in inputs.stage().manifest.cubins}
    made = entries[FIRST].toolchain
    assert made is not None
    assert (made.producer, made.version) == ("nvasm_internal", "")
