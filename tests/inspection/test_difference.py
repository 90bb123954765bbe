"""What changed: every kind of change is found, named, and told apart from what surrounds it."""

from __future__ import annotations

import json
import shutil
import zipfile
from dataclasses import asdict
from pathlib import Path

import pytest

from situ_release.errors import InputError, UsageError
from situ_release.inspection.diff.binaries import compare_binaries
from situ_release.inspection.diff.compare import Difference, compare_paths
from situ_release.inspection.diff.documents import Change, compare_documents
from situ_release.inspection.diff.headline import headline
from situ_release.inspection.diff.texts import LONGEST, unified_diff
from situ_release.sources.metadata_header import read_header
from tests.synth.elf import Kernel, make_cubin, make_fatbin, make_runner
from tests.synth.pool import KERNELS, make_pool
from tests.synth.wheel import (
    DIST_INFO,
    MANIFEST,
    PACKAGE,
    Edit,
    Files,
    cubin_of,
    cubin_path,
    dump,
    edit_manifest,
    exchange,
    kernels,
    make_payload,
    make_wheel,
)

KERNEL = kernels()["w4a8-fc1"][0]
CUBIN = f"{PACKAGE}/{cubin_path(KERNEL)}"


def wheels(folder: Path, edit: Edit | None = None, tamper: Edit | None = None) -> Difference:
    """A wheel against an edited one."""
    old = make_wheel(folder / "old")
    difference = compare_paths(old, make_wheel(folder / "new", edit=edit, tamper=tamper))
    json.dumps(asdict(difference))
    return difference


def test_the_same_wheel(tmp_path: Path) -> None:
    difference = wheels(tmp_path)
    assert difference.identical
    assert difference.contents_identical
    assert len(difference.binaries.same) == 9
    assert headline(difference).startswith("Identical")


def test_only_the_version(tmp_path: Path) -> None:
    def edit(files: Files) -> None:
        member = f"{DIST_INFO}/METADATA"
        files[member] = files[member].replace(b"post20260727", b"post20260728")
        edit_manifest(lambda document: document.update(package_version="9"))(files)

    difference = wheels(tmp_path, edit)
    assert not difference.identical
    assert difference.binaries.all_same
    assert difference.manifest == (Change("package_version", "changed", "0.1.0.post20260727", "9"),)
    assert [change.field for change in difference.metadata] == ["Version"]
    assert difference.files == difference.python == ()
    assert headline(difference) == (
        "No binary changed: 8 cubins and 1 library are byte-identical. What differs: the version."
    )


def test_other_device_code(tmp_path: Path) -> None:
    difference = wheels(tmp_path, exchange(CUBIN, cubin_of(KERNEL, seed=5)))
    (changed,) = difference.binaries.changed
    assert changed.path == CUBIN
    assert changed.comparison.device_code == "different"
    assert changed.comparison.sections is not None
    assert changed.comparison.sections.kinds == ("device code",)
    assert len(difference.binaries.same) == 8
    assert headline(difference) == "Binaries: 1 changed, 0 added, 0 removed, 8 the same."
    key = f"cubins[{CUBIN.rpartition('/')[2]}].sha256"
    assert difference.manifest is not None
    assert [change.key for change in difference.manifest] == [key]


def test_only_relocations(tmp_path: Path) -> None:
    data = make_cubin(KERNEL, sm=100, arch_specific=False, relocation_seed=3)
    difference = wheels(tmp_path, exchange(CUBIN, data))
    (changed,) = difference.binaries.changed
    assert changed.old_sha256 != changed.new_sha256
    assert changed.comparison.device_code == "equal"
    assert changed.comparison.sections is not None
    assert changed.comparison.sections.kinds == ("relocations",)
    assert headline(difference) == (
        "No device code changed: 1 of 9 binaries differs, only in relocations."
    )


def test_only_debug_data() -> None:
    paths = ("/home/a/build/k.cu", "/home/b/build/k.cu")
    old, new = (make_cubin(source_path=path) for path in paths)
    found = compare_binaries(old, new, "k")
    assert found.device_code == "equal"
    assert found.sections is not None
    assert (found.sections.differ, found.sections.kinds) == ((".debug_line",), ("debug data",))
    # Only `inspect` shows build paths.
    assert not any(path in repr(found) for path in paths)


def test_what_a_cubin_says_differently() -> None:
    old = make_cubin("k", kernels=[Kernel("k", registers=168)])
    tool = ("nvasm_internal", "12.9", "V12.9.90", "")
    new = make_cubin("k", kernels=[Kernel("k", registers=170)], toolchain=tool)
    facts = {
        change.key: (change.old, change.new) for change in compare_binaries(old, new, "").facts
    }
    assert facts["kernels[k].registers"] == (168, 170)
    assert facts["toolchain.producer"] == ("ptxas", "nvasm_internal")


def test_the_same_code_for_another_sm_is_other_code() -> None:
    old, new = make_cubin("k", sm=100), make_cubin("k", sm=103)
    assert compare_binaries(old, new, "").device_code == "different"


@pytest.mark.parametrize("raw", [False, True])
def test_modules_in_a_library(raw: bool) -> None:
    """Each module is compared with its counterpart, wherever both lie."""

    def library(*cubins: bytes, build_id: str) -> bytes:
        if raw:
            return make_runner(large_data=b"".join(cubins), build_id=build_id)
        fatbin = b"".join(
            make_fatbin(cubin, sm=sm) for cubin, sm in zip(cubins, (100, 103), strict=False)
        )
        return make_runner(fatbin=fatbin, build_id=build_id)

    old = library(make_cubin("a", sm=100), make_cubin("b", sm=103), build_id="00" * 20)
    new = library(
        make_cubin("a", sm=100, relocation_seed=1),
        make_cubin("b", sm=103, seed=1),
        build_id="11" * 20,
    )
    found = compare_binaries(old, new, "x.so")
    assert [(m.target, m.change, m.device_code) for m in found.modules] == [
        ("sm_100a", "changed", "equal"),
        ("sm_103a", "changed", "different"),
    ]
    assert found.device_code == "different"
    assert Change("build_id", "changed", "00" * 20, "11" * 20) in found.facts
    less = compare_binaries(old, library(make_cubin("a", sm=100), build_id="00" * 20), "x.so")
    assert [(m.target, m.change) for m in less.modules] == [
        ("sm_100a", "same"),
        ("sm_103a", "removed"),
    ]
    assert less.device_code == "different"


def test_modules_in_another_order_are_the_same() -> None:
    cubins = [make_cubin(name, sm=100) for name in "abc"]
    old, new = (
        make_runner(large_data=b"".join(order), build_id=build_id)
        for order, build_id in ((cubins, "00" * 20), (reversed(cubins), "11" * 20))
    )
    found = compare_binaries(old, new, "x.so")
    assert [module.change for module in found.modules] == ["same"] * 3
    assert found.device_code == "equal"


def test_a_compressed_module_is_not_judged() -> None:
    def compressed(payload: bytes) -> bytes:
        fatbin = bytearray(make_fatbin(payload))
        flags = 16 + 40
        fatbin[flags : flags + 8] = (0x11 | 0x2000).to_bytes(8, "little")
        fatbin[16 + 16 : 16 + 20] = len(payload).to_bytes(4, "little")
        return bytes(fatbin)

    old, new = (make_runner(fatbin=compressed(text)) for text in (b"packed 1", b"packed 2"))
    found = compare_binaries(old, new, "x.so")
    assert [module.device_code for module in found.modules] == ["unknown"]
    assert found.device_code == "unknown"


def test_a_binary_that_is_none(tmp_path: Path) -> None:
    difference = wheels(tmp_path, exchange(CUBIN, b"version https://git-lfs"))
    (changed,) = difference.binaries.changed
    assert changed.comparison.device_code == "unknown"
    assert "git-LFS" in changed.comparison.unreadable


def test_added_removed_and_moved(tmp_path: Path) -> None:
    moved = f"{PACKAGE}/cubins/elsewhere.cubin"

    def edit(files: Files) -> None:
        files[moved] = files.pop(CUBIN)
        files[f"{PACKAGE}/new.so.1"] = make_runner()

    difference = wheels(tmp_path, edit)
    assert [file.path for file in difference.binaries.removed] == [CUBIN]
    assert [(file.path, file.moved_from) for file in difference.binaries.added] == [
        (moved, CUBIN),
        (f"{PACKAGE}/new.so.1", None),
    ]


def test_kernel_table(tmp_path: Path) -> None:
    table = [("a", "00" * 32), ("b", "11" * 32), ("c", "22" * 32)]
    changed = [("d", "33" * 32), ("c", "44" * 32), ("a", "00" * 32)]
    old, new = tmp_path / "old.so", tmp_path / "new.so"
    old.write_bytes(make_runner(table=table))
    new.write_bytes(make_runner(table=changed))
    found = compare_paths(old, new).kernel_table
    assert found is not None
    assert (found.added, found.removed) == (("d",), ("b",))
    assert [(k.name, k.old, k.new) for k in found.changed] == [("c", "22" * 32, "44" * 32)]
    new.write_bytes(make_runner(table=table[::-1]))
    reordered = compare_paths(old, new).kernel_table
    assert reordered is not None
    assert reordered.reordered
    assert not reordered.same
    new.write_bytes(make_runner(table=table, build_id=None))
    same = compare_paths(old, new).kernel_table
    assert same is not None
    assert same.same


def test_python_code_and_other_files(tmp_path: Path) -> None:
    def edit(files: Files) -> None:
        files[f"{PACKAGE}/loader.py"] += b"x = 1\n"
        files[f"{PACKAGE}/licenses/FLASHINFER_NOTICE.txt"] = b"\xff\xfe"
        files[f"{PACKAGE}/data.json"] = b'{"a": 1}'
        del files[f"{DIST_INFO}/licenses/LICENSE"]

    difference = wheels(tmp_path, edit)
    (python,) = difference.python
    assert python.diff is not None
    assert python.diff[-1] == "+x = 1"
    assert [(change.path, change.change, change.diff) for change in difference.files] == [
        ("*.dist-info/licenses/LICENSE", "removed", None),
        (f"{PACKAGE}/data.json", "added", None),
        (f"{PACKAGE}/licenses/FLASHINFER_NOTICE.txt", "changed", None),
    ]


def test_json_files_are_compared_by_key(tmp_path: Path) -> None:
    for name, value in (("old", 1), ("new", 2)):
        make_wheel(
            tmp_path / name,
            edit=lambda files, value=value: files.update({f"{PACKAGE}/P.json": dump({"a": value})}),
        )
    paths = (next((tmp_path / name).iterdir()) for name in ("old", "new"))
    (change,) = compare_paths(*paths).files
    assert change.keys == (Change("a", "changed", 1, 2),)


def test_description_and_tag(tmp_path: Path) -> None:
    def edit(files: Files) -> None:
        files[f"{DIST_INFO}/METADATA"] += b"More.\n"
        files[f"{DIST_INFO}/WHEEL"] += b"Tag: py3-none-any\n"

    difference = wheels(tmp_path, edit)
    description, tag = difference.metadata
    assert (description.field, description.diff) == (
        "Description",
        ("@@ -1 +1,2 @@", " A synthetic bundle.", "+More."),
    )
    assert (tag.file, tag.field, tag.new[-1]) == ("WHEEL", "Tag", "py3-none-any")


@pytest.mark.parametrize(
    ("member", "change"),
    [
        (f"{DIST_INFO}/WHEEL", lambda text: text.replace(b": synthetic", b":  synthetic")),
        (MANIFEST, lambda text: json.dumps(json.loads(text)).encode()),
    ],
)
def test_another_spelling_is_a_difference(tmp_path: Path, member: str, change: object) -> None:
    """Bytes that differ without a value that does are said, not passed over."""

    def edit(files: Files) -> None:
        files[member] = change(files[member])  # type: ignore[operator]

    difference = wheels(tmp_path, edit)
    assert not difference.contents_identical
    said = [c.field for c in difference.metadata] + [c.change for c in difference.manifest or ()]
    assert said in (["spelling"], ["respelled"])
    assert not headline(difference).endswith(": .")


def test_record_alone(tmp_path: Path) -> None:
    def tamper(files: Files) -> None:
        files[f"{DIST_INFO}/RECORD"] += b"\n"

    difference = wheels(tmp_path, tamper=tamper)
    assert [change.path for change in difference.files] == ["*.dist-info/RECORD"]


def test_only_the_zip(tmp_path: Path) -> None:
    old = make_wheel(tmp_path / "old")
    new = tmp_path / "new.whl"
    with zipfile.ZipFile(old) as source, zipfile.ZipFile(new, "w") as target:
        for info in reversed(source.infolist()):
            data = source.read(info)
            info.date_time = (2030, 1, 1, 0, 0, 0)
            target.writestr(info, data, zipfile.ZIP_STORED)
    difference = compare_paths(old, new)
    assert not difference.identical
    assert difference.contents_identical
    assert difference.container is not None
    assert len(difference.container.compression) == len(difference.container.dates) == 19
    assert difference.container.order
    assert "Every file is equal (19); only the zip differs: compression of 19" in headline(
        difference
    )


def test_bytes_around_the_zip(tmp_path: Path) -> None:
    old = make_wheel(tmp_path / "old")
    new = tmp_path / old.name
    shutil.copy(old, new)
    with zipfile.ZipFile(new, "a") as archive:
        archive.comment = b"hello"
    difference = compare_paths(old, new)
    assert difference.container is not None
    assert difference.container.other
    assert "bytes around the files" in headline(difference)


def test_payloads(tmp_path: Path) -> None:
    old = make_payload(tmp_path / "old")
    new = make_payload(tmp_path / "new")
    (new / ".situ-release.json").write_text("{}")
    (new / PACKAGE / "__pycache__").mkdir()
    (new / PACKAGE / "__pycache__" / "x.pyc").write_bytes(b"x")
    assert compare_paths(old, new).identical
    (new / "pyproject.toml").write_text("")
    difference = compare_paths(old, new)
    assert not difference.identical
    assert [change.path for change in difference.files] == ["pyproject.toml"]
    assert difference.binaries.all_same


def test_pools(tmp_path: Path) -> None:
    old = make_pool(tmp_path / "a", options=True)
    new = make_pool(tmp_path / "b", options=True)
    assert compare_paths(old.root, new.root).identical
    # The same digests, another launch: only the header says so.
    new.header.write_text(new.header.read_text().replace("65536", "65537", 1))
    new.refresh()
    difference = compare_paths(old.root, new.root)
    assert difference.binaries.all_same
    assert difference.kernel_table is not None
    assert difference.kernel_table.redescribed == (KERNELS[0],)
    assert not difference.kernel_table.same
    assert "the kernel table" in headline(difference)


def test_a_pool_whose_header_cannot_be_read(tmp_path: Path) -> None:
    old, new = make_pool(tmp_path / "a"), make_pool(tmp_path / "b")
    new.header.write_text("struct Other {};\n")
    difference = compare_paths(old.root, new.root)
    assert difference.kernel_table is None
    assert [problem.what for problem in difference.problems] == ["not a metadata header"]
    with pytest.raises(InputError):
        read_header(new.header.read_bytes(), "")


def test_what_cannot_be_compared(tmp_path: Path) -> None:
    wheel, payload = make_wheel(tmp_path / "w"), make_payload(tmp_path / "p")
    with pytest.raises(UsageError, match="a wheel and a payload"):
        compare_paths(wheel, payload)
    manifest = payload / PACKAGE / "manifest.json"
    with pytest.raises(InputError, match="a manifest"):
        compare_paths(manifest, manifest)
    damaged = tmp_path / "damaged.whl"
    data = bytearray(wheel.read_bytes())
    data[2000:2100] = bytes(100)
    damaged.write_bytes(data)
    with pytest.raises(InputError, match="damaged"):
        compare_paths(wheel, damaged)
    (payload / PACKAGE / "link").symlink_to("/etc/hostname")
    with pytest.raises(InputError, match="symbolic link"):
        compare_paths(payload, payload)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {"a": True}, [("a", "changed")]),
        ({"a": {"b": 1}}, {"a": {"c": 1}}, [("a.b", "removed"), ("a.c", "added")]),
        ([1, 2], [2, 3], [("", "removed"), ("", "added")]),
        ([1, 2], [2, 1], [("", "reordered")]),
        ([{"name": "x", "v": 1}], [{"name": "x", "v": 2}], [("[x].v", "changed")]),
        ([{"name": "x"}, {"name": "y"}], [{"name": "y"}, {"name": "x"}], [("", "reordered")]),
        ([{"v": 1}], [{"v": 2}, {"v": 3}], [("[0].v", "changed"), ("[1]", "added")]),
        ([], [{"name": "x"}], [("[x]", "added")]),
        ({"a": [1]}, {"a": None}, [("a", "changed")]),
    ],
)
def test_documents(old: object, new: object, expected: list[tuple[str, str]]) -> None:
    assert [(c.key, c.change) for c in compare_documents(old, new)] == expected


def test_texts_that_are_too_long_are_not_compared_line_by_line() -> None:
    assert unified_diff("a\n" * (LONGEST + 1), "b\n") is None
    assert unified_diff("a\n", "b\n") == ("@@ -1 +1 @@", "-a", "+b")
