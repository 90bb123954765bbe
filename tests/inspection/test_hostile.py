"""Whatever the bytes are: facts or an InputError, and nothing that a terminal would obey."""

from __future__ import annotations

import contextlib
import json
import re
import tempfile
import zipfile
from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from situ_release.errors import InputError, SituReleaseError
from situ_release.inspection.diff.compare import compare_paths
from situ_release.inspection.inspect import inspect_path
from situ_release.inspection.pages.difference import difference_page
from situ_release.inspection.pages.inspection import inspection_page
from tests.inspection.golden import render
from tests.synth.elf import Kernel, make_cubin, make_fatbin, make_runner
from tests.synth.pool import KERNELS, make_pool
from tests.synth.wheel import DIST_INFO, MANIFEST, PACKAGE, Files, edit_manifest, make_wheel

EVIL = "\x1b[2J\x1b]0;owned\x07\u202e\x9b31m\r"
SENT = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")

BASES = {
    "cubin": make_cubin(KERNELS[0], source_path="/home/a/b/c.cu"),
    "runner": make_runner(
        table=[(KERNELS[0], "ab" * 32)],
        undefined=("strtol@GLIBC_2.17", "x"),
        fatbin=make_fatbin(make_cubin("k"), "// ptx"),
        large_data=make_cubin("m", sm=100),
        strings=("/home/a/b/c.cu",),
    ),
}


def shown(path: Path) -> str:
    """What inspect shows and holds, checked for anything that would reach a terminal."""
    inspection = inspect_path(path)
    json.dumps(asdict(inspection.facts)).encode()
    text = render(inspection_page(inspection)) + render(
        inspection_page(inspection), everything=True
    )
    assert not SENT.search(text)
    text.encode()
    return text


def wheel_bytes(folder: Path) -> bytes:
    return make_wheel(folder).read_bytes()


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("bases")
    pool = make_pool(folder, options=True)
    made = {"wheel": wheel_bytes(folder / "w"), "header": pool.header.read_bytes()}
    with zipfile.ZipFile(folder / "w.whl", "w") as archive:
        with zipfile.ZipFile(next((folder / "w").iterdir())) as source:
            made["manifest.json"] = source.read(MANIFEST)
        archive.write(pool.root / "checksums.txt", "p/checksums.txt")
        for kernel in KERNELS[:2]:
            archive.write(pool.cubin(kernel), f"p/{pool.paths[kernel]}")
    return BASES | made | {"pool.zip": (folder / "w.whl").read_bytes()}


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    name=st.sampled_from(["cubin", "runner", "wheel", "header", "manifest.json", "pool.zip"]),
    edits=st.lists(st.tuples(st.floats(0, 1), st.binary(min_size=1, max_size=8)), max_size=6),
    keep=st.floats(0, 1),
    cut=st.booleans(),
)
def test_any_bytes(
    bases: dict[str, bytes],
    name: str,
    edits: list[tuple[float, bytes]],
    keep: float,
    cut: bool,
) -> None:
    data = bytearray(bases[name])
    for place, content in edits:
        start = int(place * len(data))
        data[start : start + len(content)] = content
    if cut:
        del data[int(keep * len(data)) :]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(data)
        original = Path(folder) / "original" / name
        original.parent.mkdir()
        original.write_bytes(bases[name])
        with contextlib.suppress(InputError):
            shown(path)
        try:
            difference = compare_paths(original, path)
        except SituReleaseError:
            return
        assert not SENT.search(render(difference_page(difference), everything=True))


def test_names_in_binaries(tmp_path: Path) -> None:
    tool = (f"ptxas{EVIL}", "13.1", "V13.1.80", f"-arch {EVIL}")
    data = make_cubin("k", kernels=[Kernel(f"k{EVIL}")], toolchain=tool)
    (tmp_path / "k").write_bytes(data)
    assert "\\x1b[2J" in shown(tmp_path / "k")
    data = make_runner(
        ffi_symbols=(f"f{EVIL}",),
        needed=(f"lib{EVIL}.so",),
        rpath=EVIL,
        soname=EVIL,
        compiler=EVIL,
        undefined=(f"u{EVIL}",),
        large_data=make_cubin(f"m{EVIL}"),
    )
    (tmp_path / "r").write_bytes(data)
    assert "\\x1b[2J" in shown(tmp_path / "r")


def test_texts_of_a_wheel(tmp_path: Path) -> None:
    def edit(files: Files) -> None:
        files[f"{DIST_INFO}/METADATA"] += EVIL.encode() + b"\xff"
        files[f"{DIST_INFO}/METADATA"] = files[f"{DIST_INFO}/METADATA"].replace(
            b"Summary: ", b"Summary: \x1b[31m"
        )
        edit_manifest(lambda document: document["source_provenance"].update({EVIL: EVIL}))(files)  # type: ignore[attr-defined]
        files[f"{PACKAGE}/loader.py"] += b"# \x1b[2J\n"
        files[f"{PACKAGE}/\x1b[2J.txt"] = b"x"

    old, new = make_wheel(tmp_path / "old"), make_wheel(tmp_path / "new", edit=edit)
    shown(new)
    with pytest.raises(InputError, match="control characters"):
        compare_paths(old, new)


def test_texts_in_a_difference(tmp_path: Path) -> None:
    def edit(files: Files) -> None:
        files[f"{DIST_INFO}/METADATA"] += b"\x1b[2J\xff"
        edit_manifest(lambda document: document["limitations"].append(EVIL))(files)  # type: ignore[attr-defined]
        files[f"{PACKAGE}/loader.py"] += b"# \x1b[2J\n"

    old, new = make_wheel(tmp_path / "old"), make_wheel(tmp_path / "new", edit=edit)
    text = render(difference_page(compare_paths(old, new)), everything=True)
    assert text.count("\\x1b[2J") >= 3
    assert not SENT.search(text)


def test_metadata_that_is_no_metadata(tmp_path: Path) -> None:
    """E-mail headers can nest, fold and be encoded; here they are only words."""
    headers = (
        b"Content-Type: multipart/mixed; boundary=x\nName: =?utf-8?q?=1b[2J?=\n a\n\n--x\n\n--x--"
    )

    def edit(files: Files) -> None:
        files[f"{DIST_INFO}/METADATA"] = headers
        files[f"{DIST_INFO}/WHEEL"] = b"\0\n\n\n:::"

    old, new = make_wheel(tmp_path / "old"), make_wheel(tmp_path / "new", edit=edit)
    shown(new)
    render(difference_page(compare_paths(old, new)), everything=True)


@pytest.mark.parametrize("name", ["k\x1b[2J.cubin", "k\u202e.cubin", "-k.cubin"])
def test_file_names_of_a_pool(tmp_path: Path, name: str) -> None:
    (tmp_path / "checksums.txt").write_bytes(b"")
    (tmp_path / name).write_bytes(make_cubin())
    shown(tmp_path)
