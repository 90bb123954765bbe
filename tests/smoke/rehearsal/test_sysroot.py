"""A newer system's libraries for an older host."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from situ_release.errors import HostError, InputError
from situ_release.smoke.rehearsal.sysroot import host_problems, python_in
from situ_release.sources.runner import Runner, read_runner
from tests.synth.elf import make_runner

EXTERNAL = frozenset({"libcuda.so.1", "libcudart.so.13"})


@pytest.fixture(scope="module")
def runner() -> Runner:
    data = make_runner(
        table=(),
        needed=("libcudart.so.13", "libcuda.so.1", "libm.so.6"),
        versions={
            "libc.so.6": ("GLIBC_2.38", "GLIBC_2.4"),
            "libstdc++.so.6": ("GLIBCXX_3.4.32", "CXXABI_1.3.9"),
        },
    )
    return read_runner(data, "runner.so")


def fill(folder: Path, **versions: str) -> Path:
    """A sysroot of Debian's layout, its libraries nothing but version strings."""
    texts = {
        "usr/lib64/ld-linux-x86-64.so.2": "",
        "usr/lib/x86_64-linux-gnu/libm.so.6": "",
        "usr/lib/x86_64-linux-gnu/libc.so.6": f"GLIBC_2.2.5\0GLIBC_{versions['glibc']}",
        "usr/lib/x86_64-linux-gnu/libstdc++.so.6": (
            f"GLIBCXX_3.4\0GLIBCXX_{versions['glibcxx']}\0CXXABI_1.3.15\0CXXABI_FLOAT128"
        ),
    }
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"\0{text}\0")
    return folder


def test_python_starts_through_the_sysroots_loader(
    tmp_path: Path, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "/opt/python/lib:")
    root = fill(tmp_path, glibc="2.41", glibcxx="3.4.33")
    command = python_in(root, runner, EXTERNAL, "2.36")
    libraries = f"{root}/usr/lib64:{root}/usr/lib/x86_64-linux-gnu:/opt/python/lib"
    assert command == [
        f"{root}/usr/lib64/ld-linux-x86-64.so.2",
        "--library-path",
        libraries,
        sys.executable,
    ]


def test_everything_that_is_lacking_is_named(tmp_path: Path, runner: Runner) -> None:
    root = fill(tmp_path, glibc="2.41", glibcxx="3.4.33")
    (root / "usr/lib/x86_64-linux-gnu/libstdc++.so.6").unlink()
    (root / "usr/lib64/ld-linux-x86-64.so.2").unlink()
    (root / "usr/lib64/ld-linux-x86-64.so.2").symlink_to("/lib64/ld-linux-x86-64.so.2")
    with pytest.raises(InputError) as caught:
        python_in(root, runner, EXTERNAL, "2.36")
    named = [problem.expected.split(" ")[0] for problem in caught.value.problems]
    assert named == ["ld-linux-x86-64.so.2", "libstdc++.so.6"]


def test_a_folder_that_does_not_exist(tmp_path: Path, runner: Runner) -> None:
    with pytest.raises(InputError, match="no such folder"):
        python_in(tmp_path / "nowhere", runner, EXTERNAL, "2.36")


def test_libraries_that_are_too_old_themselves(tmp_path: Path, runner: Runner) -> None:
    root = fill(tmp_path, glibc="2.37", glibcxx="3.4.30")
    with pytest.raises(HostError) as caught:
        python_in(root, runner, EXTERNAL, "2.36")
    contrasts = [(problem.expected, problem.found) for problem in caught.value.problems]
    assert contrasts == [
        ("GLIBC 2.38 or newer", "GLIBC 2.37"),
        ("GLIBCXX 3.4.32 or newer", "GLIBCXX 3.4.30"),
    ]


def test_a_sysroot_older_than_the_host_cannot_run_its_python(
    tmp_path: Path, runner: Runner
) -> None:
    root = fill(tmp_path, glibc="2.38", glibcxx="3.4.33")
    with pytest.raises(HostError, match=r"GLIBC 2\.42 or newer, found GLIBC 2\.38"):
        python_in(root, runner, EXTERNAL, "2.42")


@pytest.mark.parametrize(("glibc", "count"), [("2.36", 1), ("none", 1), ("2.38", 0), ("2.42", 0)])
def test_an_old_glibc_is_a_problem_of_the_host(runner: Runner, glibc: str, count: int) -> None:
    problems = list(host_problems(runner, "runner.so", glibc))
    assert len(problems) == count
    for problem in problems:
        assert problem.expected == "glibc 2.38 or newer"
        assert problem.found == f"glibc {glibc}"
        assert "--sysroot" in problem.remedy
