"""One module per command: its options, the library call, and how the outcome is shown."""

from __future__ import annotations

from collections.abc import Callable

from situ_release.cli.commands.approve import approve
from situ_release.cli.commands.build import build
from situ_release.cli.commands.build_runner import build_runner
from situ_release.cli.commands.coverage import coverage
from situ_release.cli.commands.diff import diff
from situ_release.cli.commands.gpu_smoke import gpu_smoke
from situ_release.cli.commands.inspect import inspect
from situ_release.cli.commands.recover import recover
from situ_release.cli.commands.repair import repair
from situ_release.cli.commands.report import report
from situ_release.cli.commands.stage_assets import stage_assets
from situ_release.cli.commands.verify import verify

COMMANDS: dict[str, Callable[..., None]] = {
    "recover": recover,
    "build-runner": build_runner,
    "stage-assets": stage_assets,
    "build": build,
    "repair": repair,
    "verify": verify,
    "coverage": coverage,
    "gpu-smoke": gpu_smoke,
    "report": report,
    "approve": approve,
    "inspect": inspect,
    "diff": diff,
}
"""Every command in the order of the flow, which is also the order of ``--help``."""
