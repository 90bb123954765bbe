"""Everything that one path says about itself."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Union

from situ_release.inspection.facts.bundle import ManifestFacts, manifest_facts
from situ_release.inspection.facts.cubin import CubinFacts, cubin_facts
from situ_release.inspection.facts.header import HeaderFacts, header_facts
from situ_release.inspection.facts.pool import PoolFacts, pool_facts
from situ_release.inspection.facts.runner import RunnerFacts, runner_facts
from situ_release.inspection.facts.snapshot import SnapshotFacts, snapshot_facts
from situ_release.inspection.facts.wheel import (
    PayloadFacts,
    WheelFacts,
    payload_facts,
    wheel_facts,
)
from situ_release.inspection.identify import Kind, identify, unknown
from situ_release.sources.pool import open_pools


@dataclass(frozen=True, slots=True)
class PoolsFacts:
    """The pools in one place, in sorted order."""

    pools: tuple[PoolFacts, ...]


Facts = Union[  # noqa: UP007 - evaluated at run time on Python 3.10
    CubinFacts,
    RunnerFacts,
    HeaderFacts,
    ManifestFacts,
    PoolsFacts,
    WheelFacts,
    PayloadFacts,
    SnapshotFacts,
]


@dataclass(frozen=True, slots=True)
class Inspection:
    """What ``path`` is and what it says."""

    path: Path
    kind: Kind
    facts: Facts


def inspect_path(path: Path) -> Inspection:
    """Read everything that a file or folder says about itself.

    Args:
        path: a cubin, a host library, a metadata header, a manifest, a wheel, a staged payload, a
            pool or a snapshot; also a file or folder inside a wheel or zip (``x.whl/inner``).

    Raises:
        InputError: it is missing, damaged or nothing of the kind; the problem says what it is.
        HostError: it is a git checkout and git is not installed, or memory is short.
        ToolError: git failed.
    """
    identified = identify(path)
    kind, data, where = identified.kind, identified.data, str(path)
    facts: Facts
    if kind == "cubin":
        facts = cubin_facts(data, where)
    elif kind == "runner":
        facts = runner_facts(data, where)
    elif kind == "metadata-header":
        facts = header_facts(data, where)
    elif kind == "manifest":
        facts = manifest_facts(data, where)
    elif kind == "pool":
        facts = PoolsFacts(tuple(map(pool_facts, open_pools(path))))
    elif kind == "wheel":
        facts = wheel_facts(path)
    elif kind == "snapshot":
        facts = snapshot_facts(path)
    elif identified.files is not None:
        facts = payload_facts(identified.files)
    else:
        raise unknown(path, kind)
    return Inspection(path, kind, facts)
