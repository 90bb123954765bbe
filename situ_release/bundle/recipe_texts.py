"""The texts of a recipe that others interpret: versions, requirements, paths, links.

They end up in the wheel's METADATA, where a line break would begin another field, and as file names
in the package, where they must not take the place of code.
"""

from __future__ import annotations

import keyword
from collections.abc import Iterable
from typing import Annotated

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version
from pydantic import AfterValidator, StringConstraints

RUNTIME = "apache-tvm-ffi"
"""The requirement whose versions the manifest states."""

_CARRIED_ALONG = "licenses/third_party/"


def _is_version(text: str) -> str:
    try:
        normal = str(Version(text))
    except ValueError as error:
        raise ValueError(f"{text!r} is not a PEP 440 version") from error
    if normal != text:
        raise ValueError(f"{text!r} is spelled {normal} in its normal form")
    return text


def _is_specifier(text: str) -> str:
    try:
        empty = not SpecifierSet(text)
    except InvalidSpecifier as error:
        raise ValueError(str(error)) from error
    if empty:
        raise ValueError("no version is named")
    return text


def _is_requirement(text: str) -> str:
    try:
        Requirement(text)
    except InvalidRequirement as error:
        raise ValueError(str(error).splitlines()[0]) from error
    return text


def _names_runtime(requirements: list[str]) -> list[str]:
    found = [
        text
        for text in requirements
        if canonicalize_name(Requirement(text).name) == canonicalize_name(RUNTIME)
    ]
    if len(found) != 1:
        raise ValueError(f"one requirement must be {RUNTIME}, and {len(found)} are")
    runtime = Requirement(found[0])
    if runtime.name != RUNTIME or runtime.url or runtime.marker or runtime.extras:
        raise ValueError(f"{found[0]!r} is not {RUNTIME} with its versions and nothing else")
    if not runtime.specifier:
        raise ValueError(f"{RUNTIME} needs its versions")
    return requirements


def _is_no_keyword(text: str) -> str:
    if keyword.iskeyword(text):
        raise ValueError(f"{text!r} cannot be imported")
    return text


def _is_own_license(text: str) -> str:
    if text.startswith(_CARRIED_ALONG):
        raise ValueError(f"{_CARRIED_ALONG} is for texts that the snapshot has besides")
    return text


def runtime_versions(requirements: Iterable[str]) -> str:
    """The versions of :data:`RUNTIME` that a recipe's requirements admit, as they spell them."""
    (text,) = (text for text in requirements if Requirement(text).name == RUNTIME)
    return text.removeprefix(RUNTIME).strip()


_ONE_LINE = r"^[^\s\x00-\x1f\x7f-\x9f]([^\x00-\x1f\x7f-\x9f\u2028\u2029]*[^\s\x00-\x1f\x7f-\x9f])?$"

VersionText = Annotated[str, AfterValidator(_is_version)]
VersionSpecifier = Annotated[
    str, StringConstraints(pattern=_ONE_LINE), AfterValidator(_is_specifier)
]
Requirements = Annotated[
    list[Annotated[str, StringConstraints(pattern=_ONE_LINE), AfterValidator(_is_requirement)]],
    AfterValidator(_names_runtime),
]
ImportName = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$"), AfterValidator(_is_no_keyword)
]
LinkLabel = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9]([A-Za-z0-9 ._-]{0,30}[A-Za-z0-9])?$")
]
Link = Annotated[str, StringConstraints(pattern=r"^https?://[!-~]{1,2000}$")]
LicensePath = Annotated[
    str,
    StringConstraints(pattern=r"^licenses(/[A-Za-z0-9_][A-Za-z0-9._-]*)+$"),
    AfterValidator(_is_own_license),
]
