"""Whatever happens to a wheel's bytes: an answer, never a traceback, never a pass in error."""

from __future__ import annotations

import json
import tempfile
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from situ_release.checks.model import VerifyReport
from situ_release.checks.verify import verify_wheel
from tests.checks.bundle import KERNELS, METADATA, cubin_member, result, sound_wheel, write_recipe
from tests.synth.wheel import DIST_INFO, MANIFEST, RUNNER, Files, exchange

PAYLOAD = [cubin_member(kernel) for kernel in KERNELS]
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@cache
def folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="situ-fuzz-"))


@cache
def recipe() -> str:
    return str(write_recipe(folder()))


@cache
def sound_bytes() -> bytes:
    return sound_wheel(folder() / "sound").read_bytes()


@cache
def wheel_name() -> str:
    return next((folder() / "sound").glob("*.whl")).name


def verify_bytes(data: bytes) -> VerifyReport:
    path = folder() / wheel_name()
    path.write_bytes(data)
    return verify_wheel(path, recipe=recipe())


def contents(data: bytes) -> Files:
    path = folder() / "read.whl"
    path.write_bytes(data)
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 1 << 30), st.integers(1, 255)), min_size=1, max_size=3))
def test_flipped_bytes_never_pass_with_another_content(flips: list[tuple[int, int]]) -> None:
    sound_bytes()
    changed = bytearray(sound_bytes())
    for position, bits in flips:
        changed[position % len(changed)] ^= bits
    report = verify_bytes(bytes(changed))
    if report.ok:
        assert contents(bytes(changed)) == contents(sound_bytes())


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1 << 30))
def test_a_cut_off_wheel_never_passes(length: int) -> None:
    sound_bytes()
    report = verify_bytes(sound_bytes()[: length % len(sound_bytes())])
    assert report.exit_code == 1


@settings(max_examples=30, deadline=None)
@given(st.binary(max_size=300))
def test_arbitrary_bytes_never_pass(data: bytes) -> None:
    sound_bytes()
    assert verify_bytes(data).exit_code == 1


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(PAYLOAD), st.integers(0, 1 << 30), st.integers(1, 255))
def test_a_changed_cubin_never_passes_where_manifest_and_record_fit(
    member: str, position: int, bits: int
) -> None:
    def change(files: Files) -> None:
        data = bytearray(files[member])
        data[position % len(data)] ^= bits
        exchange(member, bytes(data))(files)

    report = verify_wheel(sound_wheel(folder() / "cubin", edit=change), recipe=recipe())
    assert report.exit_code == 1
    assert member in {
        f.subject for f in result(report, "runner.table").findings if f.severity == "fail"
    }


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1 << 30), st.integers(1, 255))
def test_a_changed_runner_is_never_the_reviewed_one(position: int, bits: int) -> None:
    def change(files: Files) -> None:
        data = bytearray(files[RUNNER])
        data[position % len(data)] ^= bits
        exchange(RUNNER, bytes(data))(files)

    report = verify_wheel(sound_wheel(folder() / "runner", edit=change), recipe=recipe())
    assert result(report, "manifest.locked").status == "warn"


def _replace(document: Any, path: list[int], value: Any) -> Any:
    """``document`` with one value replaced, found by walking down ``path``."""
    if not path or not isinstance(document, (dict, list)) or not document:
        return value
    keys = list(document) if isinstance(document, dict) else list(range(len(document)))
    key = keys[path[0] % len(keys)]
    changed = document.copy()
    changed[key] = _replace(document[key], path[1:], value)
    return changed


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 50), min_size=1, max_size=4), JSON)
def test_any_value_in_the_manifest_gets_an_answer(path: list[int], value: Any) -> None:
    def change(files: Files) -> None:
        document = _replace(json.loads(files[MANIFEST]), path, value)
        files[MANIFEST] = json.dumps(document).encode("utf-8", "surrogatepass")

    verify_wheel(sound_wheel(folder() / "manifest", edit=change), recipe=recipe())


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from([METADATA, f"{DIST_INFO}/WHEEL", f"{DIST_INFO}/RECORD"]),
    st.binary(max_size=40),
    st.integers(0, 1 << 30),
)
def test_any_bytes_in_the_dist_info_get_an_answer(member: str, data: bytes, position: int) -> None:
    def change(files: Files) -> None:
        text = files[member]
        at = position % (len(text) + 1)
        files[member] = text[:at] + data + text[at:]

    verify_wheel(sound_wheel(folder() / "dist_info", tamper=change), recipe=recipe())
