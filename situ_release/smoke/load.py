"""Tier ``load`` inside the child: the runner answers which tactics it has.

Nothing here launches a kernel, so any NVIDIA device will do; the runner asks the CUDA runtime for
the device it is on, and its answers depend on that device's SM.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from situ_release.smoke.child import Report
from situ_release.smoke.package import open_package, open_runner, query_tactics


def load(request: Mapping[str, Any], report: Report) -> None:
    """Child task: open the runner and report an event ``tactics`` per contract and token count.

    Args:
        request: what :mod:`situ_release.smoke.package` asks for, ``contracts`` (as in the recipe)
            and ``tokens`` (list of token counts).
        report: receives ``step`` events, and ``tactics`` events with ``contract``, ``tokens`` and
            ``tactics`` [[tile_n, config]].

    Raises:
        HostError: this host lacks a library, or has too old a one.
        FaultError: import, opening or an answer is wrong.
    """
    # apache-tvm-ffi imports torch where it is installed: seconds, for nothing in this tier.
    sys.modules["torch"] = None  # type: ignore[assignment]
    package = open_package(request, report)
    module = open_runner(package, request, report)
    for contract in request["contracts"]:
        for tokens in request["tokens"]:
            report("step", {"step": f"tactics of {contract['name']} at {tokens} tokens"})
            pairs = query_tactics(module, request, contract, tokens)
            fields = {"contract": contract["name"], "tokens": tokens, "tactics": pairs}
            report("tactics", fields)
