"""One module per command: its options, the library call, and how the outcome is shown."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

COMMANDS = {
    "recover": "Turn a published wheel back into stage inputs.",
    "build-runner": "Compile a recipe's own cubins and runner (nvcc).",
    "stage-assets": "Prove that the sources agree and write the payload.",
    "build": "Build the payload's wheel, reproducibly, with no index.",
    "repair": "Give the wheel its manylinux tag and canonical form.",
    "verify": "Check everything about a wheel, list every finding.",
    "coverage": "Prove that every selectable kernel is bundled.",
    "gpu-smoke": "Run the compiled runner and take down evidence.",
    "report": "Write the documents that reviewers decide from.",
    "approve": "Record a reviewer's signed decision about a wheel.",
    "inspect": "Show what a file or folder says about itself.",
    "diff": "Show what changed between two wheels, payloads, pools.",
}
"""What ``--help`` says of each command, in the order of the flow."""


def command_function(name: str) -> Callable[..., None]:
    """The function of a command, from the module of its name; no other command is imported."""
    identifier = name.replace("-", "_")
    function: Callable[..., None] = getattr(import_module(f"{__name__}.{identifier}"), identifier)
    return function
