"""The page of an inspection."""

from __future__ import annotations

from situ_release.inspection.facts.bundle import ManifestFacts
from situ_release.inspection.facts.cubin import CubinFacts
from situ_release.inspection.facts.header import HeaderFacts
from situ_release.inspection.facts.runner import RunnerFacts
from situ_release.inspection.facts.snapshot import SnapshotFacts
from situ_release.inspection.facts.wheel import PayloadFacts, WheelFacts
from situ_release.inspection.inspect import Inspection
from situ_release.inspection.pages.cubin import cubin_page
from situ_release.inspection.pages.page import Page
from situ_release.inspection.pages.pool import header_page, pools_page
from situ_release.inspection.pages.runner import runner_page
from situ_release.inspection.pages.snapshot import snapshot_page
from situ_release.inspection.pages.wheel import manifest_page, payload_page, wheel_page


def inspection_page(inspection: Inspection) -> Page:
    """What was found, for people."""
    path, facts = inspection.path, inspection.facts
    if isinstance(facts, CubinFacts):
        return cubin_page(path, facts)
    if isinstance(facts, RunnerFacts):
        return runner_page(path, facts)
    if isinstance(facts, HeaderFacts):
        return header_page(path, facts)
    if isinstance(facts, ManifestFacts):
        return manifest_page(path, facts)
    if isinstance(facts, WheelFacts):
        return wheel_page(path, facts)
    if isinstance(facts, PayloadFacts):
        return payload_page(path, facts)
    if isinstance(facts, SnapshotFacts):
        return snapshot_page(path, facts)
    return pools_page(path, facts.pools)
