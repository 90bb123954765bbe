"""Child process: the suite's own numerics on the compiled runner and the emulated device.

`python -m tests.conformance.emulated_suite BUILD`, with the emulator's folder on LD_LIBRARY_PATH;
prints the events of both precisions, one JSON object a line.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch

from situ_release.bundle.coverage import CoverageModel
from situ_release.bundle.recipe import load_recipe
from situ_release.smoke.cases import Planner
from situ_release.smoke.metrics import Tolerance
from situ_release.smoke.numerics import ContractCheck
from situ_release.smoke.session import Session
from situ_release.sources.kernel_name import kernel_of_filename
from situ_release.sources.runner import read_runner
from tests.conformance.emulated_runner import EmulatedRunner

SM = 90
SIZES = {
    "num_experts": 8,
    "local_num_experts": 4,
    "expert_parallel_size": 2,
    "tensor_parallel_size": 1,
    "top_k": 4,
    "hidden_size": 256,
    "physical_intermediate_size": 256,
}


def main(build: Path) -> None:
    torch.set_num_threads(1)
    runner = EmulatedRunner(build)
    recipe = load_recipe("situ-conformance-sm90").recipe
    (module,) = build.glob("*.so")
    table = read_runner(module.read_bytes(), module.name).kernel_table
    model = CoverageModel(recipe, table)
    policy = recipe.smoke.model_copy(update={"tokens": [0, 1, 5], "full_tokens": [1]})
    tolerance = Tolerance(**recipe.smoke.tolerance.model_dump(exclude={"reason"}))

    def report(event, fields=None):
        print(json.dumps({**(fields or {}), "event": event}), flush=True)

    def moe(inputs, output, tactic, *, finalize=True, foreign=False):
        return runner.moe(*inputs.arguments(output, tactic, finalize=finalize))

    def fetched():
        names, runner.requests[:] = [kernel_of_filename(name) for name in runner.requests], []
        return names

    for precision in ("w4a16", "w4a8"):
        real = next(item for item in recipe.contracts if item.precision == precision)
        contract = real.model_copy(update=SIZES)
        tiles = model.tiles(contract, SM)
        planner = Planner(contract, model.gated_act(contract), tiles, model.rules, policy)
        session = Session(report, "cpu", moe, fetched, "")
        ContractCheck(session, contract, planner.full(), tolerance, 1, [1]).run(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
