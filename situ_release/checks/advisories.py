"""What is known about the very binaries in the wheel, whatever its version is called."""

from __future__ import annotations

from collections.abc import Iterator

from situ_release.checks.context import Context
from situ_release.checks.model import Finding, fail, note, warn


def known(context: Context) -> Iterator[Finding]:
    """The recipe's advisories for binaries whose SHA-256 the wheel holds.

    Reported is a warning, reproduced a fault, refuted a note.
    """
    members: dict[str, list[str]] = {}
    for name, content in context.contents.items():
        members.setdefault(content.sha256, []).append(name)
    for advisory in context.recipe.advisories:
        for member in members.get(advisory.sha256, ()):
            message = f"{advisory.status}: {advisory.text} ({advisory.reference})"
            if advisory.status == "refuted":
                yield note(member, message)
            elif advisory.status == "reported":
                yield warn(member, message)
            else:
                yield fail(member, message)
