"""What the binaries say: toolchains, build paths, and the full list."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from situ_release.bundle.manifest import CubinEntry
from situ_release.report.model import Block, Column, Fact, Facts, Note, Row, Section, Source, Table
from situ_release.report.subject import Subject
from situ_release.sources.embedded_paths import mask_paths

_CUBINS = Source("binary", "cubins, note .note.nv.tkinfo")


def toolchains(subject: Subject) -> Section:
    """Which tool made how many cubins."""
    groups: Counter[tuple[str, str, str, str]] = Counter()
    sizes: Counter[tuple[str, str, str, str]] = Counter()
    unread = 0
    for bundled in subject.context.cubins:
        if bundled.cubin is None:
            unread += 1
            continue
        made = bundled.cubin.toolchain
        key = (
            made.producer if made else "",
            made.version if made else "",
            made.options if made else "",
            _folder(bundled.entry) or "",
        )
        groups[key] += 1
        sizes[key] += bundled.entry.size
    tools = len({key[0] for key in groups})
    lead = f"The cubins name {tools} tool{'' if tools == 1 else 's'} that made them."
    if unread:
        lead += f" {unread} cubins cannot be read."
    return Section(
        key="toolchains",
        title="Toolchains",
        lead=lead,
        source=Source("check", "cubin.toolchain"),
        blocks=(
            Table(
                key="toolchains",
                title="Which tool made the cubins",
                columns=(
                    Column("producer", "Tool", "code"),
                    Column("version", "Version"),
                    Column("options", "Options", "code"),
                    Column("arch", "Folder", "code"),
                    Column("count", "Cubins", "number"),
                    Column("bytes", "Bytes", "bytes"),
                ),
                rows=tuple(
                    Row(
                        {
                            "producer": key[0] or None,
                            "version": key[1] or None,
                            "options": key[2] or None,
                            "arch": key[3],
                            "count": count,
                            "bytes": sizes[key],
                        }
                    )
                    for key, count in sorted(groups.items(), key=lambda item: (-item[1], item[0]))
                ),
                source=_CUBINS,
            ),
        ),
    )


def build_paths(subject: Subject) -> Section:
    """Absolute paths of the build host, with what names people taken out."""
    found = list(_paths(subject))
    count = len(found)
    blocks: tuple[Block, ...] = ()
    lead = "No binary holds absolute paths of the machine that built it."
    if count:
        lead = (
            f"The binaries hold {count} absolute paths of the machine that built them; whoever "
            "gets the wheel can read them. User names are left out here."
        )
        blocks = (
            Table(
                key="build_paths",
                title="Paths inside",
                columns=(Column("path", "Path", "code"), Column("member", "In", "code")),
                rows=tuple(
                    Row({"path": path, "member": member}, source=Source("binary", member))
                    for path, member in found
                ),
                source=Source("check", "runner.leaks"),
            ),
        )
    return Section("paths", "Embedded build paths", lead, Source("check", "runner.leaks"), blocks)


def _paths(subject: Subject) -> Iterator[tuple[str, str]]:
    runner = subject.runner
    if runner is not None:
        for path in runner.masked_paths():
            yield path, subject.context.runner_member
    for bundled in subject.context.cubins:
        # Paths come into cubins with line tables alone.
        if bundled.cubin is not None and bundled.cubin.has_line_info:
            for path in mask_paths(bundled.cubin.embedded_paths):
                yield path, bundled.member


def platform(subject: Subject) -> Section:
    """What a host must have before the wheel can run."""
    manifest, runner = subject.manifest, subject.runner
    dependencies = manifest.runtime_dependencies
    member = subject.context.runner_member
    facts = [
        Fact("needs.tag", "Linux", subject.name.tag, Source("wheel", "file name"), "code"),
        Fact(
            "needs.python",
            "Python",
            dependencies.python,
            Source("manifest", "runtime_dependencies.python"),
            "code",
        ),
        Fact(
            "needs.tvm_ffi",
            "apache-tvm-ffi",
            dependencies.apache_tvm_ffi,
            Source("manifest", "runtime_dependencies.apache_tvm_ffi"),
            "code",
        ),
        Fact(
            "needs.driver",
            "NVIDIA driver",
            dependencies.cuda_driver_soname,
            Source("manifest", "runtime_dependencies.cuda_driver_soname"),
            "code",
        ),
        Fact(
            "needs.cuda",
            "CUDA runtime",
            dependencies.cuda_runtime_soname,
            Source("manifest", "runtime_dependencies.cuda_runtime_soname"),
            "code",
            note=f"CUDA {manifest.cuda_major}",
        ),
    ]
    blocks: list[Block] = []
    if runner is None:
        blocks.append(Note("The runner cannot be read.", Source("check", "runner.format"), "bad"))
    else:
        facts += [
            Fact(
                f"needs.{name.lower()}",
                f"{name} at least",
                runner.minimum_versions.get(name),
                Source("binary", member),
                "code",
            )
            for name in ("GLIBC", "GLIBCXX", "CXXABI")
        ]
        blocks.append(_needed(subject, member, runner.needed))
    devices = ", ".join(f"sm_{sm}" for sm in subject.recipe.target.sms)
    return Section(
        key="platform",
        title="What a host needs",
        lead=f"A GPU of {devices}, its driver, the CUDA {manifest.cuda_major} runtime, and a Linux "
        "as new as the tag says. Nothing of these is in the wheel.",
        source=Source("manifest", "runtime_dependencies, runner"),
        blocks=(Facts(tuple(facts)), *blocks),
    )


def _folder(entry: CubinEntry) -> str | None:
    """The folder a cubin lies in, which names what it is for."""
    folders = entry.path.split("/")[:-1]
    return folders[-1] if folders else None


def _needed(subject: Subject, member: str, needed: tuple[str, ...]) -> Table:
    dependencies = subject.manifest.runtime_dependencies
    brought = {
        dependencies.cuda_driver_soname: "the NVIDIA driver",
        dependencies.cuda_runtime_soname: "the CUDA runtime",
    }
    return Table(
        key="needed",
        title="Libraries that the runner asks for",
        columns=(Column("library", "Library", "code"), Column("from", "Brought by")),
        rows=tuple(
            Row({"library": soname, "from": brought.get(soname, "the platform")})
            for soname in needed
        ),
        source=Source("binary", member),
    )


def all_binaries(subject: Subject) -> Section:
    """Every binary with its digest, for searching."""
    manifest = subject.manifest
    family_of = {
        entry.path: name for name, entries in subject.families.items() for entry in entries
    }
    rows = [
        Row(
            {
                "path": manifest.runner.path,
                "sha256": manifest.runner.sha256,
                "bytes": manifest.runner.size,
                "role": "runner",
                "family": "",
                "arch": "x86-64",
                "registers": "",
            }
        )
    ]
    for bundled in subject.context.cubins:
        entry, cubin = bundled.entry, bundled.cubin
        registers = max(
            (kernel.registers or 0 for kernel in cubin.kernels) if cubin else (), default=0
        )
        rows.append(
            Row(
                {
                    "path": entry.path,
                    "sha256": entry.sha256,
                    "bytes": entry.size,
                    "role": entry.role,
                    "family": family_of.get(entry.path) or None,
                    "arch": _folder(entry),
                    "registers": registers or None,
                }
            )
        )
    checked = subject.passed("manifest.digests")
    return Section(
        key="binaries",
        title="Every binary",
        lead=f"{len(rows):,} files. "
        + (
            "Size and SHA-256 of each were compared with the file in the wheel."
            if checked
            else "Not all of them have the size and SHA-256 that the manifest states."
        ),
        source=Source("check", "manifest.digests"),
        blocks=(
            Table(
                key="binaries",
                title="Runner and cubins",
                columns=(
                    Column("path", "File", "code"),
                    Column("sha256", "SHA-256", "digest"),
                    Column("bytes", "Bytes", "bytes"),
                    Column("role", "Role"),
                    Column("family", "Family"),
                    Column("arch", "For"),
                    Column("registers", "Registers", "number"),
                ),
                rows=tuple(rows),
                source=Source("check", "manifest.digests"),
                searchable=True,
            ),
        ),
    )
