"""Single files: regular ones up to a size, and nothing that blocks or has no end."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from situ_release import canonical, toml
from situ_release.bundle.evidence import load_evidence
from situ_release.bundle.module import read_module
from situ_release.errors import InputError
from situ_release.reading import read_regular
from tests.sources.attempt import is_complete


def refusal(path: Path, limit: int = 8) -> str:
    with pytest.raises(InputError) as caught:
        read_regular(path, "recipe", limit)
    assert is_complete(caught.value)
    return caught.value.problems[0].found


def test_a_file_up_to_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"12345678")
    (tmp_path / "link").symlink_to(path)
    assert read_regular(path, "recipe", 8) == read_regular(tmp_path / "link", "recipe", 8)
    path.write_bytes(b"123456789")
    assert refusal(path) == "a file of 9 bytes"


def test_what_is_no_regular_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        assert refusal(tmp_path / "s") == "No such device or address"
    assert refusal(tmp_path / "fifo") == "a FIFO"
    assert refusal(tmp_path) == "a folder"
    assert refusal(Path("/dev/zero")) == "a device"
    assert refusal(tmp_path / "missing") == "No such file or directory"
    assert "null" in refusal(Path("a\0b"))


def test_a_file_that_hides_its_size() -> None:
    assert refusal(Path("/proc/self/status")) == "more than 8 bytes"


@pytest.mark.parametrize("size", [None, 2 << 30])
def test_every_reader_of_a_single_file(tmp_path: Path, size: int | None) -> None:
    path = tmp_path / "x"
    if size is None:
        os.mkfifo(path)
    else:
        path.touch()
        os.truncate(path, size)
    for call in (
        lambda: read_module(path),
        lambda: toml.load(path, "recipe"),
        lambda: canonical.load(path),
        lambda: load_evidence(path),
    ):
        with pytest.raises(InputError, match=r"cannot read the .*regular file of at most"):
            call()
