"""``build``: the payload project becomes a wheel, through PEP 517 and without an index.

What the backend made is compared with what went in: it must be that and nothing else.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from situ_release.atomic import check_new_file
from situ_release.bundle.manifest import MANIFEST_NAME
from situ_release.errors import Problem, ToolError, raise_all
from situ_release.wheel.archive import MemberContent, WheelArchive, archive_faults, examine_wheel
from situ_release.wheel.backend import run_backend
from situ_release.wheel.canonical import archive_epoch
from situ_release.wheel.contents import foreign_files
from situ_release.wheel.dist_info import SBOMS, dist_info_folder, parse_wheel_name
from situ_release.wheel.output import WheelFile, place_wheel
from situ_release.wheel.payload import Payload, copy_payload
from situ_release.wheel.record import RECORD, record_problems


def build_wheel(payload: Path, outdir: Path) -> WheelFile:
    """Build the wheel of a payload project.

    The result depends on the payload, SOURCE_DATE_EPOCH (else the manifest's ``generated_at``) and
    the backend alone. ``payload`` is only read; ``outdir`` gets the finished wheel or nothing.

    Args:
        payload: a project that ``stage-assets`` made.
        outdir: where the wheel goes; made if need be.

    Raises:
        InputError: the payload and its manifest differ, ``pyproject.toml`` is not usable, or
            ``outdir`` cannot be written or lies in the payload.
        HostError: the pinned build backend is not installed here.
        ToolError: the backend failed, or left out, added or changed a file.
    """
    check_new_file(outdir / "*.whl", [payload])
    with tempfile.TemporaryDirectory(prefix="situ-release-build-") as scratch:
        project = Path(scratch, "project")
        project.mkdir()
        copied = copy_payload(payload, project)
        manifest = str(payload / copied.package / MANIFEST_NAME)
        epoch = archive_epoch(copied.manifest.generated_at, manifest)
        built = run_backend(project, payload, Path(scratch, "wheel"), epoch)
        raise_all(ToolError, _wheel_problems(built, copied))
        return place_wheel(built, outdir)


def _wheel_problems(wheel: Path, payload: Payload) -> list[Problem]:
    """Everything in which the built wheel is not the payload."""
    archive = examine_wheel(wheel)
    contents = archive.scan(lambda name: name.endswith(f"/{RECORD}"))
    problems = list(archive_faults(archive, contents))
    if problems:
        return problems
    expected = f"py3-none-{payload.manifest.platform}"
    name = parse_wheel_name(wheel.name)
    if name.tag != expected:
        problems.append(_difference("the wheel has another tag", wheel.name, expected, name.tag))
    if name.filename != wheel.name:
        what = "the wheel's file name is not normalised"
        problems.append(_difference(what, wheel.name, name.filename, wheel.name))
    if str(name.version) != payload.manifest.package_version:
        what, version = "the wheel has another version", payload.manifest.package_version
        problems.append(_difference(what, wheel.name, version, str(name.version)))
    dist_info = dist_info_folder(contents, wheel.name)
    problems.extend(_package_problems(archive, contents, payload))
    problems.extend(_sbom_problems(contents, payload, f"{dist_info}/{SBOMS}"))
    problems.extend(record_problems(contents, dist_info))
    return problems


def _package_problems(
    archive: WheelArchive, contents: Mapping[str, MemberContent], payload: Payload
) -> list[Problem]:
    problems = []
    for name, content in payload.files.items():
        packed = contents.get(name)
        if packed is None:
            problems.append(_difference("the backend left out a file", name, "a member", "none"))
        elif packed.sha256 != content.sha256:
            what, found = "the backend changed a file", f"SHA-256 {packed.sha256}"
            problems.append(_difference(what, name, f"SHA-256 {content.sha256}", found))
    inside = (name for name in contents if name.startswith(f"{payload.package}/"))
    extra = [name for name in inside if name not in payload.files]
    problems.extend(
        _difference("the backend added a file", name, "only the payload's files", "an extra")
        for name in (*extra, *foreign_files(payload.package, contents))
    )
    return problems


def _sbom_problems(
    contents: Mapping[str, MemberContent], payload: Payload, folder: str
) -> Iterator[Problem]:
    """The payload's bills of materials are in the wheel, and no others."""
    packed = {
        name.removeprefix(folder): content.sha256
        for name, content in contents.items()
        if name.startswith(folder)
    }
    for name in sorted({*packed, *payload.sboms}):
        staged, found = payload.sboms.get(name), packed.get(name)
        if staged != found:
            yield _difference(
                "the wheel has another bill of materials than the payload",
                f"{folder}{name}",
                f"SHA-256 {staged}" if staged else "none",
                f"SHA-256 {found}" if found else "none",
            )


def _difference(what: str, where: str, expected: str, found: str) -> Problem:
    remedy = "correct the package patterns in the payload's pyproject.toml template"
    return Problem(what, where, expected, found, remedy)
