"""``situ-release stage-assets``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from situ_release.cli.command import Outcome, execute
from situ_release.cli.console import Console
from situ_release.errors import UsageError

if TYPE_CHECKING:
    from situ_release.bundle.recipe import LoadedRecipe

DEFAULT_RECIPE = "kimi-k3-situ"


def stage_assets(
    snapshot_root: Annotated[
        Optional[Path],
        typer.Option(readable=False, help="Source snapshot: git checkout, folder or wheel."),
    ] = None,
    pool_root: Annotated[
        Optional[Path],
        typer.Option(readable=False, help="Cubin pool: a folder, or a wheel or zip with one."),
    ] = None,
    module: Annotated[
        Optional[Path], typer.Option(readable=False, help="The compiled runner (.so).")
    ] = None,
    recipe: Annotated[
        str, typer.Option(help="A shipped recipe's name, or the path of a .toml file.")
    ] = DEFAULT_RECIPE,
    out: Annotated[
        Optional[Path],
        typer.Option(readable=False, help="Payload project to write. [default: build/<recipe>]"),
    ] = None,
    package_version: Annotated[
        Optional[str], typer.Option(help="The wheel's version instead of the recipe's (PEP 440).")
    ] = None,
    locked: Annotated[
        bool, typer.Option("--locked", help="Refuse binaries other than the reviewed ones.")
    ] = False,
    write_lock: Annotated[
        Optional[Path],
        typer.Option(readable=False, help="Write the staged digests as a new lock file."),
    ] = None,
    check_pool: Annotated[
        bool, typer.Option("--check-pool", help="Also hash the pool's files that are not selected.")
    ] = False,
    evidence: Annotated[
        Optional[Path],
        typer.Option(
            readable=False,
            help="Evidence of a run of these binaries: they count as validated on a GPU.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check everything, write nothing.")
    ] = False,
    explain: Annotated[
        Optional[str],
        typer.Option(metavar="KERNEL", help="Say which rule takes or refuses a kernel."),
    ] = None,
) -> None:
    """Select the recipe's kernels, prove that the sources agree, write the payload project."""

    def work(console: Console) -> Outcome:
        from situ_release.bundle.recipe import load_recipe

        loaded = load_recipe(recipe)
        if explain is not None:
            return _explain(loaded, explain, pool_root)
        given = {"--snapshot-root": snapshot_root, "--pool-root": pool_root, "--module": module}
        missing = [name for name, value in given.items() if value is None]
        if missing or snapshot_root is None or pool_root is None or module is None:
            raise UsageError.of(
                "stage-assets needs its three sources",
                "situ-release stage-assets",
                expected="--snapshot-root, --pool-root and --module",
                found=f"no {', '.join(missing)}",
                remedy="name them; `recover` makes all three from a published wheel",
            )
        target = out or Path("build") / loaded.recipe.name
        return _stage(
            loaded,
            (snapshot_root, pool_root, module),
            target,
            package_version,
            locked=locked,
            check_pool=check_pool,
            dry_run=dry_run,
            evidence=evidence,
            write_lock=write_lock,
        )

    execute("stage-assets", work)


def _stage(
    loaded: LoadedRecipe,
    sources: tuple[Path, Path, Path],
    out: Path,
    version: str | None,
    *,
    locked: bool,
    check_pool: bool,
    dry_run: bool,
    evidence: Path | None,
    write_lock: Path | None,
) -> Outcome:
    from situ_release.bundle.lock import lock_path
    from situ_release.bundle.recipe import checked_version
    from situ_release.bundle.staging import stage
    from situ_release.cli.output.common import FileDigest, NamedDigest
    from situ_release.cli.output.stage_assets import FamilyOutput, LockOutput, StageOutput

    staged = stage(
        loaded,
        *sources,
        out,
        version=checked_version(version) if version is not None else None,
        locked=locked,
        check_pool=check_pool,
        dry_run=dry_run,
        evidence=evidence,
        write_lock=write_lock,
    )
    manifest = staged.manifest

    def show(console: Console) -> None:
        console.line(
            f"{'would stage' if dry_run else 'staged'} {loaded.recipe.package.distribution} "
            f"{manifest.package_version} {'(dry run, nothing written)' if dry_run else f'in {out}'}"
        )
        console.table(
            ["family", "role", "expected", "selected", "bytes"],
            [[f.name, f.role, f.expected, f.selected, f.bytes] for f in staged.families],
        )
        console.line(f"{len(manifest.cubins)} cubins, manifest SHA-256 {staged.manifest_sha256}")
        if staged.lock is not None and not staged.differences:
            console.line(f"all binaries are the reviewed ones of {lock_path(loaded.path).name}")
        if write_lock is not None:
            console.line(f"{'would write' if dry_run else 'wrote'} the lock {write_lock}")
        for warning in staged.warnings:
            console.marked("warn", "warning: ", warning)

    origin = manifest.recovered_from
    return Outcome(
        StageOutput(
            recipe=NamedDigest(loaded.recipe.name, loaded.sha256),
            payload=str(out),
            dry_run=dry_run,
            package_version=manifest.package_version,
            generated_at=manifest.generated_at,
            gpu_validated=manifest.gpu_validated,
            manifest=FileDigest(str(staged.manifest_path), staged.manifest_sha256),
            families=[
                FamilyOutput(f.name, f.role, f.expected, f.selected, f.bytes)
                for f in staged.families
            ],
            cubin_count=len(manifest.cubins),
            recovered_from=NamedDigest(origin.wheel, origin.sha256) if origin else None,
            lock=LockOutput(
                path=str(lock_path(loaded.path).name),
                matches=None if staged.lock is None else not staged.differences,
                differences=[str(difference) for difference in staged.differences],
            ),
            warnings=list(staged.warnings),
        ),
        show,
    )


def _explain(loaded: LoadedRecipe, kernel: str, pool_root: Path | None) -> Outcome:
    from situ_release.bundle.selection import explain
    from situ_release.cli.output.common import NamedDigest
    from situ_release.cli.output.stage_assets import ExplainOutput, VerdictOutput
    from situ_release.sources.kernel_name import (
        FILE_PREFIX,
        FILE_SUFFIX,
        cubin_filename,
        kernel_of_filename,
    )
    from situ_release.sources.pool import open_pool

    # The file's name, with or without its suffix, names the kernel too.
    is_file = kernel.startswith(FILE_PREFIX) or kernel.endswith(FILE_SUFFIX)
    name = kernel_of_filename(kernel.removesuffix(FILE_SUFFIX) + FILE_SUFFIX) if is_file else kernel
    verdicts = explain(name, loaded.recipe)
    in_table = None
    if pool_root is not None:
        in_table = open_pool(pool_root).header.find(name) is not None

    def show(console: Console) -> None:
        console.line(name)
        if in_table is not None:
            console.line(f"  {'in' if in_table else 'NOT in'} the metadata table of {pool_root}")
        for verdict in verdicts:
            mark = "taken by " if verdict.taken else "refused by "
            console.marked("pass" if verdict.taken else "dim", f"  {mark}", verdict.family)
            for refusal in verdict.refusals:
                console.line(f"      {refusal}")

    return Outcome(
        ExplainOutput(
            recipe=NamedDigest(loaded.recipe.name, loaded.sha256),
            kernel=name,
            filename=cubin_filename(name),
            in_table=in_table,
            families=[VerdictOutput(v.family, v.taken, list(v.refusals)) for v in verdicts],
        ),
        show,
    )
