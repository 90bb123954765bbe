"""A wheel, a staged payload and a manifest, for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from situ_release.errors import Problem
from situ_release.inspection.facts.bundle import Binaries, ContainedFile, ManifestFacts
from situ_release.inspection.facts.wheel import PayloadFacts, WheelFacts, metadata_values
from situ_release.inspection.pages.cubin import (
    census_sections,
    paths_section,
    unreadable_items,
)
from situ_release.inspection.pages.page import (
    Note,
    Page,
    Section,
    count_text,
    fields,
    items,
    page,
    section,
    table,
    value_text,
)
from situ_release.inspection.pages.runner import identity_rows, peculiarities, runner_sections
from situ_release.text import size_text

_FEW = 5
_METADATA = (
    ("summary", "Summary"),
    ("licence", "License-Expression"),
    ("licence", "License"),
    ("Python", "Requires-Python"),
    ("requires", "Requires-Dist"),
    ("licences", "License-File"),
)


def wheel_page(path: Path, facts: WheelFacts) -> Page:
    """Everything about a wheel."""
    name = f"{facts.distribution} {facts.version}" if facts.distribution else path.name
    return page(
        f"Wheel {name}",
        section(
            "",
            fields(
                ("file", path.name),
                ("size", size_text(facts.size)),
                ("SHA-256", facts.sha256),
                ("tag", facts.tag or "none: the file name is no wheel's"),
                *((label, metadata_values(facts, key)) for label, key in _METADATA),
                ("made by", [v for k, v in facts.headers if k == "Generator"]),
                ("holds", contents_text(facts.files)),
            ),
            *_manifest_note(facts.package, facts.manifest),
        ),
        *_problems(facts.problems),
        *_binary_sections(facts.binaries),
        *(manifest_sections(facts.manifest.document) if facts.manifest else ()),
        section(
            f"Pools inside: {len(facts.pools)}, unread (inspect one as {path.name}/FOLDER)",
            table(
                ("pool", "cubins", "bytes"),
                ((pool.folder.rpartition("/")[2], pool.cubins, pool.bytes) for pool in facts.pools),
            ),
            items((pool.folder for pool in facts.pools), len(facts.pools), "keep"),
        ),
    )


def payload_page(path: Path, facts: PayloadFacts) -> Page:
    """Everything about a staged payload."""
    return page(
        f"Payload of the package {facts.package}",
        section(
            "",
            fields(("folder", str(path)), ("holds", contents_text(facts.files))),
            *_manifest_note(facts.package, facts.manifest),
        ),
        *_problems(facts.problems),
        *_binary_sections(facts.binaries),
        *(manifest_sections(facts.manifest.document) if facts.manifest else ()),
    )


def manifest_page(path: Path, facts: ManifestFacts) -> Page:
    """Everything about a manifest."""
    return page(
        f"Manifest of a bundle for {facts.document['architecture']}",
        section(
            "",
            fields(("file", str(path)), ("size", size_text(facts.size)), ("SHA-256", facts.sha256)),
        ),
        *manifest_sections(facts.document),
    )


def manifest_sections(document: Mapping[str, Any]) -> Iterator[Section]:
    """What a manifest claims; the document was validated."""
    runner, recipe = document["runner"], document.get("recipe")
    origin = document.get("recovered_from")
    yield section(
        "What the manifest claims",
        fields(
            ("version", document["package_version"]),
            ("made for", f"{document['architecture']}, CUDA {document['cuda_major']}"),
            ("generated at", document["generated_at"]),
            ("kind", document["artifact_kind"]),
            ("recipe", recipe["name"] if recipe else "not named (published before recipes)"),
            ("on a GPU", "validated" if document["gpu_validated"] else "not validated"),
            ("runner", runner["path"]),
            ("SHA-256", runner["sha256"]),
            ("module", runner["source_module_name"]),
            ("FFI symbols", runner["ffi_symbols"]),
            *((key.replace("_", " "), value) for key, value in _dependencies(document)),
        ),
        Note("warn", f"not original: recovered from {origin['wheel']}") if origin else None,
    )
    groups = Counter(
        (cubin["role"], cubin.get("family") or "", cubin["path"].rpartition("/")[0])
        for cubin in document["cubins"]
    )
    yield section(
        f"Cubins in the manifest: {len(document['cubins']):,}",
        table(
            ("role", "family", "folder", "cubins"),
            ((*key, count) for key, count in sorted(groups.items())),
        ),
    )
    yield section(
        "Supported contracts",
        table(
            ("name", "experts", "local", "top-k", "hidden", "interm."),
            (
                tuple(_cell(contract.get(key)) for key in _CONTRACT)
                for contract in document["supported_contracts"]
            ),
        ),
    )
    yield section(
        "Where it says it comes from",
        fields(*((key, value) for key, value in sorted(document["source_provenance"].items()))),
    )
    yield section("Limitations it states", fields(*_numbered(document["limitations"])))


_CONTRACT = (
    "name",
    "num_experts",
    "local_num_experts",
    "top_k",
    "hidden_size",
    "logical_intermediate_size",
)


def contents_text(files: tuple[ContainedFile, ...]) -> str:
    """How many files of which kind: ``267 .cubin, 3 .py, 1 .so``."""
    suffixes: Counter[str] = Counter()
    for file in files:
        base = file.path.rpartition("/")[2]
        stem, dot, suffix = base.rpartition(".")
        suffixes[f".{suffix}" if dot and stem else "without suffix"] += 1
    shown = ", ".join(f"{count:,} {suffix}" for suffix, count in suffixes.most_common(_FEW))
    size = size_text(sum(file.size for file in files))
    return f"{count_text(len(files), 'file')}, {size} unpacked ({shown})"


def _dependencies(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    needs = document["runtime_dependencies"]
    named = ", ".join(f"{key} {value}" for key, value in needs.items())
    return [("needs", named)]


def _numbered(texts: list[str]) -> Iterator[tuple[str, object]]:
    for number, text in enumerate(texts, 1):
        yield str(number), text


def _cell(value: object) -> str | int:
    return value if isinstance(value, int) else value_text(value)


def _manifest_note(package: str | None, manifest: ManifestFacts | None) -> Iterator[Note]:
    if package is None:
        yield Note("note", "it has no manifest.json: what belongs into it, only its RECORD says")
    elif manifest is None:
        yield Note("warn", f"the manifest of {package} cannot be read")


def _problems(problems: tuple[Problem, ...]) -> Iterator[Section]:
    yield section(
        f"Faults: {len(problems):,} (verify judges them)",
        items((str(problem) for problem in problems), _FEW),
    )


def _binary_sections(binaries: Binaries) -> Iterator[Section]:
    if binaries.cubins.count or binaries.cubins.unreadable:
        yield from census_sections(binaries.cubins, extremes=False)
    for file in binaries.libraries:
        yield section(
            f"Host library {file.path}",
            fields(("machine", file.library.machine), *identity_rows(file.library)),
            *peculiarities(file.library),
        )
        yield from runner_sections(file.library)
        yield paths_section(file.library.embedded_paths)
    yield section("Not readable as libraries", unreadable_items(binaries.unreadable))
