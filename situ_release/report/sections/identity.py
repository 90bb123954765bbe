"""What the wheel is."""

from __future__ import annotations

from situ_release.report.model import Column, Fact, Facts, Row, Section, Source, Table
from situ_release.report.subject import Subject


def identity(subject: Subject) -> Section:
    """Name, digest, device, contracts and limitations."""
    manifest, recipe, wheel = subject.manifest, subject.recipe, subject.wheel
    devices = ", ".join(f"sm_{sm}" for sm in recipe.target.sms)
    count = len(manifest.cubins)
    return Section(
        key="identity",
        title="What the wheel is",
        lead=f"{recipe.package.summary}, for {devices} and CUDA {manifest.cuda_major}: {count:,} "
        "precompiled GPU kernels, one compiled runner that chooses among them, and Python code "
        "that checks and calls them.",
        source=Source("recipe", "package.summary, target"),
        blocks=(
            Facts(
                (
                    Fact("wheel.filename", "File", wheel.filename, _wheel("file name"), "code"),
                    Fact("wheel.size", "Size", wheel.size, _wheel("size"), "bytes"),
                    Fact("wheel.sha256", "SHA-256", wheel.sha256, _wheel("digest"), "digest"),
                    Fact(
                        "wheel.version",
                        "Version",
                        manifest.package_version,
                        Source("manifest", "package_version"),
                    ),
                    Fact("wheel.tag", "Tag", subject.name.tag, _wheel("file name"), "code"),
                    Fact(
                        "bundle.architecture",
                        "Architecture",
                        manifest.architecture,
                        Source("manifest", "architecture"),
                        note=f"target devices: {devices}",
                    ),
                    Fact(
                        "bundle.generated_at",
                        "Dated",
                        manifest.generated_at,
                        Source("manifest", "generated_at"),
                    ),
                    Fact(
                        "bundle.recipe",
                        "Recipe",
                        recipe.name,
                        Source("manifest", "recipe.name")
                        if manifest.recipe
                        else Source("check", "manifest.recipe"),
                        note="" if manifest.recipe else "taken by distribution name",
                    ),
                    _reviewed(subject),
                )
            ),
            Table(
                key="contracts",
                title="What it computes",
                columns=(
                    Column("name", "Contract", "code"),
                    Column("activations", "Activations"),
                    Column("experts", "Experts on a rank"),
                    Column("hidden", "Hidden size", "number"),
                    Column("intermediate", "Intermediate size", "number"),
                    Column("top_k", "Top-k", "number"),
                ),
                rows=tuple(
                    Row(
                        {
                            "name": contract.name,
                            "activations": contract.dtype_activation,
                            "experts": f"{contract.local_num_experts} of {contract.num_experts}",
                            "hidden": contract.hidden_size,
                            "intermediate": contract.physical_intermediate_size,
                            "top_k": contract.top_k,
                        }
                    )
                    for contract in recipe.contracts
                ),
                source=Source("recipe", "contracts"),
            ),
            Table(
                key="limitations",
                title="Limitations, as declared",
                columns=(Column("sentence", "Limitation"),),
                rows=tuple(
                    Row({"sentence": sentence}, source=Source("manifest", f"limitations[{index}]"))
                    for index, sentence in enumerate(manifest.limitations)
                ),
                source=Source("manifest", "limitations"),
            ),
        ),
    )


def _reviewed(subject: Subject) -> Fact:
    check = subject.check("manifest.locked")
    matches = check is not None and check.status == "pass"
    return Fact(
        "bundle.reviewed",
        "Binaries as reviewed",
        "yes" if matches else "no",
        Source("check", "manifest.locked"),
        "status",
        note="equal to the digests in the recipe's lock"
        if matches
        else "they differ from the recipe's lock, or it has none",
    )


def _wheel(ref: str) -> Source:
    return Source("wheel", ref)
