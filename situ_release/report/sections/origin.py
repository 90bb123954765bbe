"""Where every binary comes from."""

from __future__ import annotations

from collections.abc import Iterator

from situ_release.bundle.families import total_bytes
from situ_release.report.model import (
    Block,
    Column,
    Fact,
    Facts,
    Note,
    Row,
    Section,
    Source,
    Table,
    Value,
)
from situ_release.report.subject import Subject


def origin(subject: Subject) -> Section:
    """Snapshot, pool, module, and what ties runner and cubins together."""
    return Section(
        key="origin",
        title="Where every binary comes from",
        lead="The cubins come out of a pool, the runner was compiled from a source snapshot and "
        "from the pool's metadata. By whom is not recorded.",
        source=Source("manifest", "snapshot, pool, source_provenance"),
        blocks=tuple(_blocks(subject)),
    )


def _blocks(subject: Subject) -> Iterator[Block]:
    manifest = subject.manifest
    if manifest.recovered_from is not None:
        yield Note(
            "Pool and snapshot were recovered from the published wheel "
            f"{manifest.recovered_from.wheel}; nothing here was built from original sources.",
            Source("manifest", "recovered_from"),
            "warn",
        )
    yield _families(subject)
    yield _agreement(subject)
    yield Facts(tuple(_snapshot(subject)), "Source snapshot")
    yield Facts(tuple(_pool(subject)), "Cubin pool")
    yield Facts(tuple(_runner(subject)), "Runner")


def _families(subject: Subject) -> Table:
    families = {family.name: family for family in subject.recipe.families}
    rows = []
    for name, entries in subject.families.items():
        family = families.get(name)
        rows.append(
            Row(
                {
                    "family": name or "no family",
                    "role": family.role if family else None,
                    "precision": family.precision if family else None,
                    "arch": family.arch if family else None,
                    "count": len(entries),
                    "bytes": total_bytes(entries),
                }
            )
        )
    runner = subject.manifest.runner
    rows.append(
        Row(
            {
                "family": "runner",
                "role": "host library",
                "precision": "",
                "arch": "x86-64",
                "count": 1,
                "bytes": runner.size,
            }
        )
    )
    return Table(
        key="families",
        title="The binaries by family",
        columns=(
            Column("family", "Family", "code"),
            Column("role", "Role"),
            Column("precision", "Precision"),
            Column("arch", "For", "code"),
            Column("count", "Files", "number"),
            Column("bytes", "Bytes", "bytes"),
        ),
        rows=tuple(rows),
        source=Source("manifest", "cubins, runner"),
    )


def _agreement(subject: Subject) -> Note:
    check = subject.check("runner.table")
    count = len(subject.manifest.cubins)
    source = Source("check", "runner.table")
    if check is not None and check.status == "pass":
        text = (
            f"All {count:,} cubins have the SHA-256 that is compiled into the runner, so neither "
            "can have been exchanged without the other."
        )
        return Note(text, source, "good")
    text = "The cubins are not shown to be those that the runner was compiled with."
    return Note(text, source, "bad")


def _snapshot(subject: Subject) -> Iterator[Fact]:
    snapshot = subject.manifest.snapshot
    stated = subject.manifest.source_provenance
    fields: dict[str, tuple[str, Value]] = {
        "version": ("Version", snapshot.version if snapshot else stated.get("flashinfer_version")),
        "commit": ("Commit", snapshot.commit if snapshot else None),
        "tree": ("Tree", snapshot.tree if snapshot else None),
        "branch": ("Branch", snapshot.branch if snapshot else None),
        "kind": ("Read from", snapshot.kind if snapshot else None),
    }
    for key, (label, value) in fields.items():
        ref = f"snapshot.{key}"
        if snapshot is None and value is not None:
            ref = "source_provenance.flashinfer_version"
        form = "digest" if key in ("commit", "tree") else "text"
        yield Fact(f"snapshot.{key}", label, value, Source("manifest", ref), form)  # type: ignore[arg-type]
    if snapshot is not None and snapshot.dirty is not None:
        yield Fact(
            "snapshot.clean",
            "Without uncommitted changes",
            "no" if snapshot.dirty else "yes",
            Source("manifest", "snapshot.dirty"),
            "status",
        )
    for key, value in sorted(stated.items()):
        if key.endswith("_branch"):
            label = f"{key.removesuffix('_branch')} branch, as declared"
            source = Source("manifest", f"source_provenance.{key}")
            yield Fact(f"declared.{key}", label, value, source, "code")


def _pool(subject: Subject) -> Iterator[Fact]:
    """The original pool as the manifest states it; a recovered one is no pool of its own."""
    labels = {
        "pool_name": ("Name", "code"),
        "pool_metadata_sha256": ("Metadata header, SHA-256", "digest"),
        "pool_config_sha256": ("Configuration, SHA-256", "digest"),
        "source_pool_cubin_count": ("Kernels in the pool", "number"),
    }
    stated = subject.manifest.source_provenance
    for ending, (label, form) in labels.items():
        key = next((key for key in sorted(stated) if key.endswith(ending)), None)
        value = stated[key] if key else None
        source = Source("manifest", f"source_provenance.{key or ending}")
        yield Fact(f"pool.{ending}", label, value, source, form)  # type: ignore[arg-type]


def _runner(subject: Subject) -> Iterator[Fact]:
    entry, runner = subject.manifest.runner, subject.runner
    member = subject.context.runner_member
    binary = Source("binary", member)
    yield Fact("runner.path", "File", entry.path, Source("manifest", "runner.path"), "code")
    yield Fact("runner.sha256", "SHA-256", entry.sha256, _checked("manifest.digests"), "digest")
    yield Fact(
        "runner.module",
        "Module",
        entry.source_module_name,
        Source("manifest", "runner.source_module_name"),
        "code",
    )
    yield Fact(
        "runner.metadata",
        "Compiled from the metadata header",
        entry.source_metadata_sha256,
        Source("manifest", "runner.source_metadata_sha256"),
        "digest",
    )
    yield Fact(
        "runner.build_mode", "Build mode", entry.build_mode, Source("manifest", "runner.build_mode")
    )
    if runner is None:
        yield Fact("runner.readable", "Read", None, Source("check", "runner.format"))
        return
    yield Fact("runner.build_id", "GNU build id", runner.build_id, binary, "digest")
    compilers = ", ".join(runner.compilers) or None
    yield Fact("runner.compiler", "Compiler", compilers, binary, note="as its .comment says")
    yield Fact(
        "runner.kernel_table",
        "Kernels it can ask for",
        runner.kernel_table.count,
        binary,
        "number",
    )
    counted: dict[str, int] = {}
    for module in runner.device_modules:
        counted[module.target] = counted.get(module.target, 0) + 1
    shown = ", ".join(f"{n} × {target}" for target, n in sorted(counted.items()))
    yield Fact("runner.device_code", "Device code inside", shown or "none", binary)


def _checked(check_id: str) -> Source:
    return Source("check", check_id)
