"""``repair``: the raw wheel gets its manylinux tag and its canonical form, and not a byte else.

auditwheel is the judge of the tag, not the author of the wheel. It works in a temporary folder.
What comes out is compared with what went in (with a wrong exclude it copies libraries into the
wheel and still succeeds) and thrown away. The canonical wheel is written from the input meanwhile.
Cubins are ELF files of a machine that auditwheel does not know: that it passes over those of the
manifest is expected, over anything else is not.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from situ_release import __version__
from situ_release.atomic import check_new_file
from situ_release.bundle.manifest import MANIFEST_NAME
from situ_release.bundle.recipe import Recipe
from situ_release.errors import InputError, Problem, ToolError, raise_all
from situ_release.sources.content_kind import describe_content
from situ_release.sources.runner import Runner, read_runner
from situ_release.wheel.archive import MemberContent, archive_faults, examine_wheel, in_wheel
from situ_release.wheel.auditwheel import passed_over_problems, run_auditwheel
from situ_release.wheel.canonical import archive_epoch, write_canonical
from situ_release.wheel.output import WheelFile, place_wheel
from situ_release.wheel.policy import find_policy, library_problems, load_policies, version_problems
from situ_release.wheel.proof import ProvenWheel, prove_wheel
from situ_release.wheel.record import RECORD

_ELF_MAGIC = b"\x7fELF"
_WHEEL = "WHEEL"
_PYTHON_TAG = "py3-none"


def repair_wheel(
    wheel: Path,
    wheel_dir: Path,
    recipe: Recipe,
    *,
    plat: str | None = None,
    exclude: Sequence[str] | None = None,
) -> WheelFile:
    """Give a raw bundle wheel its platform tag, and write it in canonical form.

    The result depends on the wheel's content, the tag, SOURCE_DATE_EPOCH (else the manifest's
    ``generated_at``) and the version of zlib alone; ``wheel_dir`` gets it finished or not at all.
    Nothing is ever copied into the wheel: no ``*.libs`` folder, and no SBOM of copied libraries.

    Args:
        wheel: the raw wheel, which is only read.
        wheel_dir: where the repaired wheel goes; made if need be.
        recipe: its wheel policy: tag, excluded sonames, and sonames that may never be copied in.
        plat: a platform tag instead of the recipe's.
        exclude: soname patterns instead of the recipe's; ``never_graft`` applies all the same.

    Raises:
        UsageError: there is no such platform tag.
        InputError: the wheel contradicts itself, or its runner is no library for x86-64 Linux,
            needs newer symbols than the tag allows, or a library that nobody provides;
            ``wheel_dir`` cannot be written, or the raw wheel is what would be replaced there.
        HostError: patchelf is not installed.
        ToolError: auditwheel failed, could not check a file, or changed more than tag and RECORD.
    """
    policies = load_policies()
    policy = find_policy(plat or recipe.wheel.platform_tag, policies)
    chosen = recipe.wheel.exclude if exclude is None else exclude
    excluded = [*chosen, *recipe.wheel.never_graft]
    bundle = prove_wheel(wheel)
    where = f"{wheel}: {bundle.runner_member}"
    runner = _read_runner(bundle, where)
    raise_all(
        InputError,
        [
            *version_problems(runner.version_demands, policy, policies, where),
            *library_problems(runner.needed, policy, excluded, where),
        ],
    )
    manifest = f"{wheel}: {bundle.package}/{MANIFEST_NAME}"
    epoch = archive_epoch(bundle.manifest.generated_at, manifest)
    tag = f"{_PYTHON_TAG}-{policy.tag}"
    filename = f"{bundle.name.stem}-{tag}.whl"
    check_new_file(wheel_dir / filename, [wheel])
    with (
        tempfile.TemporaryDirectory(prefix="situ-release-repair-") as scratch,
        ThreadPoolExecutor(max_workers=1) as judge,
    ):
        judged, finished = Path(scratch, "judged"), Path(scratch, "finished")
        judged.mkdir()
        finished.mkdir()
        verdict = judge.submit(
            run_auditwheel,
            wheel.absolute(),
            judged,
            plat=policy.tag,
            excluded=excluded,
            epoch=epoch,
        )
        target = finished / filename
        _write(bundle, target, tag, epoch)
        repaired, passed_over = verdict.result()
        raise_all(ToolError, in_wheel(wheel, _objections(bundle, repaired, passed_over)))
        return place_wheel(target, wheel_dir, _notes(passed_over))


def _notes(passed_over: Sequence[str]) -> tuple[str, ...]:
    if not passed_over:
        return ()
    count = len(passed_over)
    return (f"auditwheel cannot read cubins and passed over {count}, all listed in the manifest",)


def _read_runner(bundle: ProvenWheel, where: str) -> Runner:
    """The runner, if Linux on x86-64 can load a file of its kind at all."""
    data = bundle.data(bundle.runner_member)
    if data.startswith(_ELF_MAGIC):
        runner = read_runner(data, where)
        if runner.is_x86_64_shared_object:
            return runner
    raise InputError.of(
        "the runner is not a library that the wheel's platform can load",
        where,
        expected="an ELF shared object for x86-64",
        found=describe_content(data),
        remedy="stage the payload again with the compiled runner as --module",
    )


def _write(bundle: ProvenWheel, target: Path, tag: str, epoch: int) -> None:
    """Write the canonical wheel, and prove that it is the input but for its tag."""
    headers = (
        f"Wheel-Version: 1.0\nGenerator: situ-release {__version__}\n"
        f"Root-Is-Purelib: false\nTag: {tag}\n"
    )
    write_canonical(
        bundle.archive,
        target,
        dist_info=bundle.dist_info,
        epoch=epoch,
        replaced={f"{bundle.dist_info}/{_WHEEL}": headers.encode()},
    )
    contents = prove_wheel(target).contents
    changes = _changes(bundle, contents, "the canonical rewrite")
    raise_all(ToolError, in_wheel(bundle.archive.path, changes))


def _objections(
    bundle: ProvenWheel, repaired: Path, passed_over: Sequence[str]
) -> Iterator[Problem]:
    """What auditwheel could not check, and what it found necessary to change."""
    cubins = [entry.filename for entry in bundle.manifest.cubins]
    yield from passed_over_problems(passed_over, cubins)
    archive = examine_wheel(repaired)
    contents = archive.scan(lambda name: False)
    faults = archive_faults(archive, contents)
    yield from faults or _changes(bundle, contents, "auditwheel")


def _changes(
    bundle: ProvenWheel, contents: Mapping[str, MemberContent], who: str
) -> Iterator[Problem]:
    """Everything but WHEEL and RECORD in which a later state of the wheel is not the first."""
    remedy = "keep the raw wheel and report this"
    for name, before in bundle.contents.items():
        after = contents.get(name)
        if after is None:
            yield Problem(f"{who} left out a file", name, "a member", "none", remedy)
        elif after.sha256 != before.sha256 and name not in (
            f"{bundle.dist_info}/{_WHEEL}",
            f"{bundle.dist_info}/{RECORD}",
        ):
            expected, found = f"SHA-256 {before.sha256}", f"SHA-256 {after.sha256}"
            yield Problem(f"{who} changed a file", name, expected, found, remedy)
    for name in contents:
        if name not in bundle.contents:
            expected = "the files of the raw wheel alone"
            yield Problem(f"{who} added a file", name, expected, "an extra", remedy)
