"""``RELEASE_NOTES.md``: what changed and why it matters, how to install, what is known."""

from __future__ import annotations

from collections.abc import Iterator

from situ_release.inspection.diff.compare import Difference
from situ_release.inspection.diff.headline import headline
from situ_release.report.markdown import code, escaped, table
from situ_release.report.model import Decision
from situ_release.report.sanitize import clean_text
from situ_release.report.sections.proof import worst_figures
from situ_release.report.subject import Subject


def release_notes(subject: Subject, decision: Decision) -> str:
    """The notes of a release, as Markdown."""
    lines = (
        *_opening(subject, decision),
        *_changes(subject),
        *_install(subject),
        *_build(subject),
        *_host(subject),
        *_validation(subject),
        *_known(subject),
    )
    return "\n".join(lines) + "\n"


def requirement(subject: Subject) -> str:
    """What a requirements file says to get this very file and no other."""
    name = subject.name
    return f"{name.distribution}=={name.version} --hash=sha256:{subject.wheel.sha256}"


def install_command(subject: Subject) -> str:
    """The shell line that installs this very file and no other, or fails."""
    line = requirement(subject)
    return f'python -m pip install --no-deps --require-hashes -r <(echo "{line}")'


def _opening(subject: Subject, decision: Decision) -> Iterator[str]:
    recipe, manifest = subject.recipe, subject.manifest
    devices = ", ".join(f"sm_{sm}" for sm in recipe.target.sms)
    yield f"# {_text(subject.name.distribution)} {_text(str(subject.name.version))}"
    yield ""
    yield (
        f"{_text(recipe.package.summary)}: {len(manifest.cubins):,} cubins and one compiled runner "
        f"for {devices} and CUDA {manifest.cuda_major}."
    )
    yield ""
    if not decision.cleared:
        yield (
            f"**{_text(decision.headline)}.** {len(decision.blocking)} points are open, see "
            "PROVENANCE.md."
        )
        yield ""


def _changes(subject: Subject) -> Iterator[str]:
    previous = subject.previous
    if previous is None:
        return
    yield f"## Changes since {_text(previous.version)}"
    yield ""
    yield _text(headline(previous.difference))
    yield ""
    yield _why_it_matters(previous.difference)
    yield ""


def _why_it_matters(difference: Difference) -> str:
    binaries = difference.binaries
    if binaries.all_same:
        around = " Python code around them differs." if difference.python else ""
        return (
            "The runner and the kernels are the same, byte for byte: their results, speed and "
            "known issues are those of the release before, and what was validated or reported of "
            f"them there holds here.{around}"
        )
    changed = binaries.changed
    if not (binaries.added or binaries.removed) and all(
        file.comparison.device_code == "equal" for file in changed
    ):
        return (
            "Files differ, but nothing that a GPU executes: numerics are those of the release "
            "before. Host code may behave differently."
        )
    return (
        "Code that a GPU executes differs, or kernels came or went: what was validated or reported "
        "for the release before says nothing about this one. Validate it anew."
    )


def _install(subject: Subject) -> Iterator[str]:
    manifest = subject.manifest
    requirements = ", ".join(code(text) for text in subject.recipe.package.requires_dist)
    yield "## Install and architecture"
    yield ""
    yield "```"
    yield install_command(subject)
    yield "```"
    yield ""
    yield (
        "The line (for bash) takes this very file or fails. It brings no dependencies along: "
        f"{requirements or 'there are none'} must be there."
    )
    yield ""
    groups: dict[str, int] = {}
    for entry in manifest.cubins:
        folder = entry.path.split("/")[-2] if "/" in entry.path else "?"
        groups[folder] = groups.get(folder, 0) + 1
    shown = ", ".join(f"{count:,} for {_text(arch)}" for arch, count in sorted(groups.items()))
    yield f"Architecture {_text(manifest.architecture)}; cubins: {shown}."
    runner = subject.runner
    if runner is not None and runner.device_modules:
        targets = ", ".join(sorted({module.target for module in runner.device_modules}))
        yield f"The runner's own device code is for {_text(targets)}."
    yield ""


def _build(subject: Subject) -> Iterator[str]:
    manifest, runner = subject.manifest, subject.runner
    snapshot = manifest.snapshot
    stated = manifest.source_provenance
    tools: dict[str, int] = {}
    for bundled in subject.context.cubins:
        made = bundled.cubin.toolchain if bundled.cubin else None
        name = f"{made.producer} {made.version}" if made else "not named"
        tools[name] = tools.get(name, 0) + 1
    pool = next((stated[key] for key in sorted(stated) if key.endswith("pool_name")), None)
    rows = [
        ("Source version", str(stated.get("flashinfer_version") or "") or None),
        ("Source commit", snapshot.commit if snapshot else None),
        ("Kernel source tree", snapshot.tree if snapshot else None),
        ("Cubin pool", str(pool) if pool else None),
        ("Pool metadata, SHA-256", manifest.runner.source_metadata_sha256),
        ("Module", manifest.runner.source_module_name),
        ("Build mode", manifest.runner.build_mode),
        ("Host compiler", ", ".join(runner.compilers) if runner else None),
        ("Cubins made by", ", ".join(f"{count:,} × {tool}" for tool, count in tools.items())),
        ("Runner, SHA-256", manifest.runner.sha256),
    ]
    yield "## Build"
    yield ""
    yield from table(
        ["what", "value"],
        [(what, _text(value) if value else "*not recorded*") for what, value in rows],
    )
    yield ""
    if manifest.recovered_from is not None:
        yield (
            f"Staged from what was recovered out of {code(_plain(manifest.recovered_from.wheel))}, "
            "not from original sources."
        )
        yield ""


def _host(subject: Subject) -> Iterator[str]:
    dependencies, runner = subject.manifest.runtime_dependencies, subject.runner
    minimums = runner.minimum_versions if runner else {}
    least = ", ".join(f"{name} {version}" for name, version in sorted(minimums.items()))
    yield "## Minimum host libraries"
    yield ""
    yield (
        f"{_text(least) or 'Not known'}; {code(_plain(dependencies.cuda_driver_soname))} (driver) "
        f"and {code(_plain(dependencies.cuda_runtime_soname))} (CUDA runtime). Python "
        f"{code(_plain(dependencies.python))}. A host with an older glibc or libstdc++ cannot open "
        "the runner."
    )
    yield ""


def _validation(subject: Subject) -> Iterator[str]:
    evidence = subject.evidence
    yield "## Validation"
    yield ""
    if evidence is None:
        yield "Not validated: there is no evidence of a run on a GPU."
        yield ""
        return
    device = evidence.host.devices[0] if evidence.host else None
    host = evidence.host
    if device is not None and host is not None:
        yield _text(
            f"{device.name} (sm_{device.sm}), driver {host.driver_version or 'unknown'}, "
            f"CUDA {host.runtime_cuda}, apache-tvm-ffi {evidence.versions.apache_tvm_ffi}"
        )
        yield ""
    if subject.gaps:
        yield "**This does not count as validated:**"
        yield ""
        yield from (f"- {_text(f'{gap.what}: found {gap.found}')}" for gap in subject.gaps)
        yield ""
    rows = []
    for tier in evidence.tiers:
        cases = [case for case in evidence.cases if case.tier == tier.name]
        passed = sum(case.status == "pass" for case in cases)
        rows.append((tier.name, tier.status, f"{passed}/{len(cases)}"))
    yield from table(["tier", "outcome", "cases passed"], rows)
    yield ""
    figures = [
        (
            _text(name),
            str(count),
            "" if cosine is None else f"{cosine:.6g}",
            "" if error is None else f"{error:.3g}",
        )
        for name, count, cosine, error in worst_figures(evidence)
    ]
    if figures:
        yield from table(["contract", "cases", "least cosine", "largest relative L2"], figures)
        yield ""


def _known(subject: Subject) -> Iterator[str]:
    digests = {content.sha256 for content in subject.context.contents.values()}
    yield "## Known issues"
    yield ""
    for advisory in subject.recipe.advisories:
        if advisory.sha256 in digests:
            yield (
                f"- **{advisory.status}** for the binary {code(advisory.sha256[:16])}: "
                f"{_text(advisory.text)} ({_text(advisory.reference)})"
            )
    for sentence in subject.manifest.limitations:
        yield f"- {_text(sentence)}"
    yield ""


def _text(text: str) -> str:
    return escaped(_plain(text))


def _plain(text: str) -> str:
    return clean_text(text)
