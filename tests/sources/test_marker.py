"""The recovery marker: a closed document that reads back, or an error that names the key."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from situ_release.errors import InputError
from situ_release.sources.marker import (
    FILENAME,
    RecoveredClaims,
    RecoveredMarker,
    parse_marker,
    read_marker,
    write_marker,
)
from tests.sources.attempt import attempt, is_complete

MARKER = RecoveredMarker(
    wheel="tokenspeed_situ-0.1.0-py3-none-manylinux_2_39_x86_64.whl",
    wheel_sha256="a" * 64,
    claims=RecoveredClaims(
        metadata_sha256="b" * 64,
        config_sha256="c" * 64,
        pool_name="20260617_pool",
        pool_cubin_count=1696,
        branches={"flashinfer_branch": "x", "trtllm_gen_branch": "y"},
        flashinfer_version="0.6.13rc1",
        source_module_name="module_bbbbbbbb",
        build_mode="release-o3",
        generated_at="2026-07-26T00:00:00+00:00",
        package_version="0.1.0",
    ),
)


def test_a_marker_reads_back(tmp_path: Path) -> None:
    write_marker(tmp_path, MARKER)
    assert read_marker(tmp_path) == MARKER
    first = (tmp_path / FILENAME).read_bytes()
    write_marker(tmp_path, MARKER)
    assert (tmp_path / FILENAME).read_bytes() == first


def test_claims_that_are_not_made_are_left_out(tmp_path: Path) -> None:
    write_marker(tmp_path, MARKER.model_copy(update={"claims": RecoveredClaims()}))
    assert json.loads((tmp_path / FILENAME).read_text())["claims"] == {"branches": {}}
    marker = read_marker(tmp_path)
    assert marker is not None
    assert marker.claims == RecoveredClaims()


def test_no_marker_is_none(tmp_path: Path) -> None:
    assert read_marker(tmp_path) is None


def test_something_else_in_its_place_is_an_error(tmp_path: Path) -> None:
    (tmp_path / FILENAME).mkdir()
    with pytest.raises(InputError, match=FILENAME):
        read_marker(tmp_path)


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"extra": 1}, "extra"),
        ({"wheel": ""}, "wheel"),
        ({"wheel_sha256": "A" * 64}, "wheel_sha256"),
        ({"claims": None}, "claims"),
        ({"claims": {"extra": 1}}, "claims.extra"),
        ({"claims": {"pool_cubin_count": -1}}, "claims.pool_cubin_count"),
        ({"claims": {"pool_cubin_count": "1696"}}, "claims.pool_cubin_count"),
        ({"claims": {"branches": {"b": "line\nbreak"}}}, "claims.branches.b"),
        ({"claims": {"metadata_sha256": "b" * 63}}, "claims.metadata_sha256"),
    ],
)
def test_a_key_that_does_not_fit_is_named(change: dict[str, object], key: str) -> None:
    document = json.dumps({**MARKER.model_dump(), **change})
    with pytest.raises(InputError) as caught:
        parse_marker(document.encode(), "r/RECOVERED.json")
    (problem,) = caught.value.problems
    assert is_complete(caught.value)
    assert problem.where == "r/RECOVERED.json"
    assert problem.found.startswith(f"{key}: ")


def test_all_faults_are_listed_at_once() -> None:
    with pytest.raises(InputError) as caught:
        parse_marker(b'{"wheel": "", "more": 1}', "m")
    assert len(caught.value.problems) == 4


@pytest.mark.parametrize("data", [b"", b"[]", b"null", b"{", b'{"wheel": 1, "wheel": 2}', b"\xff"])
def test_what_is_no_document(data: bytes) -> None:
    with pytest.raises(InputError):
        parse_marker(data, "m")


@given(
    st.binary()
    | st.recursive(st.none() | st.text(), st.lists).map(lambda v: json.dumps(v).encode())
)
def test_arbitrary_documents(data: bytes) -> None:
    _, refusal = attempt(lambda: parse_marker(data, "m"))
    assert refusal is not None
    assert is_complete(refusal)


def test_reading_a_pool_without_a_marker_does_not_import_pydantic() -> None:
    script = (
        "import sys, situ_release.sources.pool, situ_release.sources.snapshot\n"
        "assert 'pydantic' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
