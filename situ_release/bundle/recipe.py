"""The recipe: everything that makes one bundle differ from another, as data.

A recipe is a closed TOML document; an unknown key is an error that names it. Its JSON Schema ships
as ``data/schemas/recipe.schema.json``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

from packaging.utils import canonicalize_name
from packaging.version import Version
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    Strict,
    StringConstraints,
    ValidationError,
    model_validator,
)

from situ_release import resources, toml
from situ_release.bundle import recipe_texts
from situ_release.bundle.model_faults import validation_problems
from situ_release.bundle.publication_policy import PublicationPolicy
from situ_release.bundle.smoke_policy import SmokePolicy
from situ_release.digests import sha256_bytes
from situ_release.errors import InputError, UsageError

DEFAULT_RECIPE = "kimi-k3-situ"


def _is_relative(text: str) -> str:
    parts = text.split("/")
    if text.startswith("/") or "\\" in text or any(part in ("", ".", "..") for part in parts):
        raise ValueError(f"{text!r} is not a plain relative path")
    return text


_ONE_LINE = r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]*$"
Text = Annotated[str, StringConstraints(min_length=1, pattern=_ONE_LINE)]
Blankable = Annotated[str, StringConstraints(pattern=_ONE_LINE)]
Slug = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]
Identifier = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
FileName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]*$")]
RelativePath = Annotated[Text, AfterValidator(_is_relative)]
VersionText = recipe_texts.VersionText
Size = Annotated[int, Field(ge=1, lt=1 << 31)]
Arch = Annotated[str, StringConstraints(pattern=r"^sm[0-9]{2,3}[af]?$")]


class _Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)


class Package(_Closed):
    """The distribution and import package of the wheel; the fields of its METADATA."""

    distribution: Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+([-_.][a-z0-9]+)*$")]
    import_name: recipe_texts.ImportName
    version: VersionText
    summary: Text
    license_expression: Text
    requires_python: recipe_texts.VersionSpecifier
    requires_dist: recipe_texts.Requirements
    classifiers: list[Text]
    urls: dict[recipe_texts.LinkLabel, recipe_texts.Link]


class Target(_Closed):
    """The device and platform the bundle is made for. ``sms`` are SM numbers (103 = sm_103)."""

    architecture: Arch
    sms: Annotated[list[Annotated[int, Field(ge=50, le=999)]], Field(min_length=1, max_length=32)]
    cuda_major: Annotated[int, Field(ge=1)]
    platform: Literal["linux_x86_64"]


class WheelPolicy(_Closed):
    """The one platform tag, the sonames left to the host, and what may never be copied in."""

    platform_tag: Annotated[str, StringConstraints(pattern=r"^manylinux_[0-9]+_[0-9]+_x86_64$")]
    exclude: list[Text]
    never_graft: list[Text]
    size_limit_bytes: Annotated[int, Field(gt=0)]


class RunnerPolicy(_Closed):
    """The compiled runner: its file name in the wheel and the symbols it must and may have."""

    file: FileName
    build_mode: Text
    ffi_symbols: Annotated[list[Identifier], Field(min_length=1)]
    c_symbols: list[Identifier]
    provided_symbols: dict[str, Text]
    module_name_hash_digits: Annotated[int, Field(ge=0, le=64)]
    tactic_rules: Text


class RuntimeLibraries(_Closed):
    """Shared libraries the host brings."""

    cuda_driver_soname: Text
    cuda_runtime_soname: Text


class Family(_Closed):
    """Kernels alike in everything but shape and schedule, with the number there must be.

    Attributes:
        dtypes: the part of the kernel name before the tile, as
            :attr:`situ_release.sources.kernel_name.KernelName.dtype_family` spells it.
        gated_act: the gated activation's token, "" for kernels without one.
    """

    name: Slug
    role: Identifier
    precision: Literal["w4a16", "w4a8"]
    arch: Arch
    count: Annotated[int, Field(ge=1)]
    dtypes: Text
    gated_act: Blankable


class Contract(_Closed):
    """One supported problem; sizes in elements, as in the manifest's ``supported_contracts``."""

    name: Slug
    precision: Literal["w4a16", "w4a8"]
    activation_type: Annotated[int, Field(ge=0, lt=1 << 31)]
    dtype_activation: Literal["bfloat16", "mxe4m3"]
    dtype_weight: Literal["mxe2m1"]
    hidden_states_scale: Literal["none", "required_mxfp8_block_scale"]
    num_experts: Size
    local_num_experts: Size
    local_expert_offset: Annotated[int, Field(ge=0, lt=1 << 31)] | Text
    top_k: Size
    hidden_size: Size
    logical_intermediate_size: Size
    physical_intermediate_size: Size
    tensor_parallel_size: Size
    expert_parallel_size: Size

    def as_manifest(self) -> dict[str, Any]:
        """The object that the manifest holds: no ``precision``, "none" spelled null."""
        fields = self.model_dump(exclude={"precision"})
        if self.hidden_states_scale == "none":
            fields["hidden_states_scale"] = None
        return fields


class TacticPolicy(_Closed):
    """How the default tactic is chosen, as declared to users."""

    autotune: bool
    default_tactic: Annotated[tuple[int, int], Strict(False)]
    mode: Text


class ExpertParallel(_Closed):
    """What the wheel does in an expert-parallel group, as declared to users."""

    supported: bool
    partition: Text
    routing_expert_ids: Text
    collective: Text
    mixed_tensor_and_expert_parallel: bool


class Provenance(_Closed):
    """Names of the provenance keys, and what no source tells."""

    pool_key_prefix: Annotated[str, StringConstraints(pattern=r"^[a-z_]*$")]
    counts: dict[Identifier, list[Slug]]
    declared: dict[Identifier, Text]


class LicenseText(_Closed):
    """A licence text the wheel carries, and where in the snapshot it comes from."""

    component: Text
    expression: Text
    path: recipe_texts.LicensePath
    source: Annotated[list[RelativePath], Field(min_length=1)]


class ExportControl(_Closed):
    """Export fields as people declared them; blanks stay blanks."""

    classification: Blankable
    basis: Blankable
    reviewer: Blankable
    date: Blankable


class Declared(_Closed):
    """Licence and export fields as people declared them."""

    wrapper_license: Text
    runner_license: Blankable
    cubin_license: Blankable
    export_control: ExportControl


class Advisory(_Closed):
    """Something known about a binary, by its SHA-256 and so for every release that carries it.

    ``status`` says how far it is known: somebody reported it, it was reproduced, or it was refuted.
    ``settled_by`` is the ``gpu-smoke`` tier that shows which of the two it is: ``memory``, for a
    write outside of what was allocated.
    """

    sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
    status: Literal["reported", "reproduced", "refuted"]
    reference: Text
    text: Text
    settled_by: Literal["memory"] | None = None


class Recipe(_Closed):
    """One bundle. Read one with :func:`load_recipe`."""

    schema_: Annotated[Literal[1], Field(alias="schema")]
    name: Slug
    template: Identifier
    artifact_kind: Text
    limitations: list[Text]
    package: Package
    target: Target
    wheel: WheelPolicy
    runner: RunnerPolicy
    runtime: RuntimeLibraries
    families: Annotated[list[Family], Field(min_length=1)]
    contracts: Annotated[list[Contract], Field(min_length=1)]
    tactic_policy: TacticPolicy
    expert_parallel: ExpertParallel
    provenance: Provenance
    licenses: list[LicenseText]
    declared: Declared
    smoke: SmokePolicy
    publication: PublicationPolicy
    advisories: list[Advisory] = []

    @model_validator(mode="after")
    def _consistent(self) -> Recipe:
        families = [family.name for family in self.families]
        for label, names in (
            ("family", families),
            ("contract", [contract.name for contract in self.contracts]),
            ("licence path", [text.path.lower() for text in self.licenses]),
        ):
            twice = _duplicates(names)
            if twice:
                raise ValueError(f"{label} names occur twice: {', '.join(twice)}")
        unknown = {name for names in self.provenance.counts.values() for name in names}
        unknown -= set(families)
        if unknown:
            raise ValueError(f"provenance.counts names unknown families: {sorted(unknown)}")
        paths = {text.path.lower() for text in self.licenses}
        for path in paths:
            if any(other.startswith(f"{path}/") for other in paths):
                raise ValueError(f"licence path {path} is a file and a folder")
        gated = {family.precision for family in self.families if family.gated_act}
        for contract in self.contracts:
            if contract.precision not in gated:
                raise ValueError(
                    f"contract {contract.name}: no family of {contract.precision} has a gated_act, "
                    "as its first product needs"
                )
        return self

    @property
    def cubin_count(self) -> int:
        """Number of cubins in the bundle: the sum over families."""
        return sum(family.count for family in self.families)

    @property
    def sbom_name(self) -> str:
        """File name of the bill of materials, in the payload project and below ``sboms/``."""
        return f"{self.package.distribution}.cdx.json"


class LoadedRecipe(_Closed):
    """A recipe with the SHA-256 of the file it was read from."""

    recipe: Recipe
    sha256: str
    path: Path


def _duplicates(names: Iterable[str]) -> list[str]:
    seen: set[str] = set()
    return sorted({name for name in names if name in seen or seen.add(name)})  # type: ignore[func-returns-value]


def recipe_names() -> list[str]:
    """Names of the recipes that are shipped with the tool, sorted."""
    return sorted(path.stem for path in resources.recipes().glob("*.toml"))


def recipe_path(name_or_path: str) -> Path:
    """The file of a shipped recipe's name, or of a path to a ``.toml`` file.

    Raises:
        UsageError: there is no such recipe.
    """
    if name_or_path.endswith(".toml"):
        return Path(name_or_path)
    path = resources.recipes() / f"{name_or_path}.toml"
    if re.fullmatch(r"[a-z0-9-]+", name_or_path) is None or not path.is_file():
        raise UsageError.of(
            "there is no such recipe",
            f"--recipe {name_or_path}",
            expected=f"one of {', '.join(recipe_names())}, or a path that ends in .toml",
            found=name_or_path,
            remedy="name a shipped recipe or give the path of your own",
        )
    return path


def load_recipe(name_or_path: str = DEFAULT_RECIPE) -> LoadedRecipe:
    """Read and validate a recipe.

    Args:
        name_or_path: a shipped recipe's name, or a path that ends in ``.toml``.

    Raises:
        UsageError: no shipped recipe has this name.
        InputError: unreadable, not TOML, or not a recipe; every wrong key is listed.
    """
    path = recipe_path(name_or_path)
    data, document = toml.load(path, "recipe")
    try:
        recipe = Recipe.model_validate(document)
    except ValidationError as error:
        raise InputError(*validation_problems(error, str(path), "recipe")) from error
    return LoadedRecipe(recipe=recipe, sha256=sha256_bytes(data), path=path)


def find_recipe(distribution: str, named: str | None, where: str) -> LoadedRecipe:
    """The shipped recipe of a bundle.

    Args:
        distribution: the distribution's name, in any spelling.
        named: the recipe that its manifest names; None for published manifests, which name none.
        where: the wheel, used in errors.

    Raises:
        InputError: no shipped recipe has that name, or makes that distribution.
    """
    wanted = canonicalize_name(distribution)
    for name in recipe_names():
        if named is not None and name != named:
            continue
        loaded = load_recipe(name)
        if named is not None or canonicalize_name(loaded.recipe.package.distribution) == wanted:
            return loaded
    raise InputError.of(
        "there is no recipe for this bundle",
        where,
        expected=f"recipe {named}" if named is not None else f"a recipe that makes {wanted}",
        found=f"recipes {', '.join(recipe_names())}",
        remedy="name one with --recipe",
    )


def checked_version(text: str) -> str:
    """A package version in its normal PEP 440 form.

    Raises:
        UsageError: not a PEP 440 version.
    """
    try:
        return str(Version(text))
    except ValueError as error:
        raise UsageError.of(
            "not a PEP 440 version",
            "--package-version",
            expected="a version such as 0.1.0.post20260727",
            found=text,
            remedy="correct the version",
        ) from error
