"""Checks of licence texts and of the fields that people declare. The tool decides nothing here."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from situ_release.bundle.recipe import Recipe
from situ_release.checks.context import Context
from situ_release.checks.model import Finding, fail, warn
from situ_release.sources.content_kind import describe_content

# Documents that accompany a release are named in capitals: PROVENANCE.md, THIRD_PARTY_NOTICES.txt.
_DOCUMENT = re.compile(r"(?<![\w/.-])[A-Z][A-Z0-9_]{2,}\.(?:md|txt|rst|json)(?![\w/])")
_FOLDER = re.compile(r"(?<![\w/.-])(?:licenses|LICENSES)/(?:[\w.-]*\w)?")
_README = "README"  # a wheel carries it as the body of METADATA
_OPERATORS = frozenset({"AND", "OR", "WITH"})


def files(context: Context) -> Iterator[Finding]:
    """Required texts are there and not empty; what the texts refer to is there too."""
    dist_info, package = context.dist_info, context.package
    for text in context.recipe.licenses:
        member = f"{package}/{text.path}"
        yield from _required(context, member, f"a {text.component} text that the recipe requires")
        copy = f"{dist_info}/licenses/{PurePosixPath(text.path).name}"
        if copy in context.contents and context.data(copy) != context.data(member):
            yield fail(copy, "the same text twice, and not alike", expected=f"the text of {member}")
    for name in context.metadata.license_files or ():
        yield from _required(context, f"{dist_info}/licenses/{name}", "a License-File of METADATA")
    yield from _dangling_references(context)


def _required(context: Context, member: str, what: str) -> Iterator[Finding]:
    if member not in context.contents:
        yield fail(member, f"{what} is missing", remedy="add the text and build the wheel again")
        return
    data = context.data(member) or b""
    if not data.strip() or not _is_text(data):
        yield fail(
            member,
            f"{what} is no text",
            expected="a text",
            found=describe_content(data) if data.strip() else "nothing to read",
            remedy="add the text and build the wheel again",
        )


def _is_text(data: bytes) -> bool:
    try:
        return "\0" not in data.decode("utf-8")
    except UnicodeDecodeError:
        return False


def _dangling_references(context: Context) -> Iterator[Finding]:
    members = context.contents.keys()
    names = {member.rsplit("/", 1)[-1] for member in members}
    metadata = f"{context.dist_info}/METADATA"
    for member in members:
        parts = PurePosixPath(member).parts
        if member != metadata and "licenses" not in parts[1:-1]:
            continue
        text = (context.data(member) or b"").decode("utf-8", "replace")
        for name in sorted(set(_DOCUMENT.findall(text))):
            if name not in names and not name.startswith(_README):
                yield _dangling(member, name)
        # A text means the folder beside it; METADATA is shown by itself, so any licence folder.
        bases = [str(PurePosixPath(member).parent)]
        if member == metadata:
            bases.append(context.package)
        for reference in sorted(set(_FOLDER.findall(text))):
            targets = tuple(f"{base}/{reference}" for base in bases)
            if not any(name.startswith(targets) for name in members):
                yield _dangling(member, reference)


def _dangling(member: str, reference: str) -> Finding:
    return warn(member, f"the text refers to {reference}, which the wheel does not have")


def declared(context: Context) -> Iterator[Finding]:
    """METADATA's licence expression is the recipe's and names every part; no field is blank."""
    recipe = context.recipe
    metadata = f"{context.dist_info}/METADATA"
    expression = context.metadata.license_expression or ""
    if expression != recipe.package.license_expression:
        yield fail(
            metadata,
            "License-Expression is not the recipe's",
            expected=recipe.package.license_expression,
            found=expression or "none",
            remedy="correct the recipe or build the wheel again",
        )
    named = set(re.findall(r"[\w.+-]+", expression)) - _OPERATORS
    for part, wanted in _components(recipe):
        unnamed = set(re.findall(r"[\w.+-]+", wanted)) - _OPERATORS - named
        if unnamed:
            yield warn(
                metadata,
                f"License-Expression does not name the declared licence of {part}",
                expected=wanted,
                found=expression or "none",
            )
    blanks = _blanks(recipe)
    if blanks:
        yield warn(
            context.loaded_recipe.path.name, f"fields that nobody declared yet: {', '.join(blanks)}"
        )


def _components(recipe: Recipe) -> Iterator[tuple[str, str]]:
    fields = recipe.declared
    parts = {
        "the wrapper": fields.wrapper_license,
        "the runner": fields.runner_license,
        "the cubins": fields.cubin_license,
    }
    parts |= {f"the {text.component} texts": text.expression for text in recipe.licenses}
    yield from parts.items()


def _blanks(recipe: Recipe) -> list[str]:
    fields = recipe.declared
    values = {
        "runner_license": fields.runner_license,
        "cubin_license": fields.cubin_license,
        **{f"export_control.{key}": text for key, text in fields.export_control},
    }
    return [key for key, value in values.items() if not value]
