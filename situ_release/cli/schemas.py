"""The JSON Schemas that ship with the package, generated from the models they describe.

``data/schemas/<name>.schema.json`` holds one per command's output and one per document;
``make schemas`` writes them and a test compares.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from situ_release import resources

if TYPE_CHECKING:
    from pydantic import BaseModel

DIALECT = "https://json-schema.org/draft/2020-12/schema"

_PROBLEM_FIELDS = ("what", "where", "expected", "found", "remedy")


def all_schemas() -> dict[str, dict[str, Any]]:
    """Every schema by file stem (``verify``, ``recipe``, …)."""
    return {**document_schemas(), **command_schemas()}


def document_schemas() -> dict[str, dict[str, Any]]:
    """Schemas of the documents that situ-release reads and writes."""
    from pydantic import TypeAdapter

    from situ_release.bundle.approvals import Approvals
    from situ_release.bundle.evidence import Evidence
    from situ_release.bundle.lock import Lock
    from situ_release.bundle.manifest import Manifest
    from situ_release.bundle.recipe import Recipe
    from situ_release.bundle.tactics import TacticRules
    from situ_release.report.model import Document
    from situ_release.sources.marker import RecoveredMarker

    models: dict[str, type[BaseModel]] = {
        "recipe": Recipe,
        "lock": Lock,
        "manifest": Manifest,
        "recovered": RecoveredMarker,
        "tactic-rules": TacticRules,
        "evidence": Evidence,
        "approvals": Approvals,
    }
    schemas = {name: model.model_json_schema(by_alias=True) for name, model in models.items()}
    schemas["provenance"] = _closed(TypeAdapter(Document).json_schema())
    return {name: {"$schema": DIALECT} | schema for name, schema in schemas.items()}


def command_schemas() -> dict[str, dict[str, Any]]:
    """Schemas of the JSON object that each command prints, failures included."""
    from situ_release.cli.output.approve import ApproveOutput
    from situ_release.cli.output.build import BuildOutput
    from situ_release.cli.output.build_runner import BuildRunnerOutput
    from situ_release.cli.output.coverage import CoverageOutput
    from situ_release.cli.output.diff import DiffOutput
    from situ_release.cli.output.gpu_smoke import SmokeOutput
    from situ_release.cli.output.inspect import InspectOutput
    from situ_release.cli.output.recover import RecoverOutput
    from situ_release.cli.output.report import ReportOutput
    from situ_release.cli.output.stage_assets import ExplainOutput, StageOutput
    from situ_release.cli.output.verify import VerifyOutput

    records: dict[str, tuple[type, ...]] = {
        "recover": (RecoverOutput,),
        "build-runner": (BuildRunnerOutput,),
        "stage-assets": (StageOutput, ExplainOutput),
        "build": (BuildOutput,),
        "repair": (BuildOutput,),
        "verify": (VerifyOutput,),
        "coverage": (CoverageOutput,),
        "gpu-smoke": (SmokeOutput,),
        "report": (ReportOutput,),
        "approve": (ApproveOutput,),
        "inspect": (InspectOutput,),
        "diff": (DiffOutput,),
        "situ-release": (),  # a command line that names no command
    }
    return {name: _command_schema(name, kinds) for name, kinds in records.items()}


def schema(name: str) -> dict[str, Any]:
    """A shipped schema by its file stem."""
    from situ_release.canonical import load

    document: dict[str, Any] = load(resources.DATA / "schemas" / f"{name}.schema.json")
    return document


def _closed(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of records with all of their keys demanded and no others allowed."""
    for part in (schema, *schema.get("$defs", {}).values()):
        if "properties" in part:
            part["required"] = list(part["properties"])
            part["additionalProperties"] = False
    return schema


def _command_schema(command: str, records: tuple[type, ...]) -> dict[str, Any]:
    definitions: dict[str, Any] = {}
    envelope = {
        "command": {"const": command},
        "schema": {"const": f"situ-release/{command}/1"},
        "ok": {"type": "boolean"},
        "exit_code": {"enum": [0, 1, 2, 3, 4, 5, 70, 130, 141]},
    }
    error = {
        "type": "object",
        "properties": {name: {"type": "string"} for name in _PROBLEM_FIELDS},
        "required": list(_PROBLEM_FIELDS),
        "additionalProperties": False,
    }
    errors = {
        "error": error,
        "errors": {"type": "array", "items": error, "minItems": 1},
    }
    failure = {
        "type": "object",
        "title": "Failure",
        "properties": envelope | {"ok": {"const": False}} | errors,
        "required": [*envelope, *errors],
        "additionalProperties": False,
    }
    outcomes = [_outcome(record, envelope, errors, definitions) for record in records]
    return {
        "$schema": DIALECT,
        "title": f"situ-release {command}",
        "anyOf": [*outcomes, failure],
        "$defs": definitions,
    }


def _outcome(
    record: type, envelope: dict[str, Any], errors: dict[str, Any], definitions: dict[str, Any]
) -> dict[str, Any]:
    from pydantic import TypeAdapter

    own = TypeAdapter(record).json_schema()
    definitions.update(own.pop("$defs", {}))
    return {
        "type": "object",
        "title": own["title"],
        "description": own.get("description", ""),
        "properties": envelope | own["properties"] | errors,
        "required": [*envelope, *own["properties"]],
        "additionalProperties": False,
    }
