"""A verify report as SARIF 2.1.0, the format in which code hosts take findings of checkers.

The same report gives the same bytes: there is no time in it, and no path but the one given.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

from situ_release import __version__
from situ_release.canonical import dumps
from situ_release.checks.catalog import catalog
from situ_release.checks.model import CheckResult, Finding, VerifyReport
from situ_release.digests import sha256_bytes
from situ_release.text import printable

SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
DOCUMENTATION = "docs/checks.md"

_LEVELS = {"fail": "error", "warn": "warning", "note": "note"}


def sarif_text(report: VerifyReport, wheel: Path) -> str:
    """The document as canonical JSON.

    Args:
        report: what the checks found.
        wheel: the path as the user gave it; of an absolute one only the name is told.
    """
    return dumps(sarif_document(report, wheel))


def sarif_document(report: VerifyReport, wheel: Path) -> dict[str, Any]:
    """The document as JSON values; see :func:`sarif_text`."""
    ran = [check.id for check in report.checks]
    uri = quote(wheel.name if wheel.is_absolute() else wheel.as_posix())
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "situ-release",
                        "semanticVersion": __version__,
                        "rules": [_rule(check_id) for check_id in ran],
                    }
                },
                "artifacts": [
                    {
                        "location": {"uri": uri},
                        "length": report.wheel.size,
                        "hashes": {"sha-256": report.wheel.sha256},
                        "roles": ["analysisTarget"],
                    }
                ],
                "invocations": [
                    {"executionSuccessful": True, "exitCode": report.exit_code},
                ],
                "results": [
                    _result(number, check, finding, uri)
                    for number, check in enumerate(report.checks)
                    for finding in check.findings
                ],
                "columnKind": "unicodeCodePoints",
            }
        ],
    }


def _rule(check_id: str) -> dict[str, Any]:
    text = catalog()[check_id]
    causes = "".join(f"\n- {cause}" for cause in text.causes)
    return {
        "id": check_id,
        "shortDescription": {"text": _message(text.title)},
        "help": {
            "text": _message(f"Usual causes:{causes}\nWhat to do ({text.who}): {text.remedy}."),
        },
        "properties": {"tags": [check_id.split(".", 1)[0]]},
    }


def _result(number: int, check: CheckResult, finding: Finding, uri: str) -> dict[str, Any]:
    # What could not be checked keeps the report from being ok, so it is no mere warning.
    stopped = check.status == "skip" and finding is check.findings[-1]
    text = f"{finding.subject}: {finding.message}"
    if finding.remedy:
        text += f". What to do ({finding.who}): {finding.remedy}"
    identity = "\n".join((check.id, finding.subject, finding.message))
    return {
        "ruleId": check.id,
        "ruleIndex": number,
        "level": "error" if stopped else _LEVELS[finding.severity],
        "message": {"text": _message(printable(text))},
        "locations": [
            {
                "physicalLocation": {"artifactLocation": {"uri": uri, "index": 0}},
                "logicalLocations": [
                    {"fullyQualifiedName": printable(finding.subject), "kind": "member"}
                ],
            }
        ],
        "partialFingerprints": {"finding/v1": sha256_bytes(identity.encode("utf-8", "replace"))},
    }


def _message(text: str) -> str:
    r"""``text`` as a plain message: ``[a](b)`` would be a link, ``{0}`` a placeholder.

    Escapes as the standard has them (3.11.5, 3.11.6).
    """
    for special in "\\[]":
        text = text.replace(special, f"\\{special}")
    return text.replace("{", "{{").replace("}", "}}")
