"""Tier ``rehearsal`` in the parent: what it needs, what it asks the child, what that means."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from situ_release.bundle.evidence import Case, NotRun
from situ_release.errors import HostError
from situ_release.smoke.rehearsal.judge import Judge
from situ_release.smoke.rehearsal.plan import ContractPlan
from situ_release.smoke.rehearsal.stubs import Stubs, compile_stubs
from situ_release.smoke.rehearsal.sysroot import host_problems, python_in
from situ_release.smoke.run import Run, TierResult, conclude
from situ_release.smoke.tiers.needs import host_glibc
from situ_release.sources.kernel_name import kernel_of_filename
from situ_release.sources.sm_target import target_name

LIMIT_S = 120.0

MULTIPROCESSORS = 148
"""What the claimed device has, as a B300: it tips the scales between kernels that tie."""

PROVES = (
    "numerics, device code and timing: a rehearsal executes no kernel; it proves selection and "
    "plumbing, that is which kernels the runner launches and that their arguments are right"
)


def rehearsal(run: Run) -> TierResult:
    """Rehearse every contract on a claimed device, without a GPU.

    Raises:
        InputError: the sysroot lacks libraries.
    """
    try:
        python = _python(run)
        with tempfile.TemporaryDirectory(prefix="situ-rehearsal-") as folder:
            runtime = run.recipe.runtime
            stubs = compile_stubs(
                Path(folder),
                runtime.cuda_driver_soname,
                runtime.cuda_runtime_soname,
                run.runner,
                run.recipe.runner.file,
            )
            return _rehearse(run, stubs, python)
    except HostError as error:
        if error.log_tail:
            run.logs.append(error.log_tail)
        return TierResult(error.problems, refused=True)


def _python(run: Run) -> list[str]:
    sysroot = run.options.sysroot
    glibc = host_glibc()
    if sysroot is not None:
        runtime = run.recipe.runtime
        external = frozenset({runtime.cuda_driver_soname, runtime.cuda_runtime_soname})
        return python_in(sysroot, run.runner, external, glibc)
    problems = tuple(host_problems(run.runner, run.recipe.runner.file, glibc))
    if problems:
        raise HostError(*problems)
    return [sys.executable]


def _rehearse(run: Run, stubs: Stubs, python: list[str]) -> TierResult:
    targets = run.recipe.target.sms
    sm = run.options.claim_sm or targets[0]
    whole = sm in targets
    plans = {
        contract.name: ContractPlan(run.model, contract, sm) for contract in run.recipe.contracts
    }
    device = f"a claimed {target_name(sm)} with {MULTIPROCESSORS} multiprocessors"
    system = "this host's libraries" if run.options.sysroot is None else "the sysroot's libraries"
    reasons = [f"{PROVES}; here on {device}, with {system}"]
    if not whole:
        reasons.append(f"whole calls: the bundle is not made for {target_name(sm)}")
    run.not_run += (NotRun(tier="rehearsal", reason=reason) for reason in reasons)
    run.cases.append(
        Case(
            tier="rehearsal",
            subject="claimed device",
            status="pass",
            figures={"sm": sm, "multiprocessors": MULTIPROCESSORS},
        )
    )
    request = run.request(
        runner=str(
            run.bundle.root / run.recipe.package.import_name / run.bundle.manifest.runner.path
        ),
        driver=str(stubs.driver),
        runtime=str(stubs.runtime),
        sm=sm,
        multiprocessors=MULTIPROCESSORS,
        problems=[
            {
                "contract": plan.contract.model_dump(mode="json"),
                "tokens": problem.tokens,
                "tactics": problem.tactics if whole else (),
            }
            for plan in plans.values()
            for problem in plan.problems
        ],
    )
    outcome = run.child("rehearsal", "rehearsal", request, LIMIT_S, python=python)
    cubins = {kernel_of_filename(entry.filename): entry for entry in run.bundle.manifest.cubins}
    judge = Judge(plans, cubins, whole=whole)
    judge.hear(outcome)
    run.cases += judge.cases
    return conclude([outcome], [*judge.problems, *outcome.problems])
