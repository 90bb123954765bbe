"""One content, one file: what the canonical rewrite decides, and what it must not depend on."""

from __future__ import annotations

import hashlib
import random
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from situ_release.errors import InputError, UsageError
from situ_release.wheel import canonical
from situ_release.wheel.archive import archive_faults, open_wheel
from situ_release.wheel.canonical import archive_epoch, write_canonical
from situ_release.wheel.record import record_problems
from tests.synth.wheel import DIST_INFO, Files, make_wheel, record_of, wheel_files, write_zip

ROOT = Path(__file__).parents[2]
EPOCH = 1785061321  # 2026-07-26 10:22:01 UTC, an odd second


def rewrite(source: Path, target: Path, **replaced: bytes) -> Path:
    named = {f"{DIST_INFO}/{name}": data for name, data in replaced.items()}
    write_canonical(open_wheel(source), target, dist_info=DIST_INFO, epoch=EPOCH, replaced=named)
    return target


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_the_form(tmp_path: Path) -> None:
    path = rewrite(make_wheel(tmp_path), tmp_path / "out.whl")
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        members = archive.infolist()
    names = [member.filename for member in members]
    package = [name for name in names if not name.startswith(DIST_INFO)]
    assert names[: len(package)] == sorted(package)
    assert names[-1] == f"{DIST_INFO}/RECORD"
    assert names[len(package) : -1] == sorted(names[len(package) : -1])
    assert {member.external_attr >> 16 for member in members} == {0o100644}
    assert {member.date_time for member in members} == {(2026, 7, 26, 10, 22, 0)}
    assert {(member.extra, member.comment, member.flag_bits) for member in members} == {
        (b"", b"", 0)
    }
    assert {member.create_system for member in members} == {3}
    assert not [name for name in names if name.endswith("/")]


def test_content_is_kept_and_record_is_new(tmp_path: Path) -> None:
    def stale(files: Files) -> None:
        files[f"{DIST_INFO}/RECORD"] = b"nonsense"

    source = make_wheel(tmp_path, tamper=stale)
    archive = open_wheel(rewrite(source, tmp_path / "out.whl"))
    contents = archive.scan(lambda name: name.endswith("/RECORD"))
    assert archive_faults(archive, contents) == ()
    assert record_problems(contents, DIST_INFO) == []
    before = open_wheel(source).scan(lambda name: False)
    changed = {name for name in before if before[name].sha256 != contents[name].sha256}
    assert changed == {f"{DIST_INFO}/RECORD"}


def test_replaced_members(tmp_path: Path) -> None:
    path = rewrite(make_wheel(tmp_path), tmp_path / "out.whl", WHEEL=b"new", EXTRA=b"more")
    archive = open_wheel(path)
    assert archive.read(f"{DIST_INFO}/WHEEL") == b"new"
    assert archive.read(f"{DIST_INFO}/EXTRA") == b"more"
    contents = archive.scan(lambda name: name.endswith("/RECORD"))
    assert record_problems(contents, DIST_INFO) == []


def test_the_archive_before_does_not_matter(tmp_path: Path) -> None:
    """Order, folder entries, times, modes, compression of the input leave no trace."""
    wheel = make_wheel(tmp_path)
    expected = digest(rewrite(wheel, tmp_path / "1.whl"))
    with zipfile.ZipFile(wheel) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    for seed in range(3):
        shuffled = list(files)
        random.Random(seed).shuffle(shuffled)
        with zipfile.ZipFile(tmp_path / "odd.whl", "w") as archive:
            archive.writestr("tokenspeed_situ/", b"")
            for name in shuffled:
                info = zipfile.ZipInfo(name, (2000 + seed, 1, 1, 0, 0, 0))
                info.external_attr = (0o100600 + seed) << 16
                method = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)[seed % 2]
                archive.writestr(info, files[name], method, seed)
        assert digest(rewrite(tmp_path / "odd.whl", tmp_path / "2.whl")) == expected


def test_rewriting_twice_changes_nothing(tmp_path: Path) -> None:
    once = rewrite(make_wheel(tmp_path), tmp_path / "1.whl")
    assert once.read_bytes() == rewrite(once, tmp_path / "2.whl").read_bytes()


@pytest.mark.parametrize("seed", ["0", "1", "random"])
def test_hash_seed_and_umask_do_not_matter(tmp_path: Path, seed: str) -> None:
    source = make_wheel(tmp_path)
    expected = digest(rewrite(source, tmp_path / "1.whl"))
    program = (
        "import os, sys; os.umask(0o77)\n"
        "from pathlib import Path\n"
        "from tests.wheel.test_canonical import rewrite\n"
        "rewrite(Path(sys.argv[1]), Path(sys.argv[2]))\n"
    )
    command = [sys.executable, "-c", program, str(source), str(tmp_path / "2.whl")]
    environment = {"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT), "TZ": "Asia/Tokyo"}
    subprocess.run(command, check=True, cwd=tmp_path, env=environment)
    assert digest(tmp_path / "2.whl") == expected


def test_names_beyond_ascii(tmp_path: Path) -> None:
    files = {"tokenspeed_situ/é.py": b"1" * 50, **wheel_files({})}
    write_zip(tmp_path / "x.whl", {**files, f"{DIST_INFO}/RECORD": record_of(files)})
    archive = open_wheel(rewrite(tmp_path / "x.whl", tmp_path / "out.whl"))
    assert archive.read("tokenspeed_situ/é.py") == b"1" * 50


def test_a_damaged_member_is_not_rewritten(tmp_path: Path) -> None:
    path = make_wheel(tmp_path)
    damaged = bytearray(path.read_bytes())
    offset = open_wheel(path).members[3].offset
    damaged[offset + 300] ^= 0xFF
    path.write_bytes(damaged)
    archive = open_wheel(path)
    with pytest.raises(InputError, match="the member is damaged"):
        write_canonical(
            archive, tmp_path / "out.whl", dist_info=DIST_INFO, epoch=EPOCH, replaced={}
        )
    assert not (tmp_path / "out.whl").exists()


def test_too_many_members(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(canonical, "_MAX_MEMBERS", 5)
    with pytest.raises(InputError, match="too many files for a wheel: expected fewer than 5"):
        rewrite(make_wheel(tmp_path), tmp_path / "out.whl")


@pytest.mark.parametrize(
    ("generated_at", "epoch"),
    [
        ("2026-07-26T10:22:01.948560+00:00", EPOCH),
        ("2026-07-26T12:22:01+02:00", EPOCH),
        ("2026-07-26T10:22:01Z", EPOCH),
        ("1980-01-02T00:00:00+00:00", 315619200),
    ],
)
def test_epoch_of_the_manifest(
    monkeypatch: pytest.MonkeyPatch, generated_at: str, epoch: int
) -> None:
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    assert archive_epoch(generated_at, "m") == epoch


@pytest.mark.parametrize(
    "generated_at",
    [
        "",
        "yesterday",
        "2026-07-26T10:22:01",
        "1980-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59-01:00",
        "0001-01-01T00:00:00+01:00",
    ],
)
def test_unusable_time_in_the_manifest(monkeypatch: pytest.MonkeyPatch, generated_at: str) -> None:
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    with pytest.raises(InputError, match="m: generated_at is not a usable time stamp"):
        archive_epoch(generated_at, "m")


def test_source_date_epoch_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    assert archive_epoch("2026-07-26T10:22:01Z", "m") == 1700000000
    for bad in ("", "-1", "1e9", "0", "99999999999999999999", "yesterday"):
        monkeypatch.setenv("SOURCE_DATE_EPOCH", bad)
        with pytest.raises(UsageError, match="SOURCE_DATE_EPOCH"):
            archive_epoch("2026-07-26T10:22:01Z", "m")
