"""The records: complete, and true to what was put in."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from dataclasses import asdict
from pathlib import Path

import pytest

from situ_release.inspection.facts import census
from situ_release.inspection.facts.cubin import CubinFacts
from situ_release.inspection.facts.header import HeaderFacts
from situ_release.inspection.facts.pool import PoolFacts
from situ_release.inspection.facts.runner import RunnerFacts
from situ_release.inspection.facts.snapshot import SnapshotFacts
from situ_release.inspection.facts.wheel import PayloadFacts, WheelFacts
from situ_release.inspection.inspect import PoolsFacts, inspect_path
from situ_release.sources.marker import RecoveredClaims, RecoveredMarker
from tests.synth.elf import make_cubin, make_fatbin, make_runner
from tests.synth.pool import KERNELS, UNKNOWN_NAMES, make_pool, make_snapshot
from tests.synth.wheel import MANIFEST, PACKAGE, RUNNER, kernels, make_payload, make_wheel

PATH = "/home/somebody/kernels/attention.cu"


def facts(path: Path, kind: type) -> object:
    found = inspect_path(path).facts
    assert isinstance(found, kind)
    json.dumps(asdict(found))  # everything in it can be spelled as JSON
    return found


def pool_of(path: Path) -> PoolFacts:
    found = facts(path, PoolsFacts)
    assert isinstance(found, PoolsFacts)
    (pool,) = found.pools
    return pool


def test_cubin(tmp_path: Path) -> None:
    (tmp_path / "k").write_bytes(make_cubin(KERNELS[0], sm=103, source_path=PATH))
    found = facts(tmp_path / "k", CubinFacts)
    assert isinstance(found, CubinFacts)
    assert (found.target, found.sm, found.arch_specific, found.toolkit) == (
        "sm_103a",
        103,
        True,
        "13.1",
    )
    assert found.toolchain is not None
    assert found.toolchain.producer == "ptxas"
    assert (found.has_line_info, found.embedded_paths) == (True, (PATH,))
    assert found.kernel_name is not None
    assert str(found.kernel_name) == KERNELS[0]
    assert found.most_registers == 168


def test_runner(tmp_path: Path) -> None:
    fatbin = make_fatbin(make_cubin("router", sm=100), sm=100)
    data = make_runner(
        table=[(KERNELS[0], "ab" * 32)],
        fatbin=fatbin,
        strings=(PATH,),
        undefined=("strtol@GLIBC_2.17", "elsewhere"),
    )
    (tmp_path / "r").write_bytes(data)
    found = facts(tmp_path / "r", RunnerFacts)
    assert isinstance(found, RunnerFacts)
    assert found.embedded_paths == (PATH,)
    assert found.minimum_versions["GLIBC"] == "2.17"
    assert [symbol.name for symbol in found.unversioned] == ["elsewhere"]
    (module,) = found.device_modules
    assert (module.target, module.kind, module.compressed) == ("sm_100a", "cubin", False)
    assert module.cubin is not None
    assert module.cubin.kernels[0].name == "router"
    assert found.kernel_table is not None
    assert found.kernel_table.kernels == ((KERNELS[0], "ab" * 32),)


def test_header(tmp_path: Path) -> None:
    pool = make_pool(tmp_path, options=True)
    found = facts(pool.header, HeaderFacts)
    assert isinstance(found, HeaderFacts)
    assert [entry.name for entry in found.entries] == list(pool.kernels)
    assert found.entries[0].options is not None
    assert found.entries[0].options["mTileM"] == 128
    assert found.summary.disagreements == ()
    assert dict(found.summary.sms) == {"sm103a": 4, "sm100f": 4}


def test_header_whose_options_contradict_its_names(tmp_path: Path) -> None:
    pool = make_pool(tmp_path, options=True)
    text = pool.header.read_text().replace("/* mTileM */ 128", "/* mTileM */ 64", 1)
    pool.header.write_text(text)
    found = facts(pool.header, HeaderFacts)
    assert isinstance(found, HeaderFacts)
    assert found.summary.disagreements == (KERNELS[0],)


def test_header_with_unknown_names(tmp_path: Path) -> None:
    pool = make_pool(tmp_path, (*KERNELS[:2], *UNKNOWN_NAMES))
    found = facts(pool.header, HeaderFacts)
    assert isinstance(found, HeaderFacts)
    assert [name.name for name in found.summary.census.unknown] == list(UNKNOWN_NAMES)
    assert all(name.reason for name in found.summary.census.unknown)
    assert found.summary.census.count == 2 + len(UNKNOWN_NAMES)


def test_pool(tmp_path: Path) -> None:
    claims = RecoveredClaims()
    marker = RecoveredMarker(wheel="x.whl", wheel_sha256="00" * 32, claims=claims)
    pool = make_pool(tmp_path, marker=marker)
    found = pool_of(pool.root)
    assert found.recovered_from == "x.whl"
    assert found.cubins.count == len(found.cubins.cubins) == len(KERNELS)
    assert [(group.target, group.count) for group in found.cubins.targets] == [
        ("sm_100", 4),
        ("sm_103a", 4),
    ]
    assert found.agreement is not None
    assert found.agreement.matching == len(KERNELS)
    assert found.checksums is not None
    faults = (found.checksums.wrong, found.checksums.missing, found.checksums.unlisted)
    assert faults == ((), (), ())


@pytest.mark.parametrize("spelling", ["flashinferMetaInfo.h", "flashInferMetaInfo.h"])
def test_pool_with_a_header_of_another_kind(tmp_path: Path, spelling: str) -> None:
    """A table that this tool cannot read does not keep it from the rest of the pool."""
    pool = make_pool(tmp_path, header_name=spelling)
    pool.header.write_text("struct Other { int a; };\nstatic const Other table[] = { {1} };\n")
    found = pool_of(pool.root)
    assert found.header is None
    assert found.agreement is None
    assert found.header_path == f"include/{spelling}"
    assert [problem.what for problem in found.problems] == ["not a metadata header"]
    assert found.cubins.count == len(KERNELS)
    assert found.checksums is not None
    assert found.checksums.wrong == (f"include/{spelling}",)


def test_pool_of_links_and_damaged_files(tmp_path: Path) -> None:
    pool = make_pool(tmp_path)
    pool.checksums.write_bytes(b"nonsense\n")
    pool.cubin(KERNELS[0]).write_bytes(b"<html>")
    (pool.root / "away.cubin").symlink_to("/etc/hostname")
    found = pool_of(pool.root)
    assert found.checksums is None
    assert [file.found for file in found.cubins.unreadable] == ["an HTML page (a failed download?)"]
    assert set(found.refused) == {"away.cubin"}
    assert any("checksum" in problem.what for problem in found.problems)


def test_wheel(tmp_path: Path) -> None:
    found = facts(make_wheel(tmp_path), WheelFacts)
    assert isinstance(found, WheelFacts)
    assert (found.distribution, found.package) == ("tokenspeed-situ", PACKAGE)
    assert found.manifest is not None
    assert len(found.manifest.document["cubins"]) == found.binaries.cubins.count == 8
    assert [file.path for file in found.binaries.libraries] == [RUNNER]
    assert found.problems == ()
    assert ("Name", "tokenspeed-situ") in found.metadata
    assert found.description.strip() == "A synthetic bundle."
    assert all(file.sha256 for file in found.files)


def test_wheel_with_faults(tmp_path: Path) -> None:
    """Faults are shown and keep nothing else from being shown."""
    cubin = f"{PACKAGE}/cubins/sm103a/Bmm_{kernels()['w4a16-fc1'][0][4:]}.cubin"

    def edit(files: dict[str, bytes]) -> None:
        files[cubin] = b"version https://git-lfs.github.com/spec/v1\n"
        files[RUNNER] = b"\x7fELF\x02\x01 cut off"
        files[MANIFEST] = b"{"

    found = facts(make_wheel(tmp_path, edit=edit, filename="strange.whl"), WheelFacts)
    assert isinstance(found, WheelFacts)
    assert found.distribution == ""
    assert found.manifest is None
    assert [file.path for file in found.binaries.cubins.unreadable] == [cubin]
    assert [file.path for file in found.binaries.unreadable] == [RUNNER]
    assert [problem.where for problem in found.problems] == [MANIFEST]


def test_pools_in_a_wheel_are_not_read(tmp_path: Path) -> None:
    pool = make_pool(tmp_path)
    wheel = make_wheel(tmp_path / "w")
    with zipfile.ZipFile(wheel, "a") as archive:
        for path in pool.root.rglob("*"):
            if path.is_file():
                archive.write(path, f"data/cubins/{path.relative_to(pool.root)}")
    found = facts(wheel, WheelFacts)
    assert isinstance(found, WheelFacts)
    (outline,) = found.pools
    assert (outline.folder, outline.cubins) == ("data/cubins", len(KERNELS))
    assert found.binaries.cubins.count == 8
    inside = pool_of(wheel / outline.folder)
    assert inside.cubins.bytes == outline.bytes


def test_two_manifests_in_a_wheel(tmp_path: Path) -> None:
    def edit(files: dict[str, bytes]) -> None:
        files["second/manifest.json"] = files[MANIFEST]

    found = facts(make_wheel(tmp_path, edit=edit), WheelFacts)
    assert isinstance(found, WheelFacts)
    assert found.package is None
    assert [problem.what for problem in found.problems] == ["more than one manifest"]


def test_payload(tmp_path: Path) -> None:
    payload = make_payload(tmp_path / "p")
    (payload / PACKAGE / "__pycache__").mkdir()
    (payload / PACKAGE / "__pycache__" / "x.pyc").write_bytes(b"x")
    (payload / PACKAGE / "extra.bin").write_bytes(b"x")
    found = facts(payload, PayloadFacts)
    assert isinstance(found, PayloadFacts)
    assert [problem.where for problem in found.problems] == [f"{PACKAGE}/extra.bin"]
    assert found.binaries.cubins.count == 8
    assert not any("pycache" in file.path for file in found.files)


def test_snapshot(tmp_path: Path) -> None:
    root = make_snapshot(tmp_path)
    (root / "LICENSE").write_text("changed")
    found = facts(root, SnapshotFacts)
    assert isinstance(found, SnapshotFacts)
    assert (found.kind, found.branch, found.dirty) == ("git", "main", True)
    assert set(found.licenses) == {"LICENSE", "NOTICE", "licenses/LICENSE.cutlass.txt"}


@pytest.mark.parametrize("packed", [False, True])
def test_many_cubins_are_read_by_processes(tmp_path: Path, packed: bool) -> None:
    """Forked processes, a folder and a zip, give what one thread gives; and no process remains."""
    pool = tmp_path / "pool"
    pool.mkdir()
    (pool / "checksums.txt").write_bytes(b"")
    count = census._WORTH_PROCESSES + 5
    for number in range(count):
        data = make_cubin(f"k{number}", code_size=16, seed=number) if number else b"<html>"
        (pool / f"k{number:04}.cubin").write_bytes(data)
    root = pool
    if packed:
        root = tmp_path / "pool.zip"
        with zipfile.ZipFile(root, "w") as archive:
            for path in sorted(pool.iterdir()):
                archive.write(path, f"pool/{path.name}")
        root /= "pool"
    script = f"""if True:
        import concurrent.futures
        from pathlib import Path
        from situ_release.inspection.facts import census
        from situ_release.inspection.inspect import inspect_path
        used = []
        class Counting(concurrent.futures.ProcessPoolExecutor):
            def __init__(self, *arguments, **options):
                used.append(1)
                super().__init__(*arguments, **options)
        census.ProcessPoolExecutor = Counting
        by_processes = inspect_path(Path({str(root)!r}))
        census._WORTH_PROCESSES = 10**9
        by_threads = inspect_path(Path({str(root)!r}))
        assert by_processes == by_threads
        assert len(used) == 1, used
        pool = by_processes.facts.pools[0]
        print(pool.cubins.count, [file.path for file in pool.cubins.unreadable])
    """
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{count - 1} ['k0000.cubin']\n"
