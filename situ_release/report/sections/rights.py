"""Licences and export fields: what people declared, what is blank, which texts are there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from situ_release.bundle.approval_state import ApprovalState, approval_texts
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

_PYTHON = (".py", ".pyi")


def licenses(subject: Subject) -> Section:
    """The licence of every part, what the wrapper's licence leaves out, and the texts."""
    return Section(
        key="licenses",
        title="Licences",
        lead="As people declared them in the recipe; the tool records and compares, it does not "
        "decide. A blank is a field that nobody has stated.",
        source=Source("recipe", "declared"),
        blocks=tuple(_blocks(subject)),
    )


def export(subject: Subject) -> Section:
    """The export-control fields as declared."""
    control = subject.recipe.declared.export_control
    fields = {
        "classification": "Classification",
        "basis": "Basis",
        "reviewer": "Reviewer",
        "date": "Date",
    }
    stated = {key: getattr(control, key) or None for key in fields}
    blank = sum(value is None for value in stated.values())
    lead = "All fields are stated." if not blank else f"{blank} of {len(fields)} fields are blank."
    if blank == len(fields):
        lead = "Nobody has stated anything yet: all fields are blank."
    return Section(
        key="export",
        title="Export control",
        lead=lead,
        source=Source("recipe", "declared.export_control"),
        blocks=(
            Facts(
                tuple(
                    Fact(
                        f"export.{key}",
                        label,
                        stated[key],
                        Source("recipe", f"declared.export_control.{key}"),
                    )
                    for key, label in fields.items()
                )
            ),
        ),
    )


def approvals(subject: Subject) -> Section:
    """Every demanded approval and where it stands."""
    return Section(
        key="approvals",
        title="Approvals",
        lead="Each is bound to the SHA-256 of this file and signed; any changed byte voids it."
        + (f" Judged as of {subject.gate.today}." if subject.gate.approvals else ""),
        source=Source("check", "publication.approvals"),
        blocks=(
            Table(
                key="approvals",
                title="Demanded approvals",
                columns=(
                    Column("kind", "Approval"),
                    Column("decision", "Decision", "status"),
                    Column("reviewer", "Reviewer"),
                    Column("date", "Date"),
                    Column("expires", "Until"),
                    Column("reference", "Reference"),
                    Column("text", "Words"),
                ),
                rows=tuple(
                    Row(
                        {
                            "kind": _capitalised(approval_texts()[state.kind].title),
                            "decision": state.decision,
                            "reviewer": state.reviewer or _blank(state),
                            "date": state.date or _blank(state),
                            "expires": state.expires,
                            "reference": state.reference or _blank(state),
                            "text": state.text,
                        },
                        source=Source("approvals", state.kind),
                    )
                    for state in subject.approvals
                ),
                source=Source("approvals", "approvals"),
                empty="no approval is demanded",
            ),
        ),
    )


def _capitalised(text: str) -> str:
    return text[:1].upper() + text[1:]


def _blank(state: ApprovalState) -> str | None:
    """What a field that is empty means: nothing to state, or left blank."""
    return "" if state.decision == "missing" else None


def _blocks(subject: Subject) -> Iterator[Block]:
    declared = subject.recipe.declared
    package = subject.context.package
    python = {
        name: content.size
        for name, content in subject.context.contents.items()
        if name.startswith(f"{package}/") and name.endswith(_PYTHON)
    }
    cubins, runner = subject.manifest.cubins, subject.manifest.runner
    binary = total_bytes(cubins) + runner.size
    share = 100 * binary / max(1, binary + sum(python.values()))
    wrapper = declared.wrapper_license
    yield Note(
        f"The wrapper's licence ({wrapper}) covers the Python code alone: {len(python)} files. It "
        f"does not cover the runner and the {len(cubins):,} cubins, which are {share:.1f} % of the "
        "code in the wheel.",
        Source("recipe", "declared.wrapper_license"),
        "warn",
    )
    yield Table(
        key="licence_parts",
        title="Licence by part",
        columns=(
            Column("part", "Part"),
            Column("files", "Files", "number"),
            Column("bytes", "Bytes", "bytes"),
            Column("licence", "Declared licence", "code"),
            Column("covered", f"Under the wrapper's {wrapper}"),
        ),
        rows=tuple(_parts(subject, len(python), sum(python.values()))),
        source=Source("recipe", "declared"),
    )
    metadata = subject.context.metadata_or_problems
    expression = None if isinstance(metadata, tuple) else metadata.license_expression
    yield Facts(
        (
            Fact(
                "licence.metadata",
                "License-Expression of the wheel",
                expression,
                Source("wheel", f"{subject.context.dist_info}/METADATA"),
                "code",
            ),
        )
    )
    yield Table(
        key="licence_texts",
        title="Licence texts and notices",
        columns=(
            Column("component", "Of"),
            Column("path", "Text", "code"),
            Column("required", "Required"),
            Column("present", "In the wheel", "status"),
            Column("bytes", "Bytes", "bytes"),
        ),
        rows=tuple(_texts(subject)),
        source=Source("check", "licenses.files"),
    )


def _parts(subject: Subject, python_files: int, python_bytes: int) -> Iterator[Row]:
    declared, manifest = subject.recipe.declared, subject.manifest

    def row(
        part: str, files: int | None, size: int | None, licence: Value, covered: str, ref: str
    ) -> Row:
        cells: dict[str, Value] = {
            "part": part,
            "files": files if files is not None else "",
            "bytes": size if size is not None else "",
            "licence": licence or None,
            "covered": covered,
        }
        return Row(cells, source=Source("recipe", ref))

    yield row(
        "Python code",
        python_files,
        python_bytes,
        declared.wrapper_license,
        "yes",
        "declared.wrapper_license",
    )
    yield row(
        "Runner",
        1,
        manifest.runner.size,
        declared.runner_license,
        "no",
        "declared.runner_license",
    )
    for name, entries in subject.families.items():
        part = f"Cubins {name}" if name else "Cubins of no family"
        size = total_bytes(entries)
        yield row(part, len(entries), size, declared.cubin_license, "no", "declared.cubin_license")
    for component, expression in {
        text.component: text.expression for text in subject.recipe.licenses
    }.items():
        part = f"{component} (sources of the runner)"
        yield row(part, None, None, expression, "no", "licenses")
    for requirement in subject.recipe.package.requires_dist:
        part = f"{requirement} (not in the wheel)"
        yield row(part, None, None, "its own", "no", "package.requires_dist")


def _texts(subject: Subject) -> Iterator[Row]:
    context = subject.context
    seen = set()
    for text in subject.recipe.licenses:
        member = f"{context.package}/{text.path}"
        seen.add(member)
        yield _text_row(subject, member, f"{text.component}, {text.expression}", "by the recipe")
    metadata = context.metadata_or_problems
    named = () if isinstance(metadata, tuple) else metadata.license_files or ()
    for name in named:
        member = f"{context.dist_info}/licenses/{name}"
        seen.add(member)
        yield _text_row(subject, member, "the wheel", "by METADATA")
    for member in context.contents:
        if "licenses" in PurePosixPath(member).parts[1:-1] and member not in seen:
            yield _text_row(subject, member, "third parties", "no")


def _text_row(subject: Subject, member: str, component: str, required: str) -> Row:
    content = subject.context.contents.get(member)
    return Row(
        {
            "component": component,
            "path": member,
            "required": required,
            "present": "missing" if content is None else "yes",
            "bytes": "" if content is None else content.size,
        },
        source=Source("wheel", member),
    )
