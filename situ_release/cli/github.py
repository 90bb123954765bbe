"""What GitHub Actions shows of a verify report: annotations and a step summary.

Names and texts come out of wheels, so everything is escaped: an annotation's text cannot begin
another workflow command, and nothing in the summary is markup but what is written here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from situ_release.errors import InputError
from situ_release.text import printable

if TYPE_CHECKING:
    from situ_release.checks.model import VerifyReport

_COMMANDS = {"fail": "error", "warn": "warning"}
_SHOWN_FINDINGS = 200
_SHOWN_LENGTH = 600
_MARKUP = re.compile(r"([\\`*_\[\]<>|~&$#@!:])")


def on_github() -> bool:
    """Whether this is a step of a workflow."""
    return os.environ.get("GITHUB_ACTIONS") == "true"


def inert(text: str) -> str:
    """One line that the runner does not take for a workflow command, wherever it came from.

    The runner looks for ``::`` where a line begins, whatever white space stands before it, and for
    ``##[`` anywhere. Source: actions/runner, ``ActionCommand.cs``.
    """
    if not on_github():
        return text
    if text.lstrip().startswith("::"):
        text = text.replace("::", ": :", 1)
    return text.replace("##[", "# #[")


def inert_json(text: str) -> str:
    """JSON of the same value that holds no workflow command."""
    return text.replace("##[", "\\u0023#[") if on_github() else text


def annotation_lines(report: VerifyReport, wheel: Path) -> Iterator[str]:
    """Workflow commands: an error or a warning for every finding that is no note.

    Source of the escapes: actions/toolkit, ``packages/core/src/command.ts``.
    """
    for check in report.checks:
        for finding in check.findings:
            if finding.severity == "note":
                continue
            stopped = check.status == "skip" and finding is check.findings[-1]
            command = "error" if stopped else _COMMANDS[finding.severity]
            title, file = _property(check.id), _property(wheel.as_posix())
            text = _data(f"{finding.subject}: {finding.message} -> {finding.who}: {finding.remedy}")
            yield f"::{command} file={file},title={title}::{text}"


def _data(text: str) -> str:
    return printable(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def write_summary(report: VerifyReport) -> None:
    """Append the report to the step's summary, if the step has one.

    Raises:
        InputError: the file that the environment names cannot be written.
    """
    path = os.environ.get("GITHUB_STEP_SUMMARY")
    if not path:
        return
    try:
        with open(path, "a", encoding="utf-8") as stream:
            stream.write(summary(report))
    except OSError as error:
        raise InputError.of(
            "cannot write the step summary",
            path,
            expected="a file that can be appended to",
            found=error.strerror or str(error),
            remedy="check GITHUB_STEP_SUMMARY, or unset it",
        ) from error


def summary(report: VerifyReport) -> str:
    """The report in GitHub's Markdown: the verdict, then a table of what is open or to be known."""
    counts = ", ".join(f"{count} {status}" for status, count in report.summary.items())
    lines = [
        f"### {_escaped(report.wheel.filename)}: {report.verdict}",
        "",
        f"{counts}. {report.wheel.size:,} bytes, SHA-256 `{report.wheel.sha256}`",
        "",
    ]
    rows = [
        f"| {check.status} | {_escaped(check.id)} | {_escaped(finding.subject)} "
        f"| {_escaped(finding.message)} | {_escaped(finding.who)}: {_escaped(finding.remedy)} |"
        for check in report.checks
        for finding in check.findings
        if finding.severity != "note"
    ]
    if rows:
        lines += ["| status | check | subject | finding | to do |", "|---|---|---|---|---|"]
        lines += rows[:_SHOWN_FINDINGS]
    if len(rows) > _SHOWN_FINDINGS:
        lines += ["", f"{len(rows) - _SHOWN_FINDINGS} further findings are in the log."]
    return "\n".join([*lines, "", ""])


def _escaped(text: str) -> str:
    r"""Literal text in a table cell: no markup, HTML, link, mention, emoji or formula."""
    text = printable(text)
    if len(text) > _SHOWN_LENGTH:
        text = f"{text[:_SHOWN_LENGTH]}…"
    return _MARKUP.sub(r"\\\1", text)
