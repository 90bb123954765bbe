"""Snapshots: version, commit and licences of every layout; nothing they bring along is run."""

from __future__ import annotations

import os
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from situ_release.errors import HostError, InputError, ToolError
from situ_release.sources import git as git_module
from situ_release.sources.marker import RecoveredClaims, RecoveredMarker
from situ_release.sources.snapshot import open_snapshot
from tests.sources.attempt import is_complete
from tests.synth.pool import VERSION, git, make_snapshot

MARKER = RecoveredMarker(wheel="w.whl", wheel_sha256="0" * 64, claims=RecoveredClaims())


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    return make_snapshot(tmp_path)


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(InputError) as caught:
        call()
    assert is_complete(caught.value)
    return str(caught.value)


# --- layouts ----------------------------------------------------------------------------------


def test_a_clean_checkout(checkout: Path) -> None:
    snapshot = open_snapshot(checkout)
    assert (snapshot.kind, snapshot.version, snapshot.version_source) == (
        "git",
        VERSION,
        "version.txt",
    )
    assert snapshot.commit == git(checkout, "rev-parse", "HEAD")
    assert snapshot.tree == git(checkout, "rev-parse", "HEAD^{tree}")
    assert (snapshot.branch, snapshot.dirty) == ("main", False)
    assert snapshot.commit_time == 1767323045
    assert snapshot.marker is None
    assert dict(snapshot.licenses) == {
        "LICENSE": "LICENSE",
        "NOTICE": "NOTICE",
        "licenses/LICENSE.cutlass.txt": "licenses/LICENSE.cutlass.txt",
    }
    assert snapshot.read(snapshot.licenses["NOTICE"]) == b"FlashInfer notice\n"


def test_a_copy_without_git(tmp_path: Path) -> None:
    snapshot = open_snapshot(make_snapshot(tmp_path, layout="files"))
    assert (snapshot.kind, snapshot.version) == ("files", VERSION)
    assert (snapshot.commit, snapshot.tree, snapshot.branch) == (None, None, None)
    assert (snapshot.dirty, snapshot.commit_time) == (None, None)


@pytest.mark.parametrize("packed", [False, True])
def test_the_wheel_layout(tmp_path: Path, packed: bool) -> None:
    root = make_snapshot(tmp_path, layout="wheel")
    if packed:
        with zipfile.ZipFile(tmp_path / "f.whl", "w") as archive:
            for path in root.rglob("*"):
                archive.write(path, path.relative_to(root))
        root = tmp_path / "f.whl"
    snapshot = open_snapshot(root)
    info = f"flashinfer_python-{VERSION}.dist-info"
    assert (snapshot.kind, snapshot.version) == ("files", VERSION)
    assert snapshot.version_source == f"{info}/METADATA"
    assert snapshot.commit == snapshot.stated_commit == "57ba7eeb" * 5
    assert (snapshot.dirty, snapshot.commit_time) == (None, None)
    assert dict(snapshot.licenses) == {"LICENSE": f"{info}/licenses/LICENSE"}
    assert snapshot.read(snapshot.licenses["LICENSE"]) == b"Apache License\n"


def test_a_package_folder_with_build_meta_alone(tmp_path: Path) -> None:
    (tmp_path / "flashinfer").mkdir()
    (tmp_path / "flashinfer" / "_build_meta.py").write_text("__version__ = '0.6.13'\n")
    snapshot = open_snapshot(tmp_path)
    assert (snapshot.version, snapshot.commit) == ("0.6.13", None)


def test_build_meta_is_text_and_never_executed(tmp_path: Path) -> None:
    (tmp_path / "flashinfer").mkdir()
    trap = tmp_path / "trap"
    code = f'open({str(trap)!r}, "w")\n__version__ = "0.6.13"\n__git_version__ = compute()\n'
    (tmp_path / "flashinfer" / "_build_meta.py").write_text(code)
    snapshot = open_snapshot(tmp_path)
    assert (snapshot.version, snapshot.stated_commit) == ("0.6.13", None)
    assert not trap.exists()


def test_a_recovered_snapshot_is_never_more_than_that(tmp_path: Path) -> None:
    snapshot = open_snapshot(make_snapshot(tmp_path, layout="files", marker=MARKER))
    assert (snapshot.kind, snapshot.marker) == ("recovered", MARKER)


def test_generated_files_of_a_checkout_are_not_asked(checkout: Path) -> None:
    (checkout / "flashinfer").mkdir()
    (checkout / "flashinfer" / "_build_meta.py").write_text('__version__ = "9"\n')
    assert open_snapshot(checkout).version == VERSION


# --- versions ---------------------------------------------------------------------------------


def test_no_version_anywhere(tmp_path: Path) -> None:
    assert "states no version" in refusal(lambda: open_snapshot(tmp_path))


@pytest.mark.parametrize("text", ["", "\n", "two words", "1\n2", "<html>", "x" * 101])
def test_a_version_file_without_a_version(tmp_path: Path, text: str) -> None:
    (tmp_path / "version.txt").write_text(text)
    assert "version.txt: no version in the file" in refusal(lambda: open_snapshot(tmp_path))


def test_contradicting_versions_are_all_named(tmp_path: Path) -> None:
    make_snapshot(tmp_path, layout="wheel", version="1.0")
    root = make_snapshot(tmp_path, layout="wheel", version="2.0")
    message = refusal(lambda: open_snapshot(root))
    assert "1.0 in flashinfer_python-1.0.dist-info/METADATA" in message
    assert "2.0 in flashinfer/_build_meta.py" in message


# --- git --------------------------------------------------------------------------------------


def change_tracked(root: Path) -> None:
    (root / "LICENSE").write_text("changed\n")


def add_untracked(root: Path) -> None:
    (root / "new.txt").write_text("new\n")


def stage(root: Path) -> None:
    add_untracked(root)
    git(root, "add", "new.txt")


def delete(root: Path) -> None:
    (root / "NOTICE").unlink()


@pytest.mark.parametrize("change", [change_tracked, add_untracked, stage, delete])
def test_a_changed_checkout_is_dirty(checkout: Path, change: Callable[[Path], None]) -> None:
    change(checkout)
    snapshot = open_snapshot(checkout)
    assert snapshot.dirty is True
    assert snapshot.commit == git(checkout, "rev-parse", "HEAD")


def test_ignored_files_do_not_count(checkout: Path) -> None:
    (checkout / ".gitignore").write_text("*.o\n")
    git(checkout, "add", ".gitignore")
    git(checkout, "commit", "--quiet", "--message=ignore")
    (checkout / "x.o").write_text("object\n")
    assert open_snapshot(checkout).dirty is False


@pytest.mark.parametrize("flag", ["--assume-unchanged", "--skip-worktree"])
def test_a_file_that_git_is_told_to_overlook_makes_a_checkout_dirty(
    checkout: Path, flag: str
) -> None:
    git(checkout, "update-index", flag, "LICENSE")
    change_tracked(checkout)
    assert open_snapshot(checkout).dirty is True


def test_an_ignored_file_that_a_bundle_would_take_makes_a_checkout_dirty(checkout: Path) -> None:
    (checkout / "licenses" / "evil.txt").write_text("evil\n")
    (checkout / ".git" / "info").mkdir(exist_ok=True)
    (checkout / ".git" / "info" / "exclude").write_text("evil.txt\n")
    assert open_snapshot(checkout).dirty is True


def test_a_tracked_link_to_an_ignored_file_makes_a_checkout_dirty(checkout: Path) -> None:
    (checkout / "LICENSE").unlink()
    (checkout / "LICENSE").symlink_to(".git/description")
    git(checkout, "commit", "--quiet", "--all", "--message=link")
    (checkout / ".git" / "description").write_text("evil\n")
    assert open_snapshot(checkout).dirty is True


def test_a_change_of_equal_size_and_time_is_seen(checkout: Path) -> None:
    git(checkout, "config", "core.trustctime", "false")
    git(checkout, "config", "core.checkStat", "minimal")
    before = (checkout / "LICENSE").stat()
    git(checkout, "status")
    text = (checkout / "LICENSE").read_text()
    (checkout / "LICENSE").write_text(text.swapcase())
    os.utime(checkout / "LICENSE", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert open_snapshot(checkout).dirty is True


def test_a_replaced_commit_is_not_followed(checkout: Path) -> None:
    commit, tree = git(checkout, "rev-parse", "HEAD"), git(checkout, "rev-parse", "HEAD^{tree}")
    change_tracked(checkout)
    git(checkout, "add", "--all")
    other = git(checkout, "commit-tree", "-m", "x", git(checkout, "write-tree"))
    git(checkout, "replace", commit, other)
    snapshot = open_snapshot(checkout)
    assert (snapshot.commit, snapshot.tree, snapshot.dirty) == (commit, tree, True)


def test_a_missing_object_is_not_fetched_through_a_program(tmp_path: Path, checkout: Path) -> None:
    trap = tmp_path / "trap"
    for key, value in {
        "remote.origin.url": f"ext::sh -c 'touch {trap}; exit 1' %",
        "remote.origin.promisor": "true",
        "extensions.partialClone": "origin",
        "core.repositoryformatversion": "1",
        "protocol.ext.allow": "always",
    }.items():
        git(checkout, "config", key, value)
    tree = git(checkout, "rev-parse", "HEAD^{tree}")
    (checkout / ".git" / "objects" / tree[:2] / tree[2:]).unlink()
    with pytest.raises((InputError, ToolError)):
        open_snapshot(checkout)
    assert not trap.exists()


@pytest.mark.parametrize(
    "line", ["committer a <a> abc", "committer a <a>", "committer a <a> 99999999999999 +0000", "x"]
)
def test_a_commit_without_a_usable_time(checkout: Path, line: str) -> None:
    tree = git(checkout, "rev-parse", "HEAD^{tree}")
    text = checkout.parent / "commit"
    text.write_text(f"tree {tree}\nauthor a <a> 1 +0000\n{line}\n\nx\n")
    commit = git(checkout, "hash-object", "-t", "commit", "-w", "--literally", str(text))
    git(checkout, "update-ref", "refs/heads/main", commit)
    snapshot = open_snapshot(checkout)
    assert snapshot.commit == commit
    assert not snapshot.commit_time


def test_a_detached_head_has_no_branch(checkout: Path) -> None:
    git(checkout, "checkout", "--quiet", "--detach")
    assert open_snapshot(checkout).branch is None


def test_a_changed_submodule_is_dirty(tmp_path: Path, checkout: Path) -> None:
    other = make_snapshot(tmp_path, name="other")
    git(
        checkout,
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "--quiet",
        "add",
        str(other),
        "3rdparty",
    )
    git(checkout, "commit", "--quiet", "--message=submodule")
    assert open_snapshot(checkout).dirty is False
    change_tracked(checkout / "3rdparty")
    assert open_snapshot(checkout).dirty is True
    git(checkout / "3rdparty", "commit", "--quiet", "--all", "--message=moved on")
    assert open_snapshot(checkout).dirty is True


def test_a_folder_inside_another_repository_does_not_take_its_commit(checkout: Path) -> None:
    inner = make_snapshot(checkout, layout="files", name="vendored")
    git(checkout, "add", "--all")
    git(checkout, "commit", "--quiet", "--message=vendored")
    snapshot = open_snapshot(inner)
    assert (snapshot.kind, snapshot.commit, snapshot.dirty) == ("files", None, None)


def test_the_users_git_environment_is_not_followed(
    tmp_path: Path, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = make_snapshot(tmp_path, name="other", version="9")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other))
    snapshot = open_snapshot(checkout)
    monkeypatch.undo()
    assert snapshot.commit == git(checkout, "rev-parse", "HEAD") != git(other, "rev-parse", "HEAD")


def test_nothing_that_the_checkout_configures_is_run(tmp_path: Path, checkout: Path) -> None:
    trap = tmp_path / "trap"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {trap}\nexec cat\n")
    program.chmod(0o755)
    (checkout / ".gitattributes").write_text("LICENSE filter=evil\n")
    git(checkout, "add", "--all")
    git(checkout, "commit", "--quiet", "--message=attributes")
    for key in ("core.fsmonitor", "filter.evil.clean", "filter.evil.process", "core.pager"):
        git(checkout, "config", key, str(program))
    for hook in ("post-index-change", "post-checkout", "fsmonitor-watchman"):
        path = checkout / ".git" / "hooks" / hook
        path.parent.mkdir(exist_ok=True)
        path.write_text(program.read_text())
        path.chmod(0o755)
    os.utime(checkout / "LICENSE", (1, 1))
    before = (checkout / ".git" / "index").read_bytes()
    assert open_snapshot(checkout).dirty is False
    assert not trap.exists()
    assert (checkout / ".git" / "index").read_bytes() == before


def test_a_checkout_of_another_user_is_read(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = subprocess.run

    def as_another_user(command: list[str], env: dict[str, str], **options: object) -> object:
        # What git itself uses to pretend that the folder belongs to somebody else.
        return original(command, env={**env, "GIT_TEST_ASSUME_DIFFERENT_OWNER": "1"}, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(git_module.subprocess, "run", as_another_user)
    assert open_snapshot(checkout).commit


def test_git_is_missing(checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = make_snapshot(tmp_path, layout="files", name="plain")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(HostError, match="git is not installed"):
        open_snapshot(checkout)
    assert open_snapshot(plain).kind == "files"


def test_a_repository_without_a_commit(tmp_path: Path) -> None:
    root = make_snapshot(tmp_path, layout="files")
    git(root, "init", "--quiet")
    assert "no commit in a git checkout" in refusal(lambda: open_snapshot(root))


@pytest.mark.parametrize("content", ["", "gitdir: nowhere\n", "garbage"])
def test_a_broken_git_entry(tmp_path: Path, content: str) -> None:
    root = make_snapshot(tmp_path, layout="files")
    (root / ".git").write_text(content)
    assert "not a usable git checkout" in refusal(lambda: open_snapshot(root))


def test_a_checkout_that_names_another_folder_as_its_files(checkout: Path, tmp_path: Path) -> None:
    git(checkout, "config", "core.worktree", str(tmp_path))
    assert "not a usable git checkout" in refusal(lambda: open_snapshot(checkout))
