"""Checks that hold the manifest against the recipe and against the reviewed digests."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from situ_release.bundle.lock import compare, lock_path
from situ_release.bundle.manifest import Manifest
from situ_release.bundle.recipe import Recipe
from situ_release.checks.context import Context
from situ_release.checks.model import Finding, fail, from_problem, note, warn
from situ_release.digests import SHA256_HEX
from situ_release.errors import InputError

_TVM_FFI = "apache-tvm-ffi"


def facts(context: Context) -> Iterator[Finding]:
    """Everything that the recipe decides is in the manifest as the recipe has it."""
    loaded = context.loaded_recipe_or_problems
    if isinstance(loaded, tuple):
        yield from map(from_problem, loaded)
        return
    manifest, member = context.manifest, context.manifest_member
    recipe = loaded.recipe
    if context.package != recipe.package.import_name:
        yield fail(
            context.package,
            "the package is not the recipe's",
            expected=recipe.package.import_name,
            found=context.package,
        )
    claims = manifest.model_dump(mode="json")
    for key, expected in _expected(recipe).items():
        found = _value(claims, key)
        if not _same(found, expected):
            yield _difference(member, key, expected, found)
    yield from _requirements(manifest, recipe, member)
    yield from _module_name(manifest, recipe, member)
    yield from _sources(manifest, recipe, member)
    if manifest.package_version != recipe.package.version:
        yield warn(
            member,
            "another version than the recipe's",
            expected=recipe.package.version,
            found=manifest.package_version,
            remedy="expected after --package-version or for an older release, else build again",
        )
    if manifest.recipe is None:
        yield warn(
            member,
            f"the wheel names no recipe, so {recipe.name} was taken",
            remedy="make sure that it is the right one; wheels built by situ-release name theirs",
        )
        return
    if manifest.recipe.name != recipe.name:
        yield fail(
            member,
            "the wheel was made from another recipe",
            expected=recipe.name,
            found=manifest.recipe.name,
        )
    elif manifest.recipe.sha256 != loaded.sha256:
        yield warn(
            member,
            f"recipe {recipe.name} is not the one that the wheel was made from",
            expected=f"SHA-256 {manifest.recipe.sha256}",
            found=loaded.sha256,
            remedy="use the recipe of that release with --recipe, or stage the payload again",
        )


def _expected(recipe: Recipe) -> dict[str, object]:
    """Manifest keys (dotted) and the values that the recipe demands."""
    counts = {family.name: family.count for family in recipe.families}
    values: dict[str, object] = {
        "artifact_kind": recipe.artifact_kind,
        "architecture": recipe.target.architecture,
        "cuda_major": recipe.target.cuda_major,
        "platform": recipe.target.platform,
        "limitations": recipe.limitations,
        "runner.path": f"lib/{recipe.runner.file}",
        "runner.build_mode": recipe.runner.build_mode,
        "runner.ffi_symbols": recipe.runner.ffi_symbols,
        "runtime_dependencies.cuda_driver_soname": recipe.runtime.cuda_driver_soname,
        "runtime_dependencies.cuda_runtime_soname": recipe.runtime.cuda_runtime_soname,
        "supported_contracts": [contract.as_manifest() for contract in recipe.contracts],
        "tactic_policy": recipe.tactic_policy.model_dump(mode="json"),
        "expert_parallel": recipe.expert_parallel.model_dump(mode="json"),
    }
    for key, families in recipe.provenance.counts.items():
        values[f"source_provenance.{key}"] = sum(counts[name] for name in families)
    for key, text in recipe.provenance.declared.items():
        values[f"source_provenance.{key}"] = text
    return values


def _value(document: object, key: str) -> object:
    for part in key.split("."):
        document = document.get(part) if isinstance(document, dict) else None
    return document


def _same(one: object, other: object) -> bool:
    """Equality of JSON values: unlike in Python, True and 1.0 are not 1."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    return type(one) is type(other) and one == other


def _difference(member: str, key: str, expected: object, found: object) -> Finding:
    """The finding for one key; lists are narrowed to the first entry that differs."""
    if isinstance(expected, list) and isinstance(found, list):
        if len(expected) != len(found):
            return fail(
                member,
                f"{key} has another number of entries than the recipe",
                expected=str(len(expected)),
                found=str(len(found)),
            )
        index = next(i for i, wanted in enumerate(expected) if not _same(wanted, found[i]))
        return _difference(member, f"{key}.{index}", expected[index], found[index])
    if isinstance(expected, dict) and isinstance(found, dict):
        part = next(
            name
            for name in (*expected, *found)
            if (name in expected) != (name in found)
            or not _same(expected.get(name), found.get(name))
        )
        absent = "no such key"
        return _difference(
            member, f"{key}.{part}", expected.get(part, absent), found.get(part, absent)
        )
    return fail(member, f"{key} is not the recipe's", expected=repr(expected), found=repr(found))


def _requirements(manifest: Manifest, recipe: Recipe, member: str) -> Iterator[Finding]:
    claimed = manifest.runtime_dependencies
    wanted = {"python": recipe.package.requires_python}
    for text in recipe.package.requires_dist:
        requirement = Requirement(text)
        if canonicalize_name(requirement.name) == _TVM_FFI:
            wanted["apache_tvm_ffi"] = str(requirement.specifier)
    for key, expected in wanted.items():
        found: str = getattr(claimed, key)
        if _specifier(found) != SpecifierSet(expected):
            yield fail(
                member,
                f"runtime_dependencies.{key} is not the recipe's",
                expected=expected,
                found=found,
            )


def _specifier(text: str) -> SpecifierSet | None:
    try:
        return SpecifierSet(text)
    except ValueError:
        return None


def _sources(manifest: Manifest, recipe: Recipe, member: str) -> Iterator[Finding]:
    """``source_provenance`` has the keys that staging gives it, each with a value of its kind."""
    provenance, bundled = recipe.provenance, len(manifest.cubins)
    snapshot = manifest.snapshot
    prefix = provenance.pool_key_prefix
    metadata = manifest.runner.source_metadata_sha256
    wanted: dict[str, tuple[str, Callable[[object], bool]]] = {
        **dict.fromkeys(provenance.declared, ("the recipe's text", _is_text)),
        **dict.fromkeys(provenance.counts, ("the recipe's count", _is_count)),
        "flashinfer_version": (
            f"{snapshot.version}, as the snapshot says" if snapshot else "a version",
            lambda value: _is_text(value) and (snapshot is None or value == snapshot.version),
        ),
        "source_pool_cubin_count": (
            f"a number of at least {bundled}, which are bundled",
            lambda value: isinstance(value, int) and value >= bundled,
        ),
        f"{prefix}name": ("a name", _is_text),
        f"{prefix}config_sha256": (
            "a SHA-256 or null",
            lambda value: value is None or _is_sha256(value),
        ),
        f"{prefix}metadata_sha256": (
            f"{metadata}, as for the runner",
            lambda value: value == metadata,
        ),
    }
    stated = manifest.source_provenance
    for key, (expected, fits) in wanted.items():
        if key not in stated:
            yield fail(member, f"source_provenance lacks {key}", expected=expected)
        elif not fits(stated[key]):
            yield fail(
                member,
                f"source_provenance.{key} cannot be true",
                expected=expected,
                found=repr(stated[key]),
            )
    for key in stated:
        if key not in wanted:
            what = f"source_provenance has an unknown key {key!r}"
            yield fail(member, what, expected=", ".join(wanted))


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value) and value.isprintable()


def _is_count(value: object) -> bool:
    return isinstance(value, int) and value >= 0


def _is_sha256(value: object) -> bool:
    return isinstance(value, str) and SHA256_HEX.fullmatch(value) is not None


def _module_name(manifest: Manifest, recipe: Recipe, member: str) -> Iterator[Finding]:
    digits = recipe.runner.module_name_hash_digits
    runner = manifest.runner
    suffix = runner.source_metadata_sha256[:digits]
    if digits and not runner.source_module_name.endswith(f"_{suffix}"):
        yield fail(
            member,
            "runner.source_module_name does not end in the metadata header's hash",
            expected=f"…_{suffix}",
            found=runner.source_module_name,
        )


def locked(context: Context) -> Iterator[Finding]:
    """The binaries are those that the recipe's lock calls reviewed."""
    recipe = context.loaded_recipe
    try:
        lock = context.lock
    except InputError as error:
        yield from map(from_problem, error.problems)
        return
    if lock is None:
        yield warn(
            context.filename,
            f"recipe {recipe.recipe.name} has no reviewed digests to compare with",
            expected=lock_path(recipe.path).name,
            found="no such file",
            remedy="have the binaries reviewed and record their digests beside the recipe",
        )
        return
    manifest = context.manifest
    found = {
        entry.filename: _sha256(context, entry.path, entry.sha256) for entry in manifest.cubins
    }
    runner = _sha256(context, manifest.runner.path, manifest.runner.sha256)
    paths = {entry.filename: entry.path for entry in manifest.cubins}
    differences = compare(lock, manifest.runner.path, runner, found)
    for difference in differences:
        yield warn(
            f"{context.package}/{paths.get(difference.file, difference.file)}",
            "not the reviewed binary",
            expected=difference.reviewed or "no such file",
            found=difference.staged or "no such file",
        )
    if not differences:
        yield note(
            context.filename,
            f"{len(found) + 1} binaries are those reviewed for {recipe.recipe.name}",
        )


def _sha256(context: Context, path: str, claimed: str) -> str:
    """The digest of what the wheel holds, or the manifest's claim of a file it does not hold."""
    content = context.contents.get(f"{context.package}/{path}")
    return claimed if content is None else content.sha256
