"""What a host lacks, read out of the dynamic loader's message."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.payload.assemble import Package


@pytest.fixture
def explain(package: Package) -> Callable[[str], list[str]]:
    module = package.load()
    native = importlib.import_module(f"{module.__name__}._runtime.native")
    manifest = module.loader._BUNDLE.manifest
    return lambda problem: native.explain(problem, manifest, "needs tvm 1, found tvm 2")


def test_versions_that_are_wanted_and_there_are_both_named(
    explain: Callable[[str], list[str]], tmp_path: Path
) -> None:
    library = tmp_path / "libc.so.6"
    library.write_bytes(b"\0GLIBC_2.9\0GLIBC_2.36\0GLIBC_2.4\0GLIBCXX_3.4.99\0GLIBC_PRIVATE\0")
    assert explain(f"{library}: version `GLIBC_2.38' not found (required by /x/runner.so)") == [
        "the runner needs GLIBC 2.38, this host has 2.36: use a newer system"
    ]


def test_a_library_that_cannot_be_read(explain: Callable[[str], list[str]]) -> None:
    message = "/absent/libstdc++.so.6: version `GLIBCXX_3.4.32' not found (required by /x.so)"
    assert explain(message) == [
        "the runner needs GLIBCXX 3.4.32, this host has an older one: use a newer system"
    ]


def test_every_missing_library_is_named(explain: Callable[[str], list[str]]) -> None:
    message = (
        "Failed to load dynamic shared library /x/runner.so libcudart.so.13: cannot open shared "
        "object file: No such file or directory"
    )
    (reason,) = explain(message)
    assert reason.startswith("libcudart.so.13 is the CUDA 13 runtime")


def test_an_undefined_symbol(explain: Callable[[str], list[str]]) -> None:
    assert explain("/x/runner.so: undefined symbol: TVMFFIEnvTensorAlloc") == [
        "no loaded library defines TVMFFIEnvTensorAlloc (the runner needs tvm 1, found tvm 2)"
    ]


def test_a_message_that_tells_nothing(explain: Callable[[str], list[str]]) -> None:
    assert explain("/x/runner.so: file too short") == []
