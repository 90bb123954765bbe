"""The in-toto statement: one subject, what went in, and no more about the build than is known."""

from __future__ import annotations

import json
import zlib
from pathlib import Path

from situ_release.report.statement import BUILDER, UNKNOWN_BUILDER, statement
from situ_release.report.subject import read_subject
from situ_release.wheel.build import build_wheel
from situ_release.wheel.repair import repair_wheel
from tests.report.conftest import Bundle
from tests.report.given import NOTHING
from tests.synth.inputs import make_inputs


def test_one_subject_and_the_shape_of_slsa(sound: Bundle) -> None:
    document = json.loads(statement(sound.read()))
    assert document["_type"] == "https://in-toto.io/Statement/v1"
    assert document["predicateType"] == "https://slsa.dev/provenance/v1"
    digest = {"sha256": sound.sha256}
    assert document["subject"] == [{"name": sound.wheel.name, "digest": digest}]
    predicate = document["predicate"]
    assert set(predicate) == {"buildDefinition", "runDetails"}
    definition = predicate["buildDefinition"]
    assert set(definition) == {
        "buildType",
        "externalParameters",
        "internalParameters",
        "resolvedDependencies",
    }
    inputs = {entry["name"]: entry["digest"] for entry in definition["resolvedDependencies"]}
    manifest = sound.read().manifest
    assert inputs["source snapshot"] == {"gitCommit": "c0" * 20, "gitTree": "7e" * 20}
    assert inputs[f"{manifest.runner.source_module_name}.so"]["sha256"] == manifest.runner.sha256
    for entry in manifest.cubins:
        assert inputs[entry.filename] == {"sha256": entry.sha256}


def test_a_wheel_that_another_tool_packed_has_an_unknown_builder(sound: Bundle) -> None:
    details = json.loads(statement(sound.read()))["predicate"]["runDetails"]
    assert details["builder"] == {"id": UNKNOWN_BUILDER}


def test_a_wheel_of_ours_names_the_versions_that_made_its_bytes(tmp_path: Path) -> None:
    inputs = make_inputs(tmp_path / "in")
    staged = inputs.stage()
    raw = build_wheel(staged.payload, tmp_path / "raw")
    wheel = repair_wheel(raw.path, tmp_path / "dist", inputs.recipe.recipe).path
    subject = read_subject(wheel, gate=NOTHING, recipe=str(inputs.recipe_path))
    builder = json.loads(statement(subject))["predicate"]["runDetails"]["builder"]
    assert builder["id"] == BUILDER
    assert set(builder["version"]) == {"situ-release", "python", "zlib", "hatchling"}
    assert builder["version"]["zlib"] == zlib.ZLIB_RUNTIME_VERSION
    # And the bill of materials came through build and repair.
    assert subject.sbom.in_wheel
    check = subject.check("wheel.sbom")
    assert check is not None
    assert check.status == "pass"
    # Packed by other compression settings, this environment is no longer known to be the build's.
    raw_subject = read_subject(raw.path, gate=NOTHING, recipe=str(inputs.recipe_path))
    other = json.loads(statement(raw_subject))["predicate"]["runDetails"]["builder"]
    assert other == {"id": UNKNOWN_BUILDER}
