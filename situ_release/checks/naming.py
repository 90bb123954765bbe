"""Checks of what the wheel says outside its package: file name, WHEEL tags, METADATA."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from situ_release.checks.context import Context
from situ_release.checks.model import Finding, Unchecked, fail, from_problem, warn
from situ_release.errors import InputError
from situ_release.wheel.dist_info import WheelName, parse_wheel_name, read_wheel_headers


def filename(context: Context) -> Iterator[Finding]:
    """The file name is normalised and names the distribution and version inside."""
    try:
        name = parse_wheel_name(context.filename)
    except InputError as error:
        yield from map(from_problem, error.problems)
        return
    if name.filename != context.filename:
        yield fail(
            context.filename,
            "the file name is not in its normalised form",
            expected=name.filename,
            found=context.filename,
        )
    if context.dist_info != f"{name.stem}.dist-info":
        yield fail(
            context.filename,
            "the file name does not fit the dist-info folder",
            expected=f"{name.stem}.dist-info",
            found=context.dist_info,
        )
    metadata = context.metadata
    if (canonicalize_name(metadata.name), metadata.version) != (name.distribution, name.version):
        yield fail(
            context.filename,
            "the file name does not fit METADATA",
            expected=f"{canonicalize_name(metadata.name)} {metadata.version}",
            found=f"{name.distribution} {name.version}",
        )


def tags(context: Context) -> Iterator[Finding]:
    """One tag, py3-none-<the recipe's platform>, in file name and WHEEL alike."""
    member = f"{context.dist_info}/WHEEL"
    data = context.data(member)
    if data is None:
        raise Unchecked("wheel.metadata", member)
    try:
        headers = read_wheel_headers(data, member)
    except InputError:
        raise Unchecked("wheel.metadata", member) from None
    expected = f"py3-none-{context.recipe.wheel.platform_tag}"
    if headers.tags != (expected,):
        yield fail(
            member,
            "the tag is not the recipe's",
            expected=f"Tag: {expected}, and no other",
            found=", ".join(headers.tags) or "no Tag",
        )
    named = _name(context).tag
    if named != expected:
        yield fail(
            context.filename,
            "the file name's tag is not the recipe's",
            expected=expected,
            found=named,
        )
    if headers.root_is_purelib != "false":
        yield fail(
            member,
            "a wheel with compiled code calls itself pure",
            expected="Root-Is-Purelib: false",
            found=headers.root_is_purelib or "no Root-Is-Purelib",
        )


def _name(context: Context) -> WheelName:
    try:
        return parse_wheel_name(context.filename)
    except InputError:
        raise Unchecked("wheel.filename", context.filename) from None


def metadata(context: Context) -> Iterator[Finding]:
    """METADATA and WHEEL are valid; the fields are the recipe's, the version the manifest's."""
    folder = context.dist_info_or_problems
    if isinstance(folder, tuple):
        yield from map(from_problem, folder)
        return
    yield from _wheel_headers(context)
    parsed = context.metadata_or_problems
    if isinstance(parsed, tuple):
        yield from map(from_problem, parsed)
        return
    member, package = f"{context.dist_info}/METADATA", context.recipe.package
    claimed = context.manifest.package_version
    if str(parsed.version) != claimed:
        yield fail(
            member,
            "Version is not the manifest's package_version",
            expected=claimed,
            found=str(parsed.version),
        )
    yield from _differences(
        fail,
        member,
        {
            "Name": (package.distribution, parsed.name),
            "Requires-Python": (
                SpecifierSet(package.requires_python),
                parsed.requires_python,
            ),
            "Requires-Dist": (
                _requirements(map(Requirement, package.requires_dist)),
                _requirements(parsed.requires_dist or ()),
            ),
        },
    )
    # Words for readers: an older release may have other ones and still be sound.
    yield from _differences(
        warn,
        member,
        {
            "Summary": (package.summary, parsed.summary),
            "Classifier": (sorted(package.classifiers), sorted(parsed.classifiers or ())),
            "Project-URL": (_urls(package.urls), _urls(parsed.project_urls or {})),
        },
    )


def _differences(
    severity: Callable[..., Finding], member: str, fields: Mapping[str, tuple[object, object]]
) -> Iterator[Finding]:
    for name, (expected, found) in fields.items():
        if expected != found:
            yield severity(
                member,
                f"{name} is not the recipe's",
                expected=_shown(expected),
                found=_shown(found),
            )


def _urls(urls: Mapping[str, str]) -> list[str]:
    return [f"{label}, {url}" for label, url in urls.items()]


def _wheel_headers(context: Context) -> Iterator[Finding]:
    member = f"{context.dist_info}/WHEEL"
    data = context.data(member)
    if data is None:
        yield fail(member, "the wheel has no readable WHEEL file", expected="its headers")
        return
    try:
        headers = read_wheel_headers(data, member)
    except InputError as error:
        yield from map(from_problem, error.problems)
        return
    if headers.version.split(".", 1)[0] != "1":
        yield fail(member, "unknown Wheel-Version", expected="1.0", found=headers.version)


def _requirements(requirements: Iterable[Requirement]) -> list[str]:
    """One spelling each, in one order."""
    return sorted(
        str(requirement).replace(requirement.name, canonicalize_name(requirement.name), 1)
        for requirement in requirements
    )


def _shown(value: object) -> str:
    return ("; ".join(value) if isinstance(value, list) else str(value or "")) or "nothing"
