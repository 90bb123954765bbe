"""Coverage: what the runner can select on the target, and what is bundled for nothing."""

from __future__ import annotations

from situ_release.bundle.coverage import DeviceCoverage
from situ_release.bundle.families import NO_FAMILY, total_bytes
from situ_release.report.model import Bar, Bars, Block, Column, Note, Row, Section, Source, Table
from situ_release.report.subject import Subject
from situ_release.sources.kernel_name import kernel_of_filename
from situ_release.text import size_text


def coverage(subject: Subject) -> Section:
    """Selectable, missing and unreachable kernels on every target, and bytes by family."""
    devices = subject.coverage
    if devices is None:
        reason = Note("Coverage could not be computed.", Source("check", "runner.format"), "bad")
        return Section(
            "coverage",
            "Coverage",
            "Which kernels the runner can select is not known.",
            Source("check", "coverage.closed"),
            (reason, _picture(subject, frozenset())),
        )
    unreachable = frozenset.intersection(*(frozenset(device.unreachable) for device in devices))
    missing = {name for device in devices for name in device.missing}
    sizes = {kernel_of_filename(e.filename): e.size for e in subject.manifest.cubins}
    unused = sum(sizes[name] for name in unreachable)
    names = " and ".join(f"sm_{device.sm}" for device in devices)
    lead = (
        f"Every kernel that the runner can select on {names} is bundled."
        if not missing
        else f"{len(missing)} kernels that the runner can select on {names} are NOT bundled."
    )
    blocks: list[Block] = [_contracts(device) for device in devices]
    blocks.append(_picture(subject, unreachable))
    if unreachable:
        blocks.append(
            Note(
                f"{len(unreachable)} of {len(sizes)} cubins ({size_text(unused)}) can never be "
                "selected there: weight without use, but no fault.",
                Source("coverage", "unreachable"),
            )
        )
        blocks.append(
            _names("unreachable", "Cubins that can never be selected", unreachable, sizes)
        )
    if missing:
        blocks.append(_names("missing", "Kernels that are missing", missing, {}))
    return Section("coverage", "Coverage", lead, Source("check", "coverage.closed"), tuple(blocks))


def _contracts(device: DeviceCoverage) -> Table:
    return Table(
        key=f"coverage_sm{device.sm}",
        title=f"On sm_{device.sm}",
        columns=(
            Column("contract", "Contract", "code"),
            Column("tactics", "Tactics", "number"),
            Column("selectable", "Selectable kernels", "number"),
            Column("default", "Of these by default", "number"),
            Column("missing", "Missing", "number"),
        ),
        rows=tuple(
            Row(
                {
                    "contract": item.name,
                    "tactics": item.tactics,
                    "selectable": len(item.selectable),
                    "default": len(item.default),
                    "missing": len(item.missing),
                }
            )
            for item in device.contracts
        ),
        source=Source("coverage", f"sm{device.sm}"),
    )


def _picture(subject: Subject, unreachable: frozenset[str]) -> Bars:
    bars = [Bar("runner", subject.manifest.runner.size, 0)]
    for name, entries in subject.families.items():
        if not entries:
            continue
        idle = [
            entry
            for entry in entries
            if name != NO_FAMILY and kernel_of_filename(entry.filename) in unreachable
        ]
        bars.append(Bar(name or "no family", total_bytes(entries), total_bytes(idle)))
    return Bars(
        key="bytes_by_family",
        title="Bytes by family",
        bars=tuple(bars),
        part_label="never selectable",
        source=Source("manifest", "cubins[].size, runner.size"),
    )


def _names(key: str, title: str, names: frozenset[str] | set[str], sizes: dict[str, int]) -> Table:
    return Table(
        key=key,
        title=title,
        columns=(Column("kernel", "Kernel", "code"), Column("bytes", "Bytes", "bytes")),
        rows=tuple(Row({"kernel": name, "bytes": sizes.get(name, "")}) for name in sorted(names)),
        source=Source("coverage", key),
    )
