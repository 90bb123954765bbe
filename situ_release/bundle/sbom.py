"""The bill of materials (CycloneDX 1.6) that a bundle carries in ``.dist-info/sboms`` (PEP 770).

It follows from manifest and recipe alone, byte for byte: the serial number is a UUIDv5 of the
manifest's digest and the time is the manifest's ``generated_at``. The wheel's own component has no
hash, because the file lies inside the wheel; the in-toto statement beside the wheel binds it.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.model.license import LicenseAcknowledgement, LicenseExpression
from cyclonedx.model.tool import ToolRepository
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from packaging.requirements import Requirement

from situ_release import __version__, canonical
from situ_release.bundle.families import NO_FAMILY, cubins_by_family, total_bytes
from situ_release.bundle.manifest import CubinEntry, Manifest
from situ_release.bundle.recipe import Recipe
from situ_release.bundle.sbom_serial import serial_number
from situ_release.digests import sha256_bytes
from situ_release.errors import InputError

_PREFIX = "situ-release:"


def sbom(manifest: Manifest, text: bytes, recipe: Recipe, note: str = "") -> bytes:
    """The bill of materials of a bundle, as canonical JSON.

    Args:
        manifest: the bundle's manifest.
        text: its bytes, whose digest gives the serial number.
        recipe: names, families and declared licences. A licence that nobody declared is left out,
            and a property of the component says so.
        note: put into the bill's own properties; for one that no wheel carries.

    Raises:
        InputError: the manifest's ``generated_at`` is no time with an offset.
    """
    package = recipe.package
    families = cubins_by_family(manifest, recipe)
    inside = [*_inside(manifest, recipe, families), *_sources(manifest, recipe)]
    outside = list(_outside(manifest, recipe))
    wheel = Component(
        name=package.distribution,
        version=manifest.package_version,
        type=ComponentType.LIBRARY,
        bom_ref="wheel",
        purl=PackageURL("pypi", name=package.distribution, version=manifest.package_version),
        description=package.summary,
        licenses=_licence(package.license_expression),
    )
    bill = Bom(
        serial_number=uuid.UUID(serial_number(sha256_bytes(text))),
        metadata=BomMetaData(
            component=wheel,
            timestamp=_moment(manifest.generated_at),
            tools=ToolRepository(components=[_tool(manifest)]),
            properties=_properties({"manifest_sha256": sha256_bytes(text), "note": note}),
        ),
        components=[*inside, *outside],
    )
    bill.register_dependency(wheel, [*inside, *outside])
    runner = next(component for component in inside if component.bom_ref.value == "runner")
    bill.register_dependency(runner, outside)
    document = json.loads(JsonV1Dot6(bill).output_as_string())
    _list_cubins(document["components"], families)
    # The library decides what the document says, not how it is spelled: canonical JSON compresses
    # alike and does not change with the library's version.
    return canonical.dumps(document).encode()


def _moment(generated_at: str) -> datetime:
    try:
        moment = datetime.fromisoformat(generated_at)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise InputError.of(
            "the manifest's generated_at is not a time",
            "generated_at",
            expected="ISO 8601 with an offset",
            found=repr(generated_at[:80]),
            remedy="stage the payload again",
        )
    return moment


def _tool(manifest: Manifest) -> Component:
    version = manifest.tools.situ_release if manifest.tools else __version__
    return Component(name="situ-release", version=version, type=ComponentType.APPLICATION)


def _inside(
    manifest: Manifest, recipe: Recipe, families: Mapping[str, list[CubinEntry]]
) -> Iterator[Component]:
    """What the wheel's own files are: the Python code, the runner, the families."""
    declared, package = recipe.declared, recipe.package
    yield Component(
        name=package.import_name,
        type=ComponentType.LIBRARY,
        bom_ref="python",
        description="Python code of the wheel",
        licenses=_licence(declared.wrapper_license),
    )
    runner = manifest.runner
    yield Component(
        name=runner.path,
        type=ComponentType.LIBRARY,
        bom_ref="runner",
        description="compiled runner",
        hashes=[_sha256(runner.sha256)],
        licenses=_licence(declared.runner_license),
        properties=_properties(
            {
                "bytes": str(runner.size),
                "module": runner.source_module_name,
                "build_mode": runner.build_mode,
                "licence": _blank(declared.runner_license),
            }
        ),
    )
    roles = {family.name: family for family in recipe.families}
    for name, entries in families.items():
        family = roles.get(name)
        yield Component(
            name=name or "cubins of no family",
            type=ComponentType.LIBRARY,
            bom_ref=_family_ref(name),
            description=f"{len(entries)} cubins",
            licenses=_licence(declared.cubin_license),
            properties=_properties(
                {
                    "bytes": str(total_bytes(entries)),
                    "role": family.role if family else "",
                    "architecture": family.arch if family else "",
                    "pool": _pool_name(manifest),
                    "licence": _blank(declared.cubin_license),
                }
            ),
        )


def _list_cubins(
    components: list[dict[str, Any]], families: Mapping[str, list[CubinEntry]]
) -> None:
    """Enter the files of every family: hundreds, and the library takes its time for each."""
    by_ref = {_family_ref(name): entries for name, entries in families.items()}
    for component in components:
        if entries := by_ref.get(component["bom-ref"]):
            component["components"] = [_cubin(entry) for entry in entries]


def _family_ref(name: str) -> str:
    return f"family/{name}" if name != NO_FAMILY else "cubins-of-no-family"


def _cubin(entry: CubinEntry) -> dict[str, Any]:
    return {
        "type": "file",
        "bom-ref": f"sha256/{entry.sha256}",
        "name": entry.path,
        "hashes": [{"alg": "SHA-256", "content": entry.sha256}],
    }


def _sources(manifest: Manifest, recipe: Recipe) -> Iterator[Component]:
    """What the runner was compiled from and the wheel carries licence texts of."""
    expressions = {text.component: text.expression for text in recipe.licenses}
    snapshot = manifest.snapshot
    version = manifest.source_provenance.get("flashinfer_version")
    for component, expression in expressions.items():
        yield Component(
            name=component,
            version=snapshot.version if snapshot else str(version) if version else None,
            type=ComponentType.LIBRARY,
            bom_ref=f"source/{component}",
            description="sources that the runner was compiled from",
            licenses=_licence(expression),
            properties=_properties(
                {
                    "commit": (snapshot.commit if snapshot else None) or "",
                    "tree": (snapshot.tree if snapshot else None) or "",
                }
            ),
        )


def _outside(manifest: Manifest, recipe: Recipe) -> Iterator[Component]:
    """What the host or other packages bring."""
    for text in recipe.package.requires_dist:
        requirement = Requirement(text)
        yield Component(
            name=requirement.name,
            type=ComponentType.LIBRARY,
            bom_ref=f"requirement/{requirement.name}",
            purl=PackageURL("pypi", name=requirement.name),
            scope=ComponentScope.REQUIRED,
            properties=_properties({"requirement": text, "in_wheel": "no"}),
        )
    dependencies = manifest.runtime_dependencies
    for soname in (dependencies.cuda_driver_soname, dependencies.cuda_runtime_soname):
        yield Component(
            name=soname,
            type=ComponentType.LIBRARY,
            bom_ref=f"host/{soname}",
            description="library of the host",
            scope=ComponentScope.REQUIRED,
            properties=_properties({"in_wheel": "no"}),
        )


def _pool_name(manifest: Manifest) -> str:
    if manifest.pool is not None:
        return manifest.pool.name
    stated = manifest.source_provenance.items()
    return next((str(value) for key, value in stated if key.endswith("pool_name") and value), "")


def _sha256(digest: str) -> HashType:
    return HashType(alg=HashAlgorithm.SHA_256, content=digest)


def _licence(expression: str) -> list[LicenseExpression]:
    if not expression:
        return []
    return [LicenseExpression(expression, acknowledgement=LicenseAcknowledgement.DECLARED)]


def _blank(expression: str) -> str:
    return "" if expression else "not declared"


def _properties(values: Mapping[str, str]) -> Iterable[Property]:
    return [Property(name=f"{_PREFIX}{key}", value=text) for key, text in values.items() if text]
