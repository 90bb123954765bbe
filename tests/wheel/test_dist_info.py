from __future__ import annotations

import pytest

from situ_release.errors import InputError
from situ_release.wheel.dist_info import (
    dist_info_folder,
    parse_wheel_name,
    read_metadata,
    read_wheel_headers,
)

METADATA = b"Metadata-Version: 2.4\nName: a\nVersion: 1\n"


def test_parts_of_a_name() -> None:
    name = parse_wheel_name("tokenspeed_situ-0.1.0.post20260727-py3-none-manylinux_2_39_x86_64.whl")
    assert name.distribution == "tokenspeed-situ"
    assert str(name.version) == "0.1.0.post20260727"
    assert name.tag == "py3-none-manylinux_2_39_x86_64"
    assert {tag.platform for tag in name.tags} == {"manylinux_2_39_x86_64"}
    assert name.stem == "tokenspeed_situ-0.1.0.post20260727"


@pytest.mark.parametrize(
    ("filename", "normal"),
    [
        ("a_b-1-py3-none-any.whl", "a_b-1-py3-none-any.whl"),
        ("A.b-1.0.POST1-py3-none-any.whl", "a_b-1.0.post1-py3-none-any.whl"),
        ("a-1-2b-py3-none-any.whl", "a-1-2b-py3-none-any.whl"),
        (
            "a-1-py3-none-manylinux_2_39_x86_64.manylinux_2_24_x86_64.whl",
            "a-1-py3-none-manylinux_2_24_x86_64.manylinux_2_39_x86_64.whl",
        ),
        ("a-1+cu130-py3-none-any.whl", "a-1+cu130-py3-none-any.whl"),
    ],
)
def test_normal_form(filename: str, normal: str) -> None:
    assert parse_wheel_name(filename).filename == normal


@pytest.mark.parametrize(
    "filename", ["a.whl", "a-1.tar.gz", "a-x-py3-none-any.whl", "", "a-1-.whl"]
)
def test_not_a_wheel_name(filename: str) -> None:
    with pytest.raises(InputError, match="not the file name of a wheel: expected name-version-py"):
        parse_wheel_name(filename)


def test_dist_info_folder() -> None:
    assert (
        dist_info_folder(["a/x", "a-1.dist-info/RECORD", "top.dist-info"], "w") == "a-1.dist-info"
    )
    with pytest.raises(InputError, match="w: the wheel has no dist-info folder"):
        dist_info_folder(["a/x"], "w")
    with pytest.raises(InputError, match=r"more than one .*found a-1\.dist-info, a-2\.dist-info"):
        dist_info_folder(["a-2.dist-info/x", "a-1.dist-info/x"], "w")


def test_metadata() -> None:
    metadata = read_metadata(METADATA + b"Requires-Python: >=3.10\n\nText\n", "METADATA")
    assert metadata.name == "a"
    assert str(metadata.requires_python) == ">=3.10"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xfe",
        b"Metadata-Version: 2.4\nName: a\nVersion: nonsense\n",
        METADATA + b"License-Expression: not a licence\n",
        METADATA + b"Requires-Dist: ,,,\n",
        METADATA + b"Requires-Python: nonsense\n",
        METADATA + b"Unknown-Field: 1\n",
        METADATA + b"\nValidated on B300.\x1b[31m\n",
        METADATA + b"Summary: one\x0cLicense: two\n",
        METADATA + "\nname\u202egpj.exe\n".encode(),
        b"Metadata-Version: 2.4\nName: a\nVersion: " + b"9" * 5000 + b"\n",
        METADATA + b"Description-Content-Type: text/markdown" + b'{"a":' * 100_000 + b"\n",
    ],
)
def test_invalid_metadata(data: bytes) -> None:
    with pytest.raises(InputError, match="METADATA is not valid") as caught:
        read_metadata(data, "w: METADATA")
    assert all(problem.found and problem.remedy for problem in caught.value.problems)


def test_every_invalid_field_is_listed() -> None:
    with pytest.raises(InputError) as caught:
        read_metadata(METADATA + b"Requires-Dist: ,\nRequires-Python: nonsense\n", "METADATA")
    assert len(caught.value.problems) == 2


def test_wheel_headers() -> None:
    data = b"Wheel-Version: 1.0\nGenerator: x (1)\nRoot-Is-Purelib: false\nTag: a\nTag: b\n"
    headers = read_wheel_headers(data, "WHEEL")
    assert headers.tags == ("a", "b")
    assert (headers.version, headers.generator, headers.root_is_purelib) == (
        "1.0",
        "x (1)",
        "false",
    )


WHEEL = b"Wheel-Version: 1.0\nGenerator: x\n"


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"", "no Wheel-Version"),
        (b"Generator: x\n", "no Wheel-Version"),
        (b"\xff", "can't decode"),
        (WHEEL + b" Root-Is-Purelib: false\nRoot-Is-Purelib: true\n", "' Root-Is-Purelib: false'"),
        (WHEEL + b"\tmore\n", "WHEEL:3"),
        (WHEEL + b"\nRoot-Is-Purelib: false\n", "WHEEL:3"),
        (b"\n" + WHEEL, "WHEEL:1"),
        (WHEEL + b"A: b\x0cRoot-Is-Purelib: false\n", r"b\x0cRoot"),
        (WHEEL + b"A: b\rRoot-Is-Purelib: false\n", r"b\rRoot"),
        (WHEEL + "A: b\u2028Root-Is-Purelib: false\n".encode(), r"b\u2028Root"),
        (WHEEL + b"Root-Is-Purelib : false\n", "'Root-Is-Purelib : false'"),
        (WHEEL + b"Root-Is-Purelib\n", "'Root-Is-Purelib'"),
        (WHEEL + b"Root-Is-Purelib:\n", "'Root-Is-Purelib:'"),
        (WHEEL + b"generator: y\n", "more than one generator"),
    ],
)
def test_invalid_wheel_headers(data: bytes, found: str) -> None:
    with pytest.raises(InputError, match="WHEEL is not valid") as caught:
        read_wheel_headers(data, "WHEEL")
    assert found in str(caught.value)
