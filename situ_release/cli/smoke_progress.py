"""What ``gpu-smoke`` shows while it runs: a table on a terminal, a line for each tier elsewhere."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from situ_release.cli.console import Console

if TYPE_CHECKING:
    from situ_release.smoke.suite import Update

_STYLES = {"pass": "green", "fail": "red", "refused": "yellow"}


@dataclass
class _Row:
    status: str = "waiting"
    cases: int = 0
    failed: int = 0
    step: str = ""
    began: float = 0.0
    ended: float = 0.0

    def seconds(self) -> str:
        if not self.began:
            return ""
        return f"{(self.ended or time.monotonic()) - self.began:.1f} s"


@dataclass
class SmokeProgress:
    """Collects updates of a run; :meth:`table` draws them."""

    console: Console
    tiers: Sequence[str]
    rows: dict[str, _Row] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rows = {name: _Row() for name in self.tiers}

    def update(self, update: Update) -> None:
        """Take in where the run is."""
        row = self.rows.get(update.tier)
        if row is None:
            return
        row.began = row.began or time.monotonic()
        row.status = update.status or "running"
        row.cases, row.failed, row.step = update.cases, update.failed, update.step
        if update.status:
            row.ended = time.monotonic()
        if not self.console.drawing:
            self._print(update, row)

    def table(self) -> Any:
        """The table as it is now."""
        from rich.table import Table

        table = Table(box=None, pad_edge=False)
        for name in ("tier", "status", "cases", "elapsed", "now"):
            table.add_column(name, justify="right" if name in ("cases", "elapsed") else "left")
        for name, row in self.rows.items():
            style = _STYLES.get(row.status, "dim" if row.status == "waiting" else "")
            cases = f"{row.cases}, {row.failed} failed" if row.failed else str(row.cases or "")
            table.add_row(name, row.status, cases, row.seconds(), row.step, style=style)
        return table

    def _print(self, update: Update, row: _Row) -> None:
        if update.status:
            self.console.line(f"{update.tier:<12} {update.status:<8} {row.seconds():>8}")
        elif self.console.verbose:
            self.console.line(f"  {update.tier}: {update.step}", meaning="dim")
