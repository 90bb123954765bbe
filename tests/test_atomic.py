"""Outputs: whole or not at all, never over what was read, and the old one is never lost."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from situ_release.atomic import (
    OWNER_FILE,
    check_apart,
    check_new_file,
    check_replaceable,
    check_writable,
    new_directory,
    new_file,
)
from situ_release.errors import HostError, InputError

Act = Callable[[Path], None]


def made(target: Path, text: str) -> None:
    with new_directory(target, "test") as fresh:
        (fresh / "text").write_text(text)


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


@pytest.fixture
def after_first_rename(monkeypatch: pytest.MonkeyPatch) -> Callable[[Act], None]:
    """Have something happen when the old folder has just stepped aside."""

    def install(act: Act) -> None:
        rename: Callable[[Path, Path], Path] = Path.rename
        calls: list[Path] = []

        def hooked(path: Path, target: Path) -> Path:
            done = rename(path, target)
            calls.append(path)
            if len(calls) == 1:
                act(path)
            return done

        monkeypatch.setattr(Path, "rename", hooked)

    return install


def test_a_folder_replaces_the_one_before(tmp_path: Path) -> None:
    made(tmp_path / "out", "old")
    made(tmp_path / "out", "new")
    assert (tmp_path / "out" / "text").read_text() == "new"
    assert names(tmp_path) == ["out"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_within_the_swap_waits(
    number: signal.Signals, tmp_path: Path, after_first_rename: Callable[[Act], None]
) -> None:
    made(tmp_path / "out", "old")
    after_first_rename(lambda path: os.kill(os.getpid(), number))
    before = signal.signal(number, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            made(tmp_path / "out", "new")
    finally:
        signal.signal(number, before)
    assert (tmp_path / "out" / "text").read_text() == "new"
    assert names(tmp_path) == ["out"]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(errno.EIO, "I/O error")])
def test_a_failure_within_the_swap_puts_the_old_folder_back(
    error: BaseException, tmp_path: Path, after_first_rename: Callable[[Act], None]
) -> None:
    def fail(path: Path) -> None:
        raise error

    made(tmp_path / "out", "old")
    after_first_rename(fail)
    with pytest.raises((KeyboardInterrupt, InputError)):
        made(tmp_path / "out", "new")
    assert (tmp_path / "out" / "text").read_text() == "old"
    assert names(tmp_path) == ["out"]


def test_an_old_folder_that_cannot_go_back_is_kept(
    tmp_path: Path, after_first_rename: Callable[[Act], None]
) -> None:
    """Somebody else took the place meanwhile."""

    def take(path: Path) -> None:
        path.mkdir()
        (path / "other").touch()

    made(tmp_path / "out", "old")
    after_first_rename(take)
    with pytest.raises(InputError, match=r"neither be replaced nor put back.*kept in") as caught:
        made(tmp_path / "out", "new")
    assert names(tmp_path / "out") == ["other"]
    kept = Path(caught.value.problems[0].remedy.split("kept in ")[1].split(";")[0])
    assert (kept / "text").read_text() == "old"


def test_no_room_is_the_hosts_fault(tmp_path: Path) -> None:
    def fill() -> None:
        with new_directory(tmp_path / "a" / "out", "test"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(HostError, match=r"cannot write the output.*No space"):
        fill()
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("out", "other", "found"),
    [
        ("d", "d", "that very path"),
        ("d", "d/in/x.whl", "a folder that holds it"),
        ("d/in/out", "d", "a place inside it"),
        ("link/out", "d", "a place inside it"),
        ("d/../d", "d", "that very path"),
        ("hard", "d/in/x.whl", "that very path"),
        ("loop/out", "loop", "a place inside it"),
    ],
)
def test_outputs_are_apart_from_inputs(out: str, other: str, found: str, tmp_path: Path) -> None:
    (tmp_path / "d" / "in").mkdir(parents=True)
    (tmp_path / "d" / "in" / "x.whl").touch()
    (tmp_path / "link").symlink_to("d")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "hard").hardlink_to(tmp_path / "d" / "in" / "x.whl")
    check_apart(tmp_path / "d2", [tmp_path / "d", None])
    with pytest.raises(InputError, match="not apart") as caught:
        check_apart(tmp_path / out, [None, tmp_path / other, tmp_path / other])
    assert [problem.found for problem in caught.value.problems] == [found] * 2
    assert all(caught.value.problems[0].as_dict().values())


@pytest.mark.parametrize("kind", ["folder", "link", "pipe"])
def test_only_a_regular_file_is_replaced(kind: str, tmp_path: Path) -> None:
    target = tmp_path / "x"
    if kind == "folder":
        target.mkdir()
    elif kind == "link":
        target.symlink_to("nowhere")
    else:
        os.mkfifo(target)
    before = target.lstat().st_ino
    with pytest.raises(InputError, match="may not be replaced"):
        check_new_file(target)
    with pytest.raises(InputError, match="may not be replaced"), new_file(target) as fresh:
        fresh.touch()
    assert target.lstat().st_ino == before


@pytest.mark.parametrize("check", [check_replaceable, check_writable, check_new_file])
@pytest.mark.parametrize("out", ["loop/x", "a" * 300, "file/x/y"])
def test_places_that_cannot_be(check: Act, out: str, tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "file").touch()

    def use() -> None:
        check(tmp_path / out)
        made(tmp_path / out, "new")

    with pytest.raises(InputError) as caught:
        use()
    assert all(caught.value.problems[0].as_dict().values())


def test_without_a_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(InputError, match="cannot use the output"):
        check_replaceable(Path("out"))


def test_the_owner_file_is_what_allows_replacing(tmp_path: Path) -> None:
    made(tmp_path / "out", "old")
    (tmp_path / "out" / OWNER_FILE).unlink()
    with pytest.raises(InputError, match="may not be replaced"):
        made(tmp_path / "out", "new")
