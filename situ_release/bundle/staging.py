"""Staging: snapshot, pool and module become a payload project with its manifest, or nothing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from situ_release.atomic import (
    check_apart,
    check_new_file,
    check_replaceable,
    check_writable,
    new_directory,
)
from situ_release.bundle.agreement import AgreedCubin, agree
from situ_release.bundle.binaries import binaries_sha256, device_code
from situ_release.bundle.describe import cubin_path, describe, runner_path
from situ_release.bundle.evidence import load_evidence
from situ_release.bundle.licenses import license_files
from situ_release.bundle.lock import (
    Lock,
    LockDifference,
    compare,
    load_lock,
    lock_path,
    write_lock_file,
)
from situ_release.bundle.manifest import MANIFEST_NAME, Manifest
from situ_release.bundle.module import check_module, read_module
from situ_release.bundle.provenance import trace
from situ_release.bundle.recipe import LoadedRecipe, Recipe
from situ_release.bundle.sbom import sbom
from situ_release.bundle.selection import Selection, select
from situ_release.bundle.template import render_template, template_values
from situ_release.bundle.validation import binaries_gaps
from situ_release.digests import sha256_bytes
from situ_release.errors import InputError, Problem, raise_all
from situ_release.resources import payload_templates
from situ_release.sources.kernel_options import check_options
from situ_release.sources.pool import Pool, open_pool
from situ_release.sources.runner import Runner
from situ_release.sources.snapshot import Snapshot, open_snapshot

MADE_BY = "stage-assets"


@dataclass(frozen=True, slots=True)
class FamilyCount:
    """One family: how many cubins the recipe expects, how many there are, and their bytes."""

    name: str
    role: str
    expected: int
    selected: int
    bytes: int


@dataclass(frozen=True, slots=True)
class StagedPayload:
    """What staging made, or would make in a dry run.

    Attributes:
        payload: the payload project's folder.
        manifest_path: where the manifest lies in it.
        manifest: the bundle's manifest.
        manifest_sha256: digest of ``manifest.json``.
        families: one per family of the recipe.
        lock: the reviewed digests, None where the recipe has no lock.
        differences: binaries that are not the reviewed ones.
        warnings: what a maintainer should know, in plain sentences.
    """

    payload: Path
    manifest_path: Path
    manifest: Manifest
    manifest_sha256: str
    families: tuple[FamilyCount, ...]
    lock: Lock | None
    differences: tuple[LockDifference, ...]
    warnings: tuple[str, ...]


def stage(
    loaded: LoadedRecipe,
    snapshot_root: Path,
    pool_root: Path,
    module_path: Path,
    out: Path,
    *,
    version: str | None = None,
    locked: bool = False,
    check_pool: bool = False,
    dry_run: bool = False,
    evidence: Path | None = None,
    write_lock: Path | None = None,
) -> StagedPayload:
    """Read the sources, prove that they agree, and write the payload project in one move.

    Args:
        loaded: the recipe.
        snapshot_root: source snapshot: git checkout, plain files, wheel layout or recovered.
        pool_root: cubin pool: a folder, or a wheel or zip that holds one.
        module_path: the compiled runner.
        out: the payload project's folder.
        version: the wheel's version instead of the recipe's, PEP 440.
        locked: refuse binaries that are not the reviewed ones.
        check_pool: also hash the pool's files that are not selected.
        dry_run: do everything but write.
        evidence: of a run of these binaries on a GPU, which makes them count as validated.
        write_lock: also write the staged digests there, as a new lock; without it no payload
            appears either.

    Raises:
        InputError: a source is missing, malformed, or contradicts another; the evidence does not
            show that these binaries passed; an output is not apart from the sources.
        UsageError: nothing says when the bundle was made.
    """
    recipe = loaded.recipe
    sources = [snapshot_root, pool_root, module_path, loaded.path, evidence]
    check_apart(out, sources)
    check_replaceable(out)
    check_writable(out)
    if write_lock is not None:
        check_new_file(write_lock, [*sources, out])
    snapshot = open_snapshot(snapshot_root)
    pool = open_pool(pool_root)
    pool.verify_includes()
    if check_pool:
        pool.verify_all()
    module, runner = read_module(module_path)

    selection = select((entry.name for entry in pool.header.entries), recipe, pool.header.where)
    _check_options(selection, pool)
    provenance = trace(recipe, snapshot, pool)
    claimed = provenance.marker.claims.source_module_name if provenance.marker else None
    check_module(runner, module_path, recipe, provenance.metadata_sha256, claimed)
    cubins = agree(selection, pool, runner.kernel_table)

    lock = load_lock(loaded.path)
    differences = _lock_differences(lock, recipe, module, cubins)
    if locked:
        _refuse_unreviewed(loaded, lock, differences)

    manifest = describe(
        loaded,
        version or recipe.package.version,
        cubins,
        module,
        module_path.stem,
        runner,
        snapshot,
        pool,
        provenance,
    )
    carried = False
    if evidence is not None:
        carried = _check_evidence(evidence, recipe, manifest, runner, cubins)
        manifest = manifest.model_copy(update={"gpu_validated": True})
    text = manifest.canonical().encode()
    licenses = license_files(recipe, snapshot)
    if not dry_run:
        with new_directory(out, MADE_BY) as fresh:
            values = template_values(recipe, manifest.package_version)
            render_template(payload_templates() / recipe.template, fresh, values)
            package = fresh / recipe.package.import_name
            _write(package / runner_path(recipe.runner.file), module)
            for cubin in cubins:
                arch, name = cubin.selected.family.arch, cubin.selected.filename
                _write(package / cubin_path(arch, name), cubin.data)
            for path, content in licenses.items():
                _write(package / path, content)
            _write(package / MANIFEST_NAME, text)
            _write(fresh / recipe.sbom_name, sbom(manifest, text, recipe))
            if write_lock is not None:
                write_lock_file(write_lock, manifest, recipe.name)
    return StagedPayload(
        payload=out,
        manifest_path=out / recipe.package.import_name / MANIFEST_NAME,
        manifest=manifest,
        manifest_sha256=sha256_bytes(text),
        families=_family_counts(recipe, cubins),
        lock=lock,
        differences=differences,
        warnings=tuple(
            _warnings(recipe, selection, snapshot, manifest, lock, differences, carried=carried)
        ),
    )


def _check_options(selection: Selection, pool: Pool) -> None:
    """Where the header tells a selected kernel's options, they agree with its name."""
    problems: list[Problem] = []
    for kernel in selection.kernels:
        entry = pool.header.by_name[kernel.name]
        problems.extend(check_options(entry, kernel.fields, pool.header.place(entry)))
    raise_all(InputError, problems)


def _check_evidence(
    path: Path,
    recipe: Recipe,
    manifest: Manifest,
    runner: Runner,
    cubins: tuple[AgreedCubin, ...],
) -> bool:
    """Whether the evidence is of other files with the same device code, not of these very ones."""
    found = load_evidence(path)
    digests = {
        entry.path: agreed.cubin.device_code_sha256
        for entry, agreed in zip(manifest.cubins, cubins, strict=True)
    }
    binaries, code = binaries_sha256(manifest), device_code(digests, runner.device_modules)
    raise_all(InputError, binaries_gaps(found, recipe, binaries, code))
    return found.wheel.binaries_sha256 != binaries


def _lock_differences(
    lock: Lock | None, recipe: Recipe, module: bytes, cubins: tuple[AgreedCubin, ...]
) -> tuple[LockDifference, ...]:
    if lock is None:
        return ()
    digests = {cubin.selected.filename: cubin.sha256 for cubin in cubins}
    return compare(lock, recipe.runner.file, sha256_bytes(module), digests)


def _refuse_unreviewed(
    loaded: LoadedRecipe, lock: Lock | None, differences: tuple[LockDifference, ...]
) -> None:
    path = lock_path(loaded.path)
    if lock is None:
        raise InputError.of(
            "--locked needs a lock",
            path,
            expected="a lock file beside the recipe",
            found="none",
            remedy="review the binaries, then write one with --write-lock",
        )
    raise_all(
        InputError,
        (
            Problem(
                "a binary is not the reviewed one",
                difference.file,
                expected=f"SHA-256 {difference.reviewed}" if difference.reviewed else "not there",
                found=f"SHA-256 {difference.staged}" if difference.staged else "not there",
                remedy=f"stage the reviewed binaries, or review these and renew {path.name}",
            )
            for difference in differences
        ),
    )


def _family_counts(recipe: Recipe, cubins: tuple[AgreedCubin, ...]) -> tuple[FamilyCount, ...]:
    counts = []
    for family in recipe.families:
        sizes = [len(c.data) for c in cubins if c.selected.family.name == family.name]
        counts.append(FamilyCount(family.name, family.role, family.count, len(sizes), sum(sizes)))
    return tuple(counts)


def _warnings(
    recipe: Recipe,
    selection: Selection,
    snapshot: Snapshot,
    manifest: Manifest,
    lock: Lock | None,
    differences: tuple[LockDifference, ...],
    *,
    carried: bool,
) -> list[str]:
    warnings = [f"not selected: {problem}" for problem in selection.unknown_names]
    if manifest.recovered_from is not None:
        warnings.append(
            f"pool and snapshot are recovered from {manifest.recovered_from.wheel}, not originals"
        )
    elif snapshot.commit is None:
        warnings.append("the snapshot is no git checkout: its commit is not recorded")
    if snapshot.dirty:
        warnings.append(
            "the snapshot has uncommitted changes: its commit does not tell its content"
        )
    declared = recipe.provenance.declared.get("flashinfer_branch")
    if snapshot.branch is not None and declared is not None and snapshot.branch != declared:
        warnings.append(
            f"the snapshot is on branch {snapshot.branch}, the recipe declares {declared}"
        )
    if carried:
        warnings.append(
            "the evidence is of other files with the same device code: the runner's host code that "
            "is staged here did not run"
        )
    if manifest.gpu_validated:
        warnings.append("gpu_validated is set: see that no limitation of the recipe denies it")
    if lock is None:
        warnings.append("the recipe has no lock: nobody has reviewed these binaries")
    elif differences:
        warnings.append(
            f"{len(differences)} binaries are not the reviewed ones: "
            + "; ".join(str(difference) for difference in differences[:3])
            + ("; …" if differences[3:] else "")
        )
    return warnings


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
