"""What the commands show for small synthetic inputs, in 80 columns.

``python -m tests.inspection.golden`` writes the files in ``golden/`` anew: read what changed.
"""

from __future__ import annotations

import os
import re
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from situ_release.inspection.diff.compare import compare_paths
from situ_release.inspection.inspect import inspect_path
from situ_release.inspection.pages.difference import difference_page
from situ_release.inspection.pages.inspection import inspection_page
from situ_release.inspection.pages.layout import lay_out
from situ_release.inspection.pages.page import Page
from tests.synth.elf import make_cubin, make_fatbin, make_runner
from tests.synth.pool import KERNELS, cubin_for, make_pool, make_snapshot
from tests.synth.wheel import (
    DIST_INFO,
    PACKAGE,
    RUNNER,
    Files,
    cubin_of,
    cubin_path,
    edit_manifest,
    exchange,
    kernels,
    make_payload,
    make_wheel,
)

FOLDER = Path(__file__).parent / "golden"
WIDTH = 80

_DIGEST = re.compile(r"[0-9a-f]{64}")
_ZIP_SIZE = re.compile(r"^( +(?:size)? +)[\d,]+ bytes$", re.MULTILINE)
_GAIN = re.compile(r"\([+-][\d,]+ bytes\)")


def render(page: Page, *, width: int = WIDTH, everything: bool = False) -> str:
    """A page as text, without colours."""
    return "".join(
        f"{line.mark}{line.text}\n" for line in lay_out(page, width, everything=everything)
    )


def inspected(path: str) -> str:
    return render(inspection_page(inspect_path(Path(path))))


def compared(old: str, new: str) -> str:
    return render(difference_page(compare_paths(Path(old), Path(new))))


def cubin(folder: Path) -> str:
    name = KERNELS[0]
    Path("k.cubin").write_bytes(cubin_for(name))
    return inspected("k.cubin")


def cubin_with_paths(folder: Path) -> str:
    path = "/home/somebody/kernels/attention/source.cu"
    data = make_cubin("attention", sm=90, abi=7, toolchain=None, toolkit=None, source_path=path)
    Path("k.cubin").write_bytes(data)
    return inspected("k.cubin")


def runner(folder: Path) -> str:
    data = make_runner(
        table=[(kernel, "ab" * 32) for kernel in KERNELS],
        versions={"libc.so.6": ("GLIBC_2.17", "GLIBC_2.38"), "libstdc++.so.6": ("CXXABI_1.3",)},
        undefined=("strtol@GLIBC_2.38", "TVMFFIErrorSetRaised", "cuLaunchKernel", "elsewhere"),
        rpath="$ORIGIN/../lib",
        exec_stack=True,
        strings=("/home/somebody/build/moe/runner.cu",),
        fatbin=make_fatbin(make_cubin("router", sm=103), "// ptx"),
    )
    Path("runner.so").write_bytes(data)
    return inspected("runner.so")


def header(folder: Path) -> str:
    make_pool(folder, options=True)
    return inspected("pool/include/flashinferMetaInfo.h")


def pool(folder: Path) -> str:
    made = make_pool(folder, options=True, near_misses=True)
    made.cubin(KERNELS[0]).write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    made.cubin(KERNELS[1]).unlink()
    (made.root / "stray.cubin").write_bytes(make_cubin("stray", sm=90))
    return inspected("pool")


def pools(folder: Path) -> str:
    make_pool(folder / "x", KERNELS[:2], name="one")
    make_pool(folder / "x", KERNELS[2:4], name="two")
    return inspected("x")


def wheel(folder: Path) -> str:
    return inspected(str(_stored(make_wheel(folder / "w"))))


def foreign_wheel(folder: Path) -> str:
    """A library with raw cubin images and no manifest."""
    return inspected(str(_stored(_module_wheel(folder, "w", 0))))


def manifest(folder: Path) -> str:
    make_payload(folder / "p")
    return inspected(f"p/{PACKAGE}/manifest.json")


def payload(folder: Path) -> str:
    made = make_payload(folder / "p")
    (made / PACKAGE / "extra.bin").write_bytes(b"?")
    return inspected("p")


def snapshot(folder: Path) -> str:
    make_snapshot(folder, layout="wheel")
    return inspected("snapshot")


def diff_new_release(folder: Path) -> str:
    """Another version, and nothing else that runs."""

    def edit(files: Files) -> None:
        edit_manifest(lambda document: document.update(package_version="0.1.0.post20260728"))(files)
        member = f"{DIST_INFO}/METADATA"
        files[member] = files[member].replace(b"post20260727", b"post20260728") + b"More words.\n"
        files[f"{PACKAGE}/loader.py"] += b"x = 1\n"

    make_wheel(folder / "old")
    make_wheel(folder / "new", edit=edit)
    return compared(_only("old"), _only("new"))


def diff_code(folder: Path) -> str:
    """One cubin with other code, one that is gone, a new limitation, a file more."""
    changed, gone = kernels()["w4a8-fc1"][0], kernels()["w4a16-fc2"][1]

    def edit(files: Files) -> None:
        exchange(f"{PACKAGE}/{cubin_path(changed)}", cubin_of(changed, seed=7))(files)
        del files[f"{PACKAGE}/{cubin_path(gone)}"]
        edit_manifest(_without(gone))(files)
        files[f"{PACKAGE}/extra.json"] = b'{"a": 1}'

    make_wheel(folder / "old")
    make_wheel(folder / "new", edit=edit)
    return compared(_only("old"), _only("new"))


def diff_relocations(folder: Path) -> str:
    """Two builds of one module, as for two host architectures."""
    _module_wheel(folder, "old", 0)
    _module_wheel(folder, "new", 1)
    return compared(_only("old"), _only("new"))


def diff_compression(folder: Path) -> str:
    make_wheel(folder / "old")
    make_wheel(folder / "new")
    _stored(Path(_only("new")))
    return compared(_only("old"), _only("new"))


def diff_pools(folder: Path) -> str:
    make_pool(folder, name="old")
    make_pool(
        folder,
        KERNELS[1:],
        name="new",
        cubin_of=lambda kernel: cubin_for(kernel, seed=0 if "schedS" in kernel else 99),
    )
    return compared("old", "new")


def diff_identical(folder: Path) -> str:
    make_payload(folder / "p")
    return compared("p", "p")


CASES: tuple[Callable[[Path], str], ...] = (
    cubin,
    cubin_with_paths,
    runner,
    header,
    pool,
    pools,
    wheel,
    foreign_wheel,
    manifest,
    payload,
    snapshot,
    diff_new_release,
    diff_code,
    diff_relocations,
    diff_compression,
    diff_pools,
    diff_identical,
)


def output(case: Callable[[Path], str]) -> str:
    """What a case shows, with everything that depends on the zlib version masked."""
    with tempfile.TemporaryDirectory() as folder, _inside(Path(folder)):
        text = case(Path(folder))
    text = _DIGEST.sub(f"{'<digest>':-<64}", text)
    if "wheel" in case.__name__ or case.__name__.startswith("diff"):
        text = _ZIP_SIZE.sub(r"\1<size> bytes", text)
    return _GAIN.sub("(<gain> bytes)", text)


@contextmanager
def _inside(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _only(folder: str) -> str:
    (path,) = Path(folder).glob("*.whl")
    return str(path)


def _stored(path: Path) -> Path:
    """The same wheel without compression; its path relative to the current directory."""
    with zipfile.ZipFile(path) as archive:
        members = [(info, archive.read(info)) for info in archive.infolist()]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for info, data in members:
            archive.writestr(info, data, zipfile.ZIP_STORED)
    return path.resolve().relative_to(Path.cwd().resolve())


def _module_wheel(folder: Path, name: str, relocation_seed: int) -> Path:
    images = b"".join(
        make_cubin(f"attention_{sm}", sm=sm, relocation_seed=relocation_seed) + bytes(64)
        for sm in (100, 103)
    )
    module = make_runner(
        ffi_symbols=("attention",),
        c_symbols=(),
        large_data=images,
        machine=62 if relocation_seed else 183,
        build_id=f"{relocation_seed:02x}" * 20,
    )

    def edit(files: Files) -> None:
        for path in [path for path in files if path.startswith(f"{PACKAGE}/")]:
            del files[path]
        files[f"{PACKAGE}/__init__.py"] = b'"""A module."""\n'
        files[f"{PACKAGE}/PROVENANCE.json"] = b'{"schema": 2}\n'
        files[RUNNER] = module

    return make_wheel(folder / name, edit=edit)


def _without(kernel: str) -> Callable[[dict[str, object]], None]:
    filename = cubin_path(kernel).rpartition("/")[2]

    def change(document: dict[str, object]) -> None:
        entries: list[dict[str, object]] = document["cubins"]  # type: ignore[assignment]
        document["cubins"] = [entry for entry in entries if entry["filename"] != filename]
        limitations: list[str] = document["limitations"]  # type: ignore[assignment]
        limitations.append("One kernel less.")

    return change


def main() -> None:
    for case in CASES:
        (FOLDER / f"{case.__name__}.txt").write_text(output(case), encoding="utf-8")


if __name__ == "__main__":
    main()
