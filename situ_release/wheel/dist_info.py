"""What a wheel says about itself outside its package: its file name, WHEEL and METADATA."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.tags import Tag, parse_tag
from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import Version

from situ_release.errors import InputError, Problem

if TYPE_CHECKING:
    from packaging.metadata import Metadata

DIST_INFO = ".dist-info"

SBOMS = "sboms/"
"""Where bills of materials lie in the dist-info folder (PEP 770)."""

MAX_FIELD_BYTES = 1 << 14
"""Longer header fields of METADATA are refused: Python takes quadratic time for some."""

# Control characters and those that change the direction of the text around them: what a reviewer
# sees of them is not what is there, and some readers take them for ends of lines.
_CONTROLS = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]"
)
_WHEEL_LINE = re.compile(r"([A-Za-z][A-Za-z0-9-]*): *(\S.*)")
_BLANK_LINE = re.compile(rb"\r?\n\r?\n")
_NEXT_FIELD = re.compile(rb"\n(?![ \t])")


@dataclass(frozen=True, slots=True)
class WheelName:
    """The parts of a wheel's file name.

    Attributes:
        distribution: normalised project name, words joined by ``-``.
        version: the version.
        build: build tag as it is spelled; "" if there is none.
        tag: the compressed tag as it is spelled, ``py3-none-manylinux_2_39_x86_64``.
    """

    distribution: str
    version: Version
    build: str
    tag: str

    @property
    def tags(self) -> frozenset[Tag]:
        """Every tag that the compressed one stands for."""
        return parse_tag(self.tag)

    @property
    def stem(self) -> str:
        """``name-version`` as it begins the file name and the dist-info folder."""
        return f"{self.distribution.replace('-', '_')}-{self.version}"

    @property
    def filename(self) -> str:
        """The normalised file name: the only spelling that indexes and attestations agree on."""
        tag = "-".join(".".join(sorted(part.split("."))) for part in self.tag.split("-"))
        return "-".join(part for part in (self.stem, self.build, tag) if part) + ".whl"


@dataclass(frozen=True, slots=True)
class WheelHeaders:
    """The fields of ``WHEEL``, as they are spelled.

    Attributes:
        version: Wheel-Version.
        generator: Generator.
        root_is_purelib: Root-Is-Purelib; "" where it is missing.
        tags: every Tag line, in order.
    """

    version: str
    generator: str
    root_is_purelib: str
    tags: tuple[str, ...]


def parse_wheel_name(filename: str) -> WheelName:
    """Take a wheel's file name apart.

    Raises:
        InputError: it is not the name of a wheel.
    """
    try:
        distribution, version, _, _ = parse_wheel_filename(filename)
    except (InvalidWheelFilename, ValueError) as error:
        raise InputError.of(
            "not the file name of a wheel",
            filename,
            expected="name-version-python-abi-platform.whl",
            found=str(error),
            remedy="give the file the name it was published or built under",
        ) from error
    parts = filename.removesuffix(".whl").split("-")
    return WheelName(distribution, version, "-".join(parts[2:-3]), "-".join(parts[-3:]))


def dist_info_folder(members: Iterable[str], where: str) -> str:
    """The one top-level ``*.dist-info`` folder.

    Args:
        members: names of the wheel's members.
        where: the wheel, used in errors.

    Raises:
        InputError: there is none, or more than one.
    """
    tops = {name.split("/", 1)[0] for name in members if "/" in name}
    found = sorted(name for name in tops if name.endswith(DIST_INFO))
    if len(found) == 1:
        return found[0]
    raise InputError.of(
        "the wheel has no dist-info folder" if not found else "more than one dist-info folder",
        where,
        expected="one name-version.dist-info",
        found=", ".join(found) or "none",
        remedy="build the wheel again",
    )


def read_metadata(data: bytes, where: str) -> Metadata:
    """Parse and validate METADATA.

    Raises:
        InputError: fields that are missing, unknown or malformed, all at once.
    """
    # It brings the email package along, which takes longer to import than a wheel to read.
    from packaging.metadata import ExceptionGroup, Metadata

    headers = _BLANK_LINE.split(data, maxsplit=1)[0]
    if any(len(field) > MAX_FIELD_BYTES for field in _NEXT_FIELD.split(headers)):
        found = f"a header field of more than {MAX_FIELD_BYTES:,} bytes"
        raise InputError(_not_metadata(where, found))
    if control := _CONTROLS.search(data.decode("utf-8", "replace")):
        raise InputError(_not_metadata(where, f"the control character {control[0]!a}"))
    try:
        return Metadata.from_email(data, validate=True)
    except ExceptionGroup as group:
        problems = [_not_metadata(where, str(error)) for error in group.exceptions]
        raise InputError(*problems) from group
    except ValueError as error:  # a version with a number that is too long for Python
        raise InputError(_not_metadata(where, str(error))) from error


def _not_metadata(where: str, found: str) -> Problem:
    return Problem(
        "METADATA is not valid",
        where,
        expected="core metadata as the packaging specifications have it",
        found=" ".join(found.split()),
        remedy="correct the field in the payload's pyproject.toml and build again",
    )


def read_wheel_headers(data: bytes, where: str) -> WheelHeaders:
    """Parse WHEEL.

    Installers read it as mail headers, others line by line; only what both understand in one way is
    accepted: ``Key: value`` lines, each key but Tag once.

    Raises:
        InputError: not UTF-8, lines of another form, a key that is given twice, no Wheel-Version.
    """
    try:
        lines = data.decode("utf-8").rstrip("\n").split("\n")
    except UnicodeDecodeError as error:
        raise _not_wheel_headers(where, str(error)) from error
    fields: list[tuple[str, str]] = []
    for number, line in enumerate(lines if data else (), 1):
        match = _WHEEL_LINE.fullmatch(line)
        if match is None or not line.isprintable():
            raise _not_wheel_headers(f"{where}:{number}", f"{line[:80]!a} instead of Key: value")
        fields.append((match[1].lower(), match[2].strip()))
    once = [name for name, _ in fields if name != "tag"]
    if twice := sorted({name for name in once if once.count(name) > 1}):
        raise _not_wheel_headers(where, f"more than one {', '.join(twice)}")
    first = dict(fields)
    if not first.get("wheel-version"):
        raise _not_wheel_headers(where, "no Wheel-Version")
    return WheelHeaders(
        version=first["wheel-version"],
        generator=first.get("generator", ""),
        root_is_purelib=first.get("root-is-purelib", ""),
        tags=tuple(value for name, value in fields if name == "tag"),
    )


def _not_wheel_headers(where: str, found: str) -> InputError:
    problem = Problem(
        "WHEEL is not valid", where, "the headers of a wheel", found, "build the wheel again"
    )
    return InputError(problem)
