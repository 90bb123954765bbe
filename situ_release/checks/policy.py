"""What a manylinux tag promises: libraries and symbol versions that every such host has.

The numbers are auditwheel's own policy file, read as data: the tool that repairs a wheel and the
check that judges it cannot drift apart, and auditwheel itself, slow to import, stays out of it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from situ_release.errors import HostError, InputError
from situ_release.sources.symbol_versions import version_key

_MACHINE = "x86_64"


@dataclass(frozen=True, slots=True)
class Policy:
    """The promise of one platform tag.

    Attributes:
        tag: ``manylinux_2_39_x86_64``.
        libraries: sonames that every host has.
        versions: allowed numbers by version name (``GLIBC`` -> ``2.38``, ``2.39``, …).
    """

    tag: str
    libraries: frozenset[str]
    versions: dict[str, frozenset[str]]

    def allows(self, version: str) -> bool:
        """Whether every host has the symbol version ``GLIBC_2.38``."""
        name, _, number = version.partition("_")
        return number in self.versions.get(name, ())

    def highest(self, name: str) -> str:
        """The highest allowed number of a version name; "none" where the tag knows no such name."""
        numbers = [text for text in self.versions.get(name, ()) if text.replace(".", "").isdigit()]
        return max(numbers, key=version_key, default="none")


def policy_for(tag: str) -> Policy:
    """The policy of a platform tag.

    Raises:
        InputError: auditwheel knows no such tag.
        HostError: auditwheel is not installed, or keeps its policies elsewhere.
    """
    name = tag.removesuffix(f"_{_MACHINE}")
    for policy in _policies():
        if policy["name"] == name:
            return Policy(
                tag,
                frozenset(policy["lib_whitelist"]),
                {key: frozenset(v) for key, v in policy["symbol_versions"][_MACHINE].items()},
            )
    known = (policy["name"] for policy in _policies() if policy["symbol_versions"])
    raise InputError.of(
        "there is no policy for the platform tag",
        tag,
        expected=f"{_MACHINE} and one of {', '.join(known)}",
        found=tag,
        remedy="name a tag that auditwheel knows in the recipe's wheel.platform_tag",
    )


@cache
def _policies() -> list[dict[str, Any]]:
    spec = find_spec("auditwheel")
    folder = Path(spec.origin).parent if spec and spec.origin else Path("auditwheel")
    path = folder / "policy" / "manylinux-policy.json"
    try:
        policies: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise HostError.of(
            "cannot read auditwheel's manylinux policies",
            path,
            expected="auditwheel 6.7 or newer beside situ-release",
            found=error.strerror or str(error),
            remedy="pip install 'auditwheel>=6.7'",
        ) from error
    return policies
