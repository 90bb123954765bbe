"""``provenance.intoto.json``: an in-toto Statement v1 with SLSA provenance v1 about one wheel.

It is unsigned here; the release workflow signs what it attests. Only what is known is stated: for a
wheel that another tool packed, the builder is unknown, and no version of this environment is put
down as that of the build.
"""

from __future__ import annotations

import importlib.metadata
import platform
import zlib
from collections.abc import Iterator
from typing import Any

from situ_release import canonical
from situ_release.digests import sha256_bytes
from situ_release.errors import InputError
from situ_release.report.sanitize import clean_text
from situ_release.report.subject import Subject
from situ_release.wheel.canonical import deflated_here
from situ_release.wheel.dist_info import read_wheel_headers

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://slsa.dev/provenance/v1"
BUILD_TYPE = "urn:x-situ-release:bundle-wheel:1"
BUILDER = "urn:x-situ-release:builder"
UNKNOWN_BUILDER = "urn:x-situ-release:unknown-builder"

_BACKEND = "hatchling"
_OURS = "situ-release "
_SAMPLE = 4  # cubins that are compressed again, to see whether it was this zlib


def statement(subject: Subject) -> str:
    """The statement about a wheel, as canonical JSON."""
    manifest, wheel = subject.manifest, subject.wheel
    generator = _generator(subject)
    ours = generator.startswith(_OURS)
    external: dict[str, Any] = {
        "distribution": subject.name.distribution,
        "package_version": manifest.package_version,
        "recipe": manifest.recipe.name if manifest.recipe else None,
        "source_date": manifest.generated_at,
    }
    builder: dict[str, Any] = {"id": BUILDER if ours else UNKNOWN_BUILDER}
    if ours:
        builder["version"] = _versions(subject, generator)
    document = {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": wheel.filename, "digest": {"sha256": wheel.sha256}}],
        "predicateType": PREDICATE_TYPE,
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": external,
                "internalParameters": {"generator": generator},
                "resolvedDependencies": [_clean(entry) for entry in _dependencies(subject)],
            },
            "runDetails": {
                "builder": builder,
                "byproducts": [
                    {"name": "sbom.cdx.json", "digest": {"sha256": sha256_bytes(subject.sbom.data)}}
                ],
            },
        },
    }
    return canonical.dumps(_clean(document))


def _generator(subject: Subject) -> str:
    member = f"{subject.context.dist_info}/WHEEL"
    try:
        return read_wheel_headers(subject.context.data(member) or b"", member).generator
    except InputError:
        return ""


def _versions(subject: Subject, generator: str) -> dict[str, str]:
    """Versions that decided the wheel's bytes.

    Those of this environment are put down only where its zlib makes the wheel's compressed bytes
    again; in another environment the wheel's own record of situ-release is all there is.
    """
    versions = {"situ-release": generator.removeprefix(_OURS)}
    context = subject.context
    sample = [context.manifest_member, *(cubin.member for cubin in context.cubins[:_SAMPLE])]
    if deflated_here(context.archive, sample):
        versions["zlib"] = zlib.ZLIB_RUNTIME_VERSION
        versions["python"] = platform.python_version()
        versions[_BACKEND] = importlib.metadata.version(_BACKEND)
    return versions


def _dependencies(subject: Subject) -> Iterator[dict[str, Any]]:
    """Everything that went in and has a digest."""
    manifest = subject.manifest
    if manifest.recipe is not None:
        yield {
            "name": f"recipe {manifest.recipe.name}",
            "digest": {"sha256": manifest.recipe.sha256},
        }
    snapshot = manifest.snapshot
    if snapshot is not None and snapshot.commit is not None:
        digest = {"gitCommit": snapshot.commit}
        if snapshot.tree is not None:
            digest["gitTree"] = snapshot.tree
        yield {"name": "source snapshot", "digest": digest}
    if manifest.recovered_from is not None:
        yield {
            "name": manifest.recovered_from.wheel,
            "digest": {"sha256": manifest.recovered_from.sha256},
        }
    runner = manifest.runner
    yield {"name": f"{runner.source_module_name}.so", "digest": {"sha256": runner.sha256}}
    yield {"name": "pool metadata header", "digest": {"sha256": runner.source_metadata_sha256}}
    for entry in manifest.cubins:
        yield {"name": entry.filename, "digest": {"sha256": entry.sha256}}


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, dict):
        return {key: _clean(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_clean(item) for item in value]
    return value
