"""Checks of the runner as the loader sees it: format, symbols, libraries, versions, stack."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from situ_release.bundle.symbols import symbol_problems
from situ_release.checks.context import Context
from situ_release.checks.model import Finding, Unchecked, fail, false_claim, from_problem
from situ_release.errors import UsageError
from situ_release.wheel.policy import (
    find_policy,
    library_problems,
    load_policies,
    version_problems,
)


def readable(context: Context) -> Iterator[Finding]:
    """The runner is an x86-64 shared object, of the build that the manifest names."""
    member = context.runner_member
    if member not in context.contents:
        raise Unchecked("manifest.files", member)
    runner = context.runner_or_problems
    if isinstance(runner, tuple):
        yield from map(from_problem, runner)
        return
    entry = context.manifest.runner
    if entry.build_id not in (None, runner.build_id):
        yield false_claim(member, "runner.build_id", entry.build_id, runner.build_id)
    if entry.compiler is not None and tuple(entry.compiler) != runner.compilers:
        yield false_claim(
            member, "runner.compiler", "; ".join(entry.compiler), "; ".join(runner.compilers)
        )


def symbols(context: Context) -> Iterator[Finding]:
    """Entry points are exported; undefined symbols have a provider."""
    policy = context.recipe.runner
    yield from map(from_problem, symbol_problems(context.runner, policy, context.runner_member))


def needed(context: Context) -> Iterator[Finding]:
    """NEEDED holds the CUDA libraries of the recipe and else only what the tag promises."""
    member, recipe, runner = context.runner_member, context.recipe, context.runner
    for soname in (recipe.runtime.cuda_driver_soname, recipe.runtime.cuda_runtime_soname):
        if soname not in runner.needed:
            yield fail(
                member,
                "the runner does not need a library that the recipe names",
                expected=soname,
                found=", ".join(runner.needed) or "no needed library",
            )
    try:
        policy = find_policy(recipe.wheel.platform_tag, load_policies())
    except UsageError as error:
        yield _no_policy(context, error)
        return
    problems = library_problems(runner.needed, policy, recipe.wheel.exclude, member)
    yield from map(from_problem, problems)
    claimed = context.manifest.runner.needed
    if claimed is not None and tuple(claimed) != runner.needed:
        yield false_claim(member, "runner.needed", ", ".join(claimed), ", ".join(runner.needed))


def versions(context: Context) -> Iterator[Finding]:
    """No symbol version is newer than the tag promises; the manifest's minimums are true."""
    member, runner, policies = context.runner_member, context.runner, load_policies()
    try:
        policy = find_policy(context.recipe.wheel.platform_tag, policies)
    except UsageError as error:
        yield _no_policy(context, error)
        return
    problems = version_problems(runner.version_demands, policy, policies, member)
    yield from map(from_problem, problems)
    claimed = context.manifest.runner.minimum_versions
    if claimed is not None and claimed != runner.minimum_versions:
        yield false_claim(
            member,
            "runner.minimum_versions",
            _versions(claimed),
            _versions(runner.minimum_versions),
        )


def _no_policy(context: Context, error: UsageError) -> Finding:
    problem = error.problems[0]
    return fail(
        context.loaded_recipe.path.name,
        "the recipe's wheel.platform_tag is none that auditwheel knows",
        expected=problem.expected,
        found=context.recipe.wheel.platform_tag,
        remedy="correct the recipe",
    )


def _versions(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name}_{number}" for name, number in sorted(versions.items()))


def rpath(context: Context) -> Iterator[Finding]:
    """No search path is compiled in."""
    for name, found in (("RPATH", context.runner.rpath), ("RUNPATH", context.runner.runpath)):
        if found is not None:
            yield fail(
                context.runner_member,
                f"a library search path ({name}) is compiled in",
                expected="none",
                found=found or "an empty one",
            )


def stack(context: Context) -> Iterator[Finding]:
    """The stack need not be executable."""
    if context.runner.executable_stack:
        yield fail(
            context.runner_member,
            "the runner asks for an executable stack",
            expected="a PT_GNU_STACK header without the executable flag",
            found="none, or one with it",
        )
