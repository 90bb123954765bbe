"""``recover``: a published wheel turned back into what a payload is staged from.

A wheel holds its cubins, its runner and a few texts; the runner's own table tells name and SHA-256
of every kernel it was compiled with. From these come a snapshot, a pool and a module. What a wheel
cannot tell is left out, and both folders are marked: nothing recovered may pass for an original.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from situ_release.atomic import check_apart, check_replaceable, new_directory
from situ_release.bundle.licenses import EXTRA_FOLDER
from situ_release.bundle.manifest import CubinEntry, Manifest
from situ_release.bundle.recipe import Recipe, find_recipe
from situ_release.digests import sha256_bytes, sha256_file
from situ_release.errors import InputError, Problem, raise_all
from situ_release.sources import checksums, metadata_header
from situ_release.sources.checksums import write_checksums
from situ_release.sources.kernel_name import kernel_of_filename
from situ_release.sources.kernel_table import KernelTable, read_kernel_table
from situ_release.sources.marker import RecoveredClaims, RecoveredMarker, write_marker
from situ_release.sources.metadata_header import MetadataEntry, write_header
from situ_release.sources.pool import INCLUDE
from situ_release.sources.snapshot import VERSION_FILE
from situ_release.text import printable
from situ_release.wheel.proof import ProvenWheel, prove_wheel

SNAPSHOT = "snapshot"
POOL = "pool"

_MADE_BY = "recover"
_HEADER = f"{INCLUDE}/{metadata_header.FILENAMES[0]}"
_LICENSES = "licenses/"
_SM_SUFFIX = re.compile(r".*_(sm[0-9]{2,3}[af]?)")
_MODULE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_REMEDY = "fetch the wheel again from where it was published"


@dataclass(frozen=True, slots=True)
class Recovered:
    """What was written.

    Attributes:
        snapshot: the snapshot's folder.
        pool: the pool's folder.
        module: the runner, under its module name.
        wheel_sha256: digest of the wheel.
        module_sha256: digest of the runner.
        cubin_count: cubins in the pool.
        metadata_entries: entries of the rebuilt metadata header.
        not_recovered: what the wheel does not tell, in words.
    """

    snapshot: Path
    pool: Path
    module: Path
    wheel_sha256: str
    module_sha256: str
    cubin_count: int
    metadata_entries: int
    not_recovered: tuple[str, ...]


def recover_wheel(wheel: Path, out: Path) -> Recovered:
    """Write ``out/snapshot``, ``out/pool`` and ``out/<module name>.so`` from a bundle wheel.

    Args:
        wheel: a bundle wheel, published or ours.
        out: replaced as a whole if situ-release made it, else it must be new or empty.

    Raises:
        InputError: the wheel contradicts itself, a cubin is not the one that the runner was
            compiled with, ``out`` may not be replaced, or it holds the wheel.
    """
    check_apart(out, [wheel])
    check_replaceable(out)
    _check_name(wheel)
    bundle = prove_wheel(wheel, keep_all=True)
    manifest = bundle.manifest
    runner = bundle.data(bundle.runner_member)
    table = read_kernel_table(runner, f"{wheel}: {bundle.runner_member}")
    raise_all(InputError, _disagreements(bundle, table))
    named = manifest.recipe.name if manifest.recipe else None
    recipe = find_recipe(bundle.name.distribution, named, str(wheel)).recipe
    marked = _marker(wheel, manifest)
    snapshot = _snapshot_files(bundle, recipe)
    pool = _pool_files(bundle, table)
    module = f"{manifest.runner.source_module_name}.so"
    with new_directory(out, _MADE_BY) as fresh:
        for folder, files in ((SNAPSHOT, snapshot), (POOL, pool)):
            _write(fresh / folder, files)
            write_marker(fresh / folder, marked)
        _write(fresh, {module: runner})
    return Recovered(
        snapshot=out / SNAPSHOT,
        pool=out / POOL,
        module=out / module,
        wheel_sha256=marked.wheel_sha256,
        module_sha256=sha256_bytes(runner),
        cubin_count=len(manifest.cubins),
        metadata_entries=table.count,
        not_recovered=tuple(_not_recovered(manifest, table, snapshot)),
    )


def _check_name(wheel: Path) -> None:
    """Whether a marker can hold the wheel's name."""
    if printable(wheel.name) != wheel.name:
        raise InputError.of(
            "the wheel's file name is not plain text",
            printable(str(wheel)),
            expected="the name that it was released under",
            found=printable(wheel.name),
            remedy="rename the file",
        )


def _disagreements(bundle: ProvenWheel, table: KernelTable) -> Iterator[Problem]:
    """What of the manifest the runner's own table denies, and names that cannot be files."""
    where = str(bundle.archive.path)
    if not table.count:
        yield Problem(
            "the runner has no kernel table",
            f"{where}: {bundle.runner_member}",
            expected="kernel names, each with its SHA-256",
            found="none",
            remedy=_REMEDY,
        )
        return
    for name, _ in table.pairs:
        if _SM_SUFFIX.fullmatch(name) is None:
            expected = "a name that ends in its architecture, like _sm100f"
            yield Problem("unknown kernel name", where, expected, name, _REMEDY)
    names: set[str] = set()
    for entry in bundle.manifest.cubins:
        member = f"{where}: {bundle.package}/{entry.path}"
        compiled = table.digest_of(_kernel(entry, member))
        if compiled != entry.sha256:
            expected = f"SHA-256 {compiled}" if compiled else "a kernel of the runner's table"
            what = "the cubin is not the one that the runner was compiled with"
            yield Problem(what, member, expected, entry.sha256, _REMEDY)
        if entry.filename in names or entry.path.rpartition("/")[2] != entry.filename:
            what = "file names of cubins are not unique, or not those of their paths"
            yield Problem(what, member, "one path for each name", entry.filename, _REMEDY)
        names.add(entry.filename)
    module = bundle.manifest.runner.source_module_name
    if _MODULE_NAME.fullmatch(module) is None:
        expected = "letters, digits, dots, dashes and underscores"
        yield Problem("the module's name cannot be a file name", where, expected, module, _REMEDY)


def _kernel(entry: CubinEntry, where: str) -> str:
    try:
        return kernel_of_filename(entry.filename)
    except InputError:
        return entry.filename


def _snapshot_files(bundle: ProvenWheel, recipe: Recipe) -> dict[str, bytes]:
    """Version and licence texts under the names they have in a source tree."""
    files = {}
    version = bundle.manifest.source_provenance.get("flashinfer_version")
    if isinstance(version, str):
        files[VERSION_FILE] = f"{version}\n".encode()
    sources = {text.path: text.source[0] for text in recipe.licenses}
    for member in bundle.contents:
        path = member.removeprefix(f"{bundle.package}/")
        if path == member or not path.startswith(_LICENSES):
            continue
        inner = path.removeprefix(f"{EXTRA_FOLDER}/").removeprefix(_LICENSES)
        files[sources.get(path, f"{_LICENSES}{inner}")] = bundle.data(member)
    return files


def _pool_files(bundle: ProvenWheel, table: KernelTable) -> dict[str, bytes]:
    """Cubins, the metadata header with every entry of the runner's table, and checksums."""
    files = {
        entry.filename: bundle.data(f"{bundle.package}/{entry.path}")
        for entry in bundle.manifest.cubins
    }
    entries = [
        MetadataEntry(name=name, sha256=digest, sm=name.rpartition("_")[2])
        for name, digest in table.pairs
    ]
    files[_HEADER] = write_header(entries, comment=_header_comment(bundle))
    digests = {name: sha256_bytes(data) for name, data in files.items()}
    files[checksums.FILENAME] = write_checksums(digests)
    return files


def _header_comment(bundle: ProvenWheel) -> str:
    return (
        f"Rebuilt by situ-release from the runner's own table in {bundle.archive.path.name}.\n"
        "An entry holds what that table tells: name, SHA-256 and SM version. Options, threads and\n"
        "shared memory are not known, so this is not the header that the runner was compiled from\n"
        "and cannot replace it."
    )


def _marker(wheel: Path, manifest: Manifest) -> RecoveredMarker:
    stated = manifest.source_provenance
    try:
        claims = RecoveredClaims.model_validate(
            {
                "metadata_sha256": manifest.runner.source_metadata_sha256,
                "config_sha256": _ending(stated, "pool_config_sha256"),
                "pool_name": _ending(stated, "pool_name"),
                "pool_cubin_count": stated.get("source_pool_cubin_count"),
                "branches": {key: v for key, v in stated.items() if key.endswith("_branch") and v},
                "flashinfer_version": stated.get("flashinfer_version"),
                "source_module_name": manifest.runner.source_module_name,
                "build_mode": manifest.runner.build_mode,
                "generated_at": manifest.generated_at,
                "package_version": manifest.package_version,
            }
        )
    except ValidationError as error:
        problems = [
            Problem(
                "the manifest's provenance is not usable",
                f"{wheel}: {'.'.join(map(str, fault['loc']))}",
                expected=fault["msg"],
                found=repr(fault["input"])[:80],
                remedy=_REMEDY,
            )
            for fault in error.errors(include_url=False)
        ]
        raise InputError(*problems) from error
    return RecoveredMarker(wheel=wheel.name, wheel_sha256=sha256_file(wheel), claims=claims)


def _ending(stated: Mapping[str, str | int | None], suffix: str) -> str | int | None:
    """The value whose key ends so: a recipe may put a prefix before the pool's keys."""
    return next((value for key, value in stated.items() if key.endswith(suffix)), None)


def _not_recovered(
    manifest: Manifest, table: KernelTable, snapshot: Mapping[str, bytes]
) -> Iterator[str]:
    missing = table.count - len(manifest.cubins)
    yield "the snapshot's sources, commit and branch"
    if VERSION_FILE not in snapshot:
        yield "the snapshot's version"
    if not any(name.startswith(_LICENSES) for name in snapshot):
        yield "the snapshot's licenses folder"
    if missing:
        yield f"{missing:,} of the pool's cubins, which the wheel does not hold"
    yield f"options, threads and shared memory of the header's {table.count:,} kernels"
    yield "the pool's config.json and its headers below include/trtllmGen_bmm_export"


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    for path in {(folder / name).parent for name in files}:
        path.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
