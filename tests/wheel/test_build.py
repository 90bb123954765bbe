"""build: A7 (nothing stale), A8 (nothing missing), A9 (same input, same bytes), and failures."""

from __future__ import annotations

import importlib.metadata
import os
import stat
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from situ_release.errors import HostError, InputError, ToolError, UsageError
from situ_release.wheel.archive import open_wheel
from situ_release.wheel.build import build_wheel
from situ_release.wheel.proof import prove_wheel
from tests.synth.wheel import MANIFEST, PACKAGE, RUNNER, edit_manifest, make_payload


@pytest.fixture
def payload(tmp_path: Path) -> Path:
    return make_payload(tmp_path / "payload")


@pytest.fixture(autouse=True)
def _no_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)


def tree(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Mode, time and content of every file, to prove that nothing touched them."""
    return {
        str(path.relative_to(folder)): (
            path.stat().st_mode, path.stat().st_mtime_ns, path.read_bytes()
        )
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }  # fmt: skip


def fails(
    kind: type[Exception], payload: Path, outdir: Path, message: str
) -> InputError | HostError | ToolError:
    """The build fails so, and leaves nothing behind."""
    with pytest.raises(kind, match=message) as caught:
        build_wheel(payload, outdir)
    assert not outdir.exists() or not list(outdir.iterdir())
    for problem in caught.value.problems:
        assert all(problem.as_dict().values()), problem
    return caught.value


def a_cubin(payload: Path) -> Path:
    return min(payload.rglob("*.cubin"))


def rewrite(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_the_wheel_is_the_payload(payload: Path, tmp_path: Path) -> None:
    before = tree(payload)
    built = build_wheel(payload, tmp_path / "raw")
    assert built.path.name == "tokenspeed_situ-0.1.0.post20260727-py3-none-linux_x86_64.whl"
    assert built.tag == "py3-none-linux_x86_64"
    assert built.size == built.path.stat().st_size
    bundle = prove_wheel(built.path)
    packed = {name for name in bundle.contents if name.startswith(f"{PACKAGE}/")}
    assert packed == {name for name in before if name.startswith(f"{PACKAGE}/")}
    assert [path.name for path in (tmp_path / "raw").iterdir()] == [built.path.name]
    assert stat.S_IMODE(built.path.stat().st_mode) == 0o644
    assert tree(payload) == before


def test_a_deleted_cubin_is_gone_from_the_next_wheel(payload: Path, tmp_path: Path) -> None:
    """A7: with plain tools the second wheel still has it, out of a stale build folder."""
    build_wheel(payload, tmp_path / "raw")
    gone = a_cubin(payload)
    stale = payload / "build" / "lib" / gone.relative_to(payload)
    stale.parent.mkdir(parents=True)
    gone.rename(stale)
    (payload / "tokenspeed_situ.egg-info").mkdir()
    (payload / "tokenspeed_situ.egg-info" / "SOURCES.txt").write_text(gone.name)
    files = {MANIFEST: (payload / MANIFEST).read_bytes()}
    edit_manifest(
        lambda document: document.update(
            cubins=[entry for entry in document["cubins"] if entry["filename"] != gone.name]  # type: ignore[attr-defined]
        )
    )(files)
    (payload / MANIFEST).write_bytes(files[MANIFEST])
    built = build_wheel(payload, tmp_path / "raw")
    assert not [member for member in open_wheel(built.path).files if gone.name in member.name]


def test_every_difference_from_the_manifest_is_listed(payload: Path, tmp_path: Path) -> None:
    missing, changed, *_ = sorted(payload.rglob("*.cubin"))
    missing.unlink()
    changed.write_bytes(b"version https://git-lfs")
    extra = missing.with_name("Bmm_old_sm103a.cubin")
    extra.write_bytes(b"x")
    error = fails(InputError, payload, tmp_path / "raw", "listed in the manifest and missing")
    listed = {(problem.where, problem.what) for problem in error.problems}
    assert listed == {
        (str(missing), "listed in the manifest and missing"),
        (str(changed), "the size differs from the manifest"),
        (str(changed), "the bytes differ from the manifest"),
        (str(extra), "not listed in the manifest"),
    }


def test_a_pattern_that_misses_a_file_is_found_at_build(payload: Path, tmp_path: Path) -> None:
    """A8: the backend succeeds and leaves a file out."""
    rewrite(
        payload / "pyproject.toml",
        "ignore-vcs = true",
        'ignore-vcs = true\nexclude = ["sm103a"]',
    )
    error = fails(ToolError, payload, tmp_path / "raw", "the backend left out a file")
    assert len(error.problems) == 4
    assert all("/cubins/sm103a/Bmm_" in problem.where for problem in error.problems)


def test_a_file_that_the_backend_adds_is_found(payload: Path, tmp_path: Path) -> None:
    (payload / "stray.txt").write_text("x")
    rewrite(
        payload / "pyproject.toml",
        "[tool.hatch.build.targets.wheel.hooks.custom]",
        '[tool.hatch.build.targets.wheel.force-include]\n"stray.txt" = "tokenspeed_situ/a.json"\n'
        '"LICENSE" = "top.txt"\n[tool.hatch.build.targets.wheel.hooks.custom]',
    )
    error = fails(ToolError, payload, tmp_path / "raw", "the backend added a file")
    assert {problem.where for problem in error.problems} == {f"{PACKAGE}/a.json", "top.txt"}


def test_a_file_that_the_backend_changes_is_found(payload: Path, tmp_path: Path) -> None:
    rewrite(
        payload / "hatch_build.py",
        "    def initialize(self, version, build_data):\n",
        "    def initialize(self, version, build_data):\n"
        "        import pathlib\n"
        f"        with open(pathlib.Path(self.root, '{RUNNER}'), 'ab') as f: f.write(b'x')\n",
    )
    before = tree(payload)
    error = fails(ToolError, payload, tmp_path / "raw", "the backend changed a file")
    assert [problem.where for problem in error.problems] == [RUNNER]
    assert tree(payload) == before


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("py3-none-linux_x86_64", "py3-none-any", "another tag: expected py3-none-linux_x86_64"),
        ("0.1.0.post20260727", "0.2", "another version: expected 0.1.0.post20260727, found 0.2"),
    ],
)
def test_tag_and_version_are_the_manifests(
    payload: Path, tmp_path: Path, old: str, new: str, message: str
) -> None:
    for name in ("pyproject.toml", "hatch_build.py"):
        text = (payload / name).read_text()
        (payload / name).write_text(text.replace(old, new))
    fails(ToolError, payload, tmp_path / "raw", message)


# --- A9: the same input gives the same bytes ---------------------------------------------------


@pytest.fixture
def umask() -> Iterator[Callable[[int], None]]:
    before = os.umask(0o022)

    def change(value: int) -> None:
        os.umask(value)

    yield change
    os.umask(before)


def test_reproducible(
    payload: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    umask: Callable[[int], None],
) -> None:
    first = build_wheel(payload, tmp_path / "1").sha256
    umask(0o077)
    other = make_payload(tmp_path / "elsewhere" / "p")
    for path in other.rglob("*"):
        os.utime(path, (1, 1))
        path.chmod(0o755 if path.is_dir() else 0o600)
    (other / PACKAGE / "__pycache__").mkdir()
    (other / PACKAGE / "__pycache__" / "loader.cpython-311.pyc").write_bytes(b"x")
    monkeypatch.setenv("PYTHONHASHSEED", "4")
    monkeypatch.setenv("HATCH_BUILD_NO_HOOKS", "true")
    monkeypatch.chdir(tmp_path)
    assert build_wheel(Path("elsewhere/p"), Path("2")).sha256 == first


def test_the_time_is_the_manifests_or_source_date_epoch(
    payload: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dates(outdir: str) -> set[tuple[int, ...]]:
        with zipfile.ZipFile(build_wheel(payload, tmp_path / outdir).path) as archive:
            return {info.date_time for info in archive.infolist()}

    assert dates("1") == {(2026, 7, 26, 10, 22, 0)}
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    assert dates("2") == {(2023, 11, 14, 22, 13, 20)}
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "now")
    with pytest.raises(UsageError, match="SOURCE_DATE_EPOCH"):
        build_wheel(payload, tmp_path / "3")
    assert not (tmp_path / "3").exists()


# --- what can be wrong with a payload ----------------------------------------------------------


def test_no_payload(tmp_path: Path) -> None:
    fails(InputError, tmp_path / "nothing", tmp_path / "raw", "there is no payload.*found nothing")
    (tmp_path / "file").write_text("x")
    fails(InputError, tmp_path / "file", tmp_path / "raw", "there is no payload.*found a file")
    (tmp_path / "empty").mkdir()
    fails(InputError, tmp_path / "empty", tmp_path / "raw", "there is no manifest")


def test_unreadable_manifest(payload: Path, tmp_path: Path) -> None:
    (payload / MANIFEST).write_text("{")
    fails(InputError, payload, tmp_path / "raw", "manifest.json: not a valid JSON document")


def test_links_and_pipes_are_refused(payload: Path, tmp_path: Path) -> None:
    link, pipe = payload / RUNNER, payload / PACKAGE / "pipe.py"
    target = link.rename(tmp_path / "runner.so")
    link.symlink_to(target)
    os.mkfifo(pipe)
    error = fails(InputError, payload, tmp_path / "raw", "not a regular file")
    assert {problem.where for problem in error.problems} == {str(link), str(pipe)}


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_unreadable_file(payload: Path, tmp_path: Path) -> None:
    (payload / RUNNER).chmod(0)
    fails(InputError, payload, tmp_path / "raw", "cannot read the payload.*Permission denied")


def test_linked_folder_is_refused(payload: Path, tmp_path: Path) -> None:
    (payload / PACKAGE / "cubins" / "sm103a").rename(tmp_path / "sm103a")
    (payload / PACKAGE / "cubins" / "sm103a").symlink_to(tmp_path / "sm103a")
    fails(InputError, payload, tmp_path / "raw", "not a regular file")


# --- what can be wrong with the backend --------------------------------------------------------


@pytest.mark.parametrize(
    ("requirement", "found"),
    [("hatchling>=1000", "found hatchling 1"), ("no-such-backend", "found no such package")],
)
def test_a_backend_that_is_not_installed(
    payload: Path, tmp_path: Path, requirement: str, found: str
) -> None:
    rewrite(payload / "pyproject.toml", "hatchling>=1.27,<2", requirement)
    error = fails(HostError, payload, tmp_path / "raw", "not installed as the payload pins it")
    assert f"expected {requirement}, {found}" in str(error)
    assert "nothing is downloaded" in str(error)


def test_requirements_for_other_systems_do_not_count(payload: Path, tmp_path: Path) -> None:
    version = importlib.metadata.version("hatchling")
    rewrite(
        payload / "pyproject.toml",
        '"hatchling>=1.27,<2"',
        f'"hatchling=={version}", "nothing; sys_platform == \'win32\'"',
    )
    build_wheel(payload, tmp_path / "raw")


def test_a_malformed_requirement(payload: Path, tmp_path: Path) -> None:
    rewrite(payload / "pyproject.toml", "hatchling>=1.27,<2", "hatchling>>1")
    fails(InputError, payload, tmp_path / "raw", "a build requirement is not valid")


@pytest.mark.parametrize("text", ["[build-system", "[build-system]\nrequires = 3\n"])
def test_unusable_pyproject(payload: Path, tmp_path: Path, text: str) -> None:
    (payload / "pyproject.toml").write_text(text)
    error = fails(InputError, payload, tmp_path / "raw", "not a buildable project")
    assert "situ-release-build-" not in str(error)


def test_no_pyproject(payload: Path, tmp_path: Path) -> None:
    (payload / "pyproject.toml").unlink()
    fails(InputError, payload, tmp_path / "raw", "not a buildable project")


def test_a_backend_that_fails_shows_its_last_lines(payload: Path, tmp_path: Path) -> None:
    rewrite(payload / "hatch_build.py", 'build_data["tag"]', "raise RuntimeError('no luck')#")
    error = fails(ToolError, payload, tmp_path / "raw", "the build backend failed.*exit code 1")
    assert "RuntimeError: no luck" in error.log_tail
    assert error.log_tail.count("\n") < 20


def test_a_backend_that_is_killed(payload: Path, tmp_path: Path) -> None:
    rewrite(
        payload / "hatch_build.py", 'build_data["tag"]', "__import__('os').kill(0x7fffffff, 9)#"
    )
    rewrite(payload / "hatch_build.py", "0x7fffffff", "__import__('os').getpid()")
    fails(ToolError, payload, tmp_path / "raw", r"found ended by signal 9 \(Killed\)")


def test_an_unwritable_output_folder(payload: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="cannot be written there"):
        build_wheel(payload, tmp_path / "file" / "raw")


def test_no_room_for_the_copy(
    payload: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, mode: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "chmod", full)
    with pytest.raises(HostError, match=r"cannot copy the payload.*No space left"):
        build_wheel(payload, tmp_path / "raw")


def test_a_failure_keeps_the_wheel_of_before(payload: Path, tmp_path: Path) -> None:
    built = build_wheel(payload, tmp_path / "raw")
    a_cubin(payload).unlink()
    with pytest.raises(InputError):
        build_wheel(payload, tmp_path / "raw")
    assert [path.name for path in (tmp_path / "raw").iterdir()] == [built.path.name]
    prove_wheel(built.path)
