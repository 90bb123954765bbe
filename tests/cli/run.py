"""The command line as a user runs it: a process of its own, its two streams and its exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from situ_release.cli.schemas import schema


@dataclass(frozen=True)
class Result:
    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> dict[str, Any]:
        """The one JSON object on stdout, valid by the command's shipped schema."""
        document: dict[str, Any] = json.loads(self.stdout)
        Draft202012Validator(schema(document["command"])).validate(document)
        assert document["exit_code"] == self.code
        assert document["ok"] is (self.code == 0)
        return document


def situ(*arguments: object, cwd: Path | None = None, **environment: str | None) -> Result:
    """Run ``situ-release``; an environment value of None removes the variable."""
    env = {**os.environ, "COLUMNS": "80", "NO_COLOR": "1"}
    env.pop("SOURCE_DATE_EPOCH", None)
    for name, value in environment.items():
        env.pop(name, None)
        if value is not None:
            env[name] = value
    done = subprocess.run(
        [sys.executable, "-m", "situ_release", *map(str, arguments)],
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return Result(done.returncode, done.stdout, done.stderr)
