"""What a manylinux tag promises: which symbol versions and libraries every such host has.

auditwheel decides by the same data but says only that *something* is too new; here the answer names
the version, the symbols and the file, before any tool runs.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from situ_release import canonical
from situ_release.errors import Problem, ToolError, UsageError
from situ_release.sources.symbol_versions import VersionDemand, version_key

_MACHINE = "x86_64"
_LOADER = "ld-linux"  # part of the platform under every tag, so no policy lists it
_SYMBOLS_SHOWN = 3


@dataclass(frozen=True, slots=True)
class PlatformPolicy:
    """One platform tag.

    Attributes:
        tag: ``manylinux_2_39_x86_64``.
        priority: auditwheel's order; higher for older systems.
        versions: allowed symbol versions by their name, ``GLIBC`` -> {"2.2.5", "2.38"}.
        libraries: sonames that every such host has.
    """

    tag: str
    priority: int
    versions: Mapping[str, frozenset[str]]
    libraries: frozenset[str]

    def allows(self, version: str) -> bool:
        """Whether a symbol version ("GLIBC_2.38") is on every such host.

        Names that no policy knows (those of excluded libraries) are not the platform's affair.
        """
        name, _, number = version.partition("_")
        return name not in self.versions or number in self.versions[name]


def load_policies() -> tuple[PlatformPolicy, ...]:
    """All x86-64 manylinux policies of the installed auditwheel, oldest system first.

    Raises:
        ToolError: auditwheel is not installed, or keeps its policies elsewhere.
    """
    try:
        # Found without importing auditwheel, which would import all of pyelftools for one file.
        package = importlib.util.find_spec("auditwheel")
        if package is None or package.origin is None:
            raise ModuleNotFoundError("no module named auditwheel")
        file = Path(package.origin).parent / "policy" / "manylinux-policy.json"
        document = canonical.loads(file.read_bytes(), str(file))
        policies = [
            PlatformPolicy(
                tag=f"{entry['name']}_{_MACHINE}",
                priority=entry["priority"],
                versions={
                    name: frozenset(numbers)
                    for name, numbers in entry["symbol_versions"][_MACHINE].items()
                },
                libraries=frozenset(entry["lib_whitelist"]),
            )
            for entry in document
            if _MACHINE in entry["symbol_versions"]
        ]
    except (ImportError, OSError, KeyError, TypeError, AttributeError) as error:
        raise ToolError.of(
            "auditwheel's platform policies cannot be read",
            "auditwheel",
            expected="manylinux-policy.json of auditwheel 6.7 or newer",
            found=f"{type(error).__name__}: {error}",
            remedy="install auditwheel>=6.7 into this environment",
        ) from error
    return tuple(sorted(policies, key=lambda policy: -policy.priority))


def find_policy(tag: str, policies: Sequence[PlatformPolicy]) -> PlatformPolicy:
    """The policy of a platform tag.

    Raises:
        UsageError: there is none of that name.
    """
    for policy in policies:
        if policy.tag == tag:
            return policy
    raise UsageError.of(
        "unknown platform tag",
        f"--plat {tag}",
        expected=f"one of {', '.join(policy.tag for policy in policies)}",
        found=tag,
        remedy="name a manylinux tag of the form manylinux_X_Y_x86_64",
    )


def version_problems(
    demands: Sequence[VersionDemand],
    policy: PlatformPolicy,
    policies: Sequence[PlatformPolicy],
    where: str,
) -> Iterator[Problem]:
    """Symbol versions that are too new for a tag, one problem for each of GLIBC, GLIBCXX and so on.

    Args:
        demands: what the runner needs.
        policy: the wanted tag.
        policies: all tags, from which the remedy names the oldest that would do.
        where: the runner.
    """
    asked = [demand for demand in demands if _LOADER not in demand.library]
    refused: dict[str, list[VersionDemand]] = {}
    for demand in asked:
        if not policy.allows(demand.version):
            refused.setdefault(demand.version.partition("_")[0], []).append(demand)
    fitting = [each for each in policies if all(each.allows(one.version) for one in asked)]
    remedy = "compile the runner on an older system"
    remedy += f", or use --plat {fitting[0].tag}" if fitting else "; no manylinux tag fits it"
    for name, listed in sorted(refused.items()):
        highest = max(listed, key=lambda demand: _order(demand.version.partition("_")[2]))
        numbered = [number for number in policy.versions[name] if number[0].isdigit()]
        allowed = max(numbered, key=_order, default="")
        symbols = ", ".join(highest.symbols[:_SYMBOLS_SHOWN])
        more = ", …" if len(highest.symbols) > _SYMBOLS_SHOWN else ""
        yield Problem(
            f"needs {name} symbols that are too new for the tag",
            where,
            expected=f"at most {name}_{allowed} ({policy.tag})"
            if allowed
            else f"no {name} symbols",
            found=f"{highest.version}" + (f" ({symbols}{more})" if symbols else ""),
            remedy=remedy,
        )


def library_problems(
    needed: Iterable[str], policy: PlatformPolicy, excluded: Sequence[str], where: str
) -> Iterator[Problem]:
    """Needed libraries that nobody provides: auditwheel would copy them into the wheel.

    Args:
        needed: the runner's NEEDED entries.
        policy: the wanted tag.
        excluded: soname patterns of libraries that the host brings; a pattern matches the whole
            soname, so ``libcudart.so`` does not cover ``libcudart.so.13``.
        where: the runner.
    """
    for soname in needed:
        if soname in policy.libraries or _LOADER in soname:
            continue
        if not any(fnmatchcase(soname, pattern) for pattern in excluded):
            yield Problem(
                "needs a library that is neither the platform's nor excluded",
                where,
                expected=f"a library of {policy.tag}, or one that matches {', '.join(excluded)}",
                found=soname,
                remedy=f"exclude {soname.partition('.so')[0]}.so.* if the host brings it, else link"
                " it statically; no library is ever copied into the wheel",
            )


def _order(number: str) -> tuple[int, ...]:
    """Dotted numbers in their order; what is none (GLIBC_PRIVATE) comes last."""
    try:
        return version_key(number)
    except ValueError:
        return (sys.maxsize,)
