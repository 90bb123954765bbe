"""recover: a wheel back into stage inputs, marked, and nothing that the wheel does not tell."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from situ_release.bundle.recipe import load_recipe
from situ_release.bundle.staging import stage
from situ_release.errors import HostError, InputError
from situ_release.sources.marker import read_marker
from situ_release.sources.metadata_header import read_header
from situ_release.sources.pool import open_pool
from situ_release.sources.snapshot import open_snapshot
from situ_release.wheel.recover import recover_wheel
from tests.synth.wheel import (
    GENERATED_AT,
    METADATA_SHA256,
    MODULE_NAME,
    OTHER_KERNEL,
    PACKAGE,
    RUNNER,
    Edit,
    Files,
    bundle_files,
    cubin_of,
    cubin_path,
    edit_manifest,
    exchange,
    kernels,
    make_wheel,
    runner_for,
    write_mini_recipe,
)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def files_below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("style", ["published", "ours"])
def test_what_is_recovered(tmp_path: Path, style: str) -> None:
    members = bundle_files(style=style)
    wheel = make_wheel(tmp_path, files=members)
    recovered = recover_wheel(wheel, tmp_path / "r")
    assert recovered.snapshot == tmp_path / "r" / "snapshot"
    assert recovered.pool == tmp_path / "r" / "pool"
    assert recovered.module == tmp_path / "r" / f"{MODULE_NAME}.so"
    assert recovered.module.read_bytes() == members[RUNNER]
    assert recovered.module_sha256 == sha256(members[RUNNER])
    assert recovered.wheel_sha256 == sha256(wheel.read_bytes())
    assert (recovered.cubin_count, recovered.metadata_entries) == (8, 9)
    assert files_below(recovered.snapshot) == {"version.txt", "LICENSE", "NOTICE", "RECOVERED.json"}
    names = {
        cubin_path(kernel).rpartition("/")[2] for each in kernels().values() for kernel in each
    }
    assert files_below(recovered.pool) == {
        *names,
        "checksums.txt",
        "include/flashinferMetaInfo.h",
        "RECOVERED.json",
    }


@pytest.mark.parametrize("odd", ["\n", "\x1b[31m", "\udcff"])
def test_a_wheel_name_that_no_marker_can_hold(tmp_path: Path, odd: str) -> None:
    wheel = make_wheel(tmp_path)
    wheel = wheel.rename(wheel.with_name(wheel.name.replace("-py3", f"{odd}-py3")))
    with pytest.raises(InputError, match="file name is not plain text"):
        recover_wheel(wheel, tmp_path / "r")
    assert not (tmp_path / "r").exists()


def test_pool_and_snapshot_are_read_back(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path)
    recovered = recover_wheel(wheel, tmp_path / "r")
    pool, snapshot = open_pool(recovered.pool), open_snapshot(recovered.snapshot)
    pool.verify_includes()
    assert len(pool.header) == 9
    assert pool.header.find(OTHER_KERNEL) is not None
    for each in kernels().values():
        for kernel in each:
            data = pool.read(pool.find(kernel))
            entry = pool.header.find(kernel)
            assert entry is not None
            assert entry.sha256 == sha256(data) == pool.checksums.get(pool.find(kernel))
            assert entry.sm == kernel.rpartition("_")[2]
            assert (entry.options, entry.threads, entry.shared_memory_bytes) == (None, None, None)
    assert snapshot.version == "0.6.13rc1"
    assert snapshot.kind == "recovered"


def test_the_header_says_what_it_is_and_stops_a_compiler(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path)
    header = recover_wheel(wheel, tmp_path / "r").pool / "include" / "flashinferMetaInfo.h"
    text = header.read_text()
    assert text.startswith(
        f"// Rebuilt by situ-release from the runner's own table in {wheel.name}"
    )
    assert "\n#error " in text


def test_both_folders_are_marked_with_wheel_and_claims(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path)
    recovered = recover_wheel(wheel, tmp_path / "r")
    marker = read_marker(recovered.pool)
    assert marker is not None
    assert marker == read_marker(recovered.snapshot)
    assert (marker.wheel, marker.wheel_sha256) == (wheel.name, recovered.wheel_sha256)
    claims = marker.claims
    assert claims.metadata_sha256 == METADATA_SHA256
    assert claims.config_sha256 == "1c" * 32
    assert (claims.pool_name, claims.pool_cubin_count) == ("synthetic_pool", 9)
    assert set(claims.branches) == {"flashinfer_branch", "trtllm_gen_branch"}
    assert claims.source_module_name == MODULE_NAME
    assert claims.generated_at == GENERATED_AT
    assert (claims.build_mode, claims.flashinfer_version) == ("release-o3", "0.6.13rc1")


def test_what_a_wheel_does_not_tell_is_said(tmp_path: Path) -> None:
    recovered = recover_wheel(make_wheel(tmp_path), tmp_path / "r")
    told = "\n".join(recovered.not_recovered)
    assert "1 of the pool's cubins, which the wheel does not hold" in told
    assert "options, threads and shared memory of the header's 9 kernels" in told
    assert "config.json" in told
    assert "commit" in told
    assert "licenses folder" in told
    assert "version" not in told


def test_what_is_missing_in_the_manifest_is_missing_here(tmp_path: Path) -> None:
    def forget(document: dict[str, dict[str, object]]) -> None:
        for key in ("flashinfer_version", "private_pool_config_sha256", "trtllm_gen_branch"):
            del document["source_provenance"][key]

    wheel = make_wheel(tmp_path, edit=edit_manifest(forget))
    recovered = recover_wheel(wheel, tmp_path / "r")
    assert "the snapshot's version" in recovered.not_recovered
    assert not (recovered.snapshot / "version.txt").exists()
    marker = read_marker(recovered.pool)
    assert marker is not None
    assert marker.claims.config_sha256 is None
    assert set(marker.claims.branches) == {"flashinfer_branch"}


def test_further_licences_return_to_their_folder(tmp_path: Path) -> None:
    extra = {
        f"{PACKAGE}/licenses/third_party/LICENSE.cutlass.txt": b"BSD",
        f"{PACKAGE}/licenses/OTHER.txt": b"other",
    }
    wheel = make_wheel(tmp_path, edit=lambda files: files.update(extra))
    snapshot = recover_wheel(wheel, tmp_path / "r").snapshot
    assert (snapshot / "licenses" / "LICENSE.cutlass.txt").read_bytes() == b"BSD"
    assert (snapshot / "licenses" / "OTHER.txt").read_bytes() == b"other"
    assert (snapshot / "NOTICE").read_bytes() == b"FlashInfer\n"


def test_staging_accepts_what_was_recovered(tmp_path: Path) -> None:
    recovered = recover_wheel(make_wheel(tmp_path), tmp_path / "r")
    staged = stage(
        load_recipe(str(write_mini_recipe(tmp_path))),
        recovered.snapshot,
        recovered.pool,
        recovered.module,
        tmp_path / "p",
    )
    assert [family.selected for family in staged.families] == [2, 2, 2, 2]
    assert staged.manifest.recovered_from is not None


def test_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path)
    states = []
    for _ in range(2):
        recover_wheel(wheel, tmp_path / "r")
        states.append({p: p.read_bytes() for p in (tmp_path / "r").rglob("*") if p.is_file()})
    assert states[0] == states[1]


# --- refusals ----------------------------------------------------------------------------------


def fails(tmp_path: Path, message: str, **knobs: object) -> InputError:
    wheel = make_wheel(tmp_path / "w", **knobs)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=message) as caught:
        recover_wheel(wheel, tmp_path / "out" / "r")
    assert not (tmp_path / "out").exists()
    for problem in caught.value.problems:
        assert all(problem.as_dict().values()), problem
    return caught.value


def exchange_cubin(files: Files) -> None:
    """Another cubin with manifest and RECORD corrected to fit: only the runner's table tells."""
    kernel = kernels()["w4a8-fc1"][0]
    exchange(f"{PACKAGE}/{cubin_path(kernel)}", cubin_of(kernel, seed=1))(files)


def test_an_exchanged_cubin(tmp_path: Path) -> None:
    error = fails(tmp_path, "not the one that the runner was compiled with", edit=exchange_cubin)
    (problem,) = error.problems
    kernel = kernels()["w4a8-fc1"][0]
    assert problem.where.endswith(cubin_path(kernel))
    assert problem.expected == f"SHA-256 {sha256(cubin_of(kernel))}"
    assert problem.found == sha256(cubin_of(kernel, seed=1))


def test_a_cubin_that_the_runner_does_not_know(tmp_path: Path) -> None:
    error = fails(tmp_path, "a kernel of the runner's table", runner=runner_for({}))
    assert len(error.problems) == 8


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (exchange(RUNNER, b"text"), "text beginning 'text'"),
        (exchange(RUNNER, runner_for({}, table=())), "the runner has no kernel table"),
        (exchange(RUNNER, runner_for({}, table=[("nameless", "ab" * 32)])), "unknown kernel name"),
        (lambda files: files.pop(RUNNER), "listed in the manifest and missing"),
        (
            edit_manifest(lambda m: m["runner"].update(source_module_name="../../etc/x")),  # type: ignore[attr-defined]
            "the module's name cannot be a file name",
        ),
        (
            edit_manifest(
                lambda m: m["source_provenance"].update(private_pool_config_sha256="nonsense")  # type: ignore[attr-defined]
            ),
            r"config_sha256: the manifest's provenance is not usable",
        ),
        (
            edit_manifest(lambda m: m.update(recipe={"name": "other", "sha256": "0" * 64})),
            "no recipe for this bundle.*found recipes .*kimi-k3-situ",
        ),
    ],
)
def test_wheels_that_cannot_be_recovered(tmp_path: Path, edit: Edit, message: str) -> None:
    fails(tmp_path, message, edit=edit)


def test_names_that_are_not_unique(tmp_path: Path) -> None:
    def move(document: dict[str, list[dict[str, str]]]) -> None:
        one, two = document["cubins"][:2]
        two["filename"] = one["filename"]

    fails(tmp_path, "file names of cubins are not unique", edit=edit_manifest(move))


def test_a_tampered_wheel(tmp_path: Path) -> None:
    fails(
        tmp_path,
        "the bytes differ from RECORD",
        tamper=lambda files: files.update({RUNNER: files[RUNNER] + b"x"}),
    )


def test_not_a_wheel(tmp_path: Path) -> None:
    path = tmp_path / "tokenspeed_situ-1-py3-none-any.whl"
    path.write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(InputError, match="not a readable zip archive"):
        recover_wheel(path, tmp_path / "r")
    with pytest.raises(InputError, match="cannot read the wheel"):
        recover_wheel(tmp_path / "nothing.whl", tmp_path / "r")
    assert not (tmp_path / "r").exists()


def test_an_output_folder_of_somebody_else(tmp_path: Path) -> None:
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "mine.txt").write_text("x")
    with pytest.raises(InputError, match="the output folder may not be replaced"):
        recover_wheel(make_wheel(tmp_path), tmp_path / "r")
    assert files_below(tmp_path / "r") == {"mine.txt"}


def test_a_failure_keeps_what_was_recovered_before(tmp_path: Path) -> None:
    recovered = recover_wheel(make_wheel(tmp_path), tmp_path / "r")
    broken = make_wheel(tmp_path / "b", edit=exchange_cubin)
    with pytest.raises(InputError):
        recover_wheel(broken, tmp_path / "r")
    assert open_pool(recovered.pool).cubin_count == 8
    assert not [path for path in tmp_path.iterdir() if path.name.endswith(".tmp")]


def test_a_failing_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = make_wheel(tmp_path / "w")
    write: Callable[[Path, bytes], int] = Path.write_bytes

    def full(path: Path, data: bytes) -> int:
        if path.suffix == ".so":
            raise OSError(28, "No space left on device")
        return write(path, data)

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(HostError, match=r"cannot write the output.*No space left on device"):
        recover_wheel(wheel, tmp_path / "out" / "r")
    assert not (tmp_path / "out").exists()


# --- the published wheel -----------------------------------------------------------------------


def test_the_published_wheel(published_wheel: Path, tmp_path: Path) -> None:
    recovered = recover_wheel(published_wheel, tmp_path / "r")
    assert (recovered.cubin_count, recovered.metadata_entries) == (267, 1696)
    assert recovered.module.name == "fused_moe_trtllm_sm100_private_hidden_ffi_lean_a61443e1.so"
    assert recovered.module_sha256.startswith("ff952f21")
    header = read_header(
        (recovered.pool / "include" / "flashinferMetaInfo.h").read_bytes(), "header"
    )
    assert len(header) == 1696
    architectures = [entry.sm for entry in header.entries]
    assert (architectures.count("sm100f"), architectures.count("sm103a")) == (1636, 60)
    assert re.fullmatch(r"0\.6\.13rc1\n", (recovered.snapshot / "version.txt").read_text())
    marker = read_marker(recovered.pool)
    assert marker is not None
    assert (marker.claims.metadata_sha256 or "").startswith("a61443e1")
