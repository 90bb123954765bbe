"""The list of kernels, and the table that the runner is compiled with."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from situ_release.bundle.conformance_kernels import (
    ConformanceKernel,
    kernel_table_cpp,
    read_kernels,
)
from situ_release.errors import InputError
from situ_release.sources.kernel_options import check_options
from situ_release.sources.metadata_header import read_header, write_header
from tests.conformance.conftest import SOURCES

LADDER = {"w4a16": {8, 16, 32, 64}, "w4a8": {8, 16, 32, 64, 128, 256}}


def test_every_tile_has_two_kernels_of_each_role_for_each_architecture(
    kernels: list[ConformanceKernel],
) -> None:
    names = [str(kernel.name) for kernel in kernels]
    assert len(set(names)) == len(names) == 120
    for architecture in ("sm90a", "sm100f", "sm103a"):
        for precision, tiles in LADDER.items():
            for role in ("fc1", "fc2"):
                found = [
                    kernel.name.tile
                    for kernel in kernels
                    if (kernel.name.sm, kernel.precision, kernel.role)
                    == (architecture, precision, role)
                ]
                assert {tile.n for tile in found} == tiles
                assert {tile.k for tile in found} == {128, 256}
                assert len(found) == 2 * len(tiles)


def test_names_say_what_the_kernels_are(kernels: list[ConformanceKernel]) -> None:
    for kernel in kernels:
        name = kernel.name
        assert (name.gated_act == "siTuGlu") == (kernel.role == "fc1") == bool(name.routing)
        assert (name.dtype_b == "MxE4m3") == (kernel.precision == "w4a8")
        assert (name.dtype_c == "MxE4m3") == (kernel.precision == "w4a8" and kernel.role == "fc1")
        assert name.trans_out
        assert name.shuffled
        assert name.dynamic_batch


def test_launches_fit_every_device(kernels: list[ConformanceKernel]) -> None:
    assert max(kernel.shared_bytes for kernel in kernels) <= 227 * 1024
    assert max(kernel.threads for kernel in kernels) <= 1024


def test_the_metadata_header_agrees_with_the_names(kernels: list[ConformanceKernel]) -> None:
    entries = [kernel.metadata_entry("0" * 64) for kernel in kernels]
    header = read_header(write_header(entries, comment="test"), "header")
    assert header.entries == tuple(entries)
    for entry, kernel in zip(header.entries, kernels, strict=True):
        assert check_options(entry, kernel.name, "header") == []


def test_the_table_lies_as_names_followed_by_digests(kernels: list[ConformanceKernel]) -> None:
    digests = {str(kernel.name): f"{i:064x}" for i, kernel in enumerate(kernels)}
    code = kernel_table_cpp(digests, kernels)
    assert code.splitlines()[1] == '  "' + 8 * r"\0" + '" \\'
    strings = re.findall(r'^  "([^"]*)" "((?:\\0)*)"', code, re.MULTILINE)
    text = 8 * "\0" + "".join(string + "\0" * zeros.count("0") for string, zeros in strings)
    rows = re.findall(r"SITU_KERNEL\((\d+), (\d+), (.*)\)", code)
    assert len(rows) == len(kernels)
    for (name_at, digest_at, rest), kernel in zip(rows, kernels, strict=True):
        name = text[int(name_at) :].partition("\0")[0]
        digest = text[int(digest_at) :].partition("\0")[0]
        assert (name, digest) == (str(kernel.name), digests[name])
        assert int(name_at) % 8 == int(digest_at) % 8 == 0
        assert set(text[int(name_at) + len(name) : int(digest_at)]) == {"\0"}
        tile, sm = kernel.name.tile, kernel.name.sm
        assert rest.split(", ")[2:6] == [str(tile.n), str(tile.k), sm[2:-1], f"'{sm[-1]}'"]


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("", "architectures"),
        ("surprise = 1", "surprise"),
        ("architectures = [", "not valid TOML"),
    ],
)
def test_a_damaged_list_is_an_input_error(tmp_path: Path, text: str, where: str) -> None:
    path = tmp_path / "kernels.toml"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_kernels(path)
    assert where in str(caught.value)
    assert "kernels.toml" in str(caught.value)


def test_an_unknown_token_in_a_name_is_an_input_error(tmp_path: Path) -> None:
    text = (SOURCES / "kernels.toml").read_text().replace("_schedS_", "_schedZ_")
    path = tmp_path / "kernels.toml"
    path.write_text(text)
    with pytest.raises(InputError, match="schedZ"):
        read_kernels(path)
