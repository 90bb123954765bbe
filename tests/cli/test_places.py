"""Paths: outputs over inputs, places that cannot be, and what the system around does."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
import typer

from situ_release.cli import command
from situ_release.cli.commands import COMMANDS, command_function
from situ_release.cli.console import Console
from tests.cli.run import Result, situ
from tests.synth.inputs import MiniInputs, make_inputs
from tests.synth.wheel import PUBLISHED_TAG, make_payload, make_wheel, write_mini_recipe


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def refused(folder: Path, *arguments: object, what: str = "not apart") -> Result:
    """It is refused as an input fault, and every byte below the folder is what it was."""
    before = contents(folder)
    result = situ("--json", *arguments)
    assert result.code == 3, result.stderr
    assert what in result.json["error"]["what"]
    assert contents(folder) == before
    return result


def test_a_wheel_in_the_folder_that_recover_replaces(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path)
    assert situ("recover", wheel, "--out", tmp_path / "R").code == 0
    moved = wheel.rename(tmp_path / "R" / wheel.name)
    refused(tmp_path, "recover", moved, "--out", tmp_path / "R")


@pytest.mark.parametrize("out", ["", "pool/bundle", "source/licenses/b"])
def test_staging_over_its_sources(out: str, tmp_path: Path) -> None:
    inputs = make_inputs(tmp_path)
    sources = {"": tmp_path, "p": inputs.pool.root / "b", "s": inputs.snapshot / "b"}
    target = sources[out[:1]]
    refused(tmp_path, *inputs.command()[:-1], "--out", target)


@pytest.mark.parametrize("lock", ["module", "recipe", "out/lock", "folder"])
def test_a_lock_that_cannot_be_places_no_payload(lock: str, tmp_path: Path) -> None:
    inputs: MiniInputs = make_inputs(tmp_path)
    (tmp_path / "folder").mkdir()
    path = {"module": inputs.module, "recipe": inputs.recipe_path, "out/lock": inputs.out / "l"}
    what = "may not be replaced" if lock == "folder" else "not apart"
    refused(
        tmp_path,
        *inputs.command(),
        "--write-lock",
        path.get(lock, tmp_path / lock),
        what=what,
    )
    assert not inputs.out.exists()


def test_a_wheel_built_into_its_payload(tmp_path: Path) -> None:
    payload = make_payload(tmp_path / "p")
    refused(tmp_path, "build", "--payload", payload, "--outdir", payload / "w")


def test_a_wheel_repaired_over_itself(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, tag=PUBLISHED_TAG)
    recipe = write_mini_recipe(tmp_path)
    refused(tmp_path, "repair", wheel, "--wheel-dir", wheel.parent, "--recipe", recipe)


def test_files_over_what_was_read(tmp_path: Path) -> None:
    wheel, recipe = make_wheel(tmp_path), write_mini_recipe(tmp_path)
    smoke = ["gpu-smoke", wheel, "--recipe", recipe, "--tier", "load"]
    for option in ("--evidence", "--junit"):
        for path in (wheel, recipe):
            refused(tmp_path, *smoke, option, path)
    refused(tmp_path, *smoke, "--evidence", tmp_path / "e", "--junit", tmp_path / "e")
    for path in (wheel, recipe):
        refused(tmp_path, "verify", wheel, "--recipe", recipe, "--sarif", path)
    decision = ["--kind=license", "--decision=approved", "--text=t", "--reference=r"]
    who = ["--key", tmp_path / "key", "--identity=a@b"]
    (tmp_path / "key").touch()
    for path in (wheel, tmp_path / "key"):
        refused(tmp_path, "approve", wheel, *decision, *who, "--approvals", path)
    refused(tmp_path, "report", wheel, "--recipe", recipe, "--out", wheel.parent)


def test_path_options_leave_the_answer_to_the_library() -> None:
    """Typer's own check would say "usage" of a file that cannot be read."""
    options = [
        (name, option.__metadata__[0].readable)
        for name in COMMANDS
        for option in get_type_hints(command_function(name), include_extras=True).values()
        if get_args(option) and Path in (option.__origin__, *get_args(option.__origin__))
    ]
    assert len(options) > 25
    assert [name for name, readable in options if readable] == []


@pytest.mark.parametrize("name", ["recover", "verify", "repair", "coverage", "inspect", "report"])
@pytest.mark.parametrize("path", ["loop", "a" * 300, "file/x"])
def test_inputs_that_cannot_be(name: str, path: str, tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "file").touch()
    out = ["--out", tmp_path / "out"] if name in ("recover", "report") else []
    result = situ("--json", name, path, *out, cwd=tmp_path)
    assert (result.code, result.json["exit_code"]) == (3, 3), result.stderr


@pytest.mark.parametrize(
    ("error", "code", "where"),
    [
        (PermissionError(errno.EACCES, "Permission denied", "/a/b"), 3, "/a/b"),
        (OSError(errno.ELOOP, "Too many levels", b"/a/\xff"), 3, "/a/"),
        (OSError(errno.ENAMETOOLONG, "File name too long", "/aaa"), 3, "/aaa"),
        (FileNotFoundError(errno.ENOENT, "No such file or directory"), 3, "the current folder"),
        (OSError(errno.ENOSPC, "No space left on device"), 4, "/scratch"),
        (OSError(errno.ENOSPC, "No space left on device", "/full/x"), 4, "/full/x"),
        (OSError(errno.EMFILE, "Too many open files", "/a"), 4, "/a"),
        (MemoryError(), 4, "test"),
        (ValueError("a bug"), 70, "test"),
    ],
)
def test_what_the_system_does_is_no_bug(
    error: Exception,
    code: int,
    where: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def work(console: Console) -> command.Outcome:
        raise error

    monkeypatch.setenv("TMPDIR", "/scratch")
    monkeypatch.setattr(command, "current", Console(json_output=True))
    with pytest.raises(typer.Exit) as caught:
        command.execute("test", work)
    problem = json.loads(capsys.readouterr().out)["error"]
    assert caught.value.exit_code == code
    assert problem["where"].startswith(where)
    assert problem["remedy"]


def test_json_is_ascii(tmp_path: Path) -> None:
    name = "x\u009b31m\u202e\u2028ü.whl"
    result = situ("--json", "verify", tmp_path / name)
    assert result.stdout.isascii()
    assert name in result.json["error"]["where"]


def test_an_interrupt_while_importing(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text("raise KeyboardInterrupt")
    result = situ("verify", "x.whl", PYTHONPATH=f"{tmp_path}{os.pathsep}{Path.cwd()}")
    assert (result.code, result.stderr) == (130, "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_that_end_a_run(number: signal.Signals, tmp_path: Path) -> None:
    code = (
        # Whoever starts the tests in the background has SIGINT ignored, and hands that on.
        "import os, signal; signal.signal(signal.SIGINT, signal.default_int_handler);"
        "from situ_release.cli import app, command;"
        "command.execute = lambda name, work: None;"
        f"app.build_app = lambda names: lambda *a, **k: os.kill(os.getpid(), {int(number)});"
        "app.main(['verify'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (130, b"")
