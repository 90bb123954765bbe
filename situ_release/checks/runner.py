"""Checks of the runner as the loader sees it: format, symbols, libraries, versions, stack."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from situ_release.checks.context import Context
from situ_release.checks.model import Finding, Unchecked, fail, false_claim, from_problem
from situ_release.checks.policy import Policy, policy_for
from situ_release.checks.providers import without_provider
from situ_release.errors import InputError
from situ_release.sources.runner import FFI_PREFIX
from situ_release.sources.symbol_versions import TRACKED

_LOADER = "ld-linux-x86-64.so.2"


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
    member, recipe, runner = context.runner_member, context.recipe, context.runner
    wanted = [f"{FFI_PREFIX}{name}" for name in recipe.runner.ffi_symbols]
    for name in (*wanted, *recipe.runner.c_symbols):
        if name not in runner.exports:
            yield fail(member, f"the runner does not export {name}")
    for symbol, looked_in in without_provider(runner, recipe):
        when = (
            "the process dies at the first call of it"
            if symbol.kind == "function"
            else "the runner cannot be opened"
        )
        yield fail(
            member,
            f"nobody defines the {symbol.kind} {symbol.name}, so {when}",
            expected="a provider",
            found=f"none in {looked_in}",
        )


def needed(context: Context) -> Iterator[Finding]:
    """NEEDED holds the CUDA libraries of the recipe and else only what the tag promises."""
    member, recipe, runner = context.runner_member, context.recipe, context.runner
    for soname in (recipe.runtime.cuda_driver_soname, recipe.runtime.cuda_runtime_soname):
        if soname not in runner.needed:
            yield fail(
                member,
                "the runner does not need a library that the recipe names",
                expected=soname,
                found=", ".join(runner.needed) or "none",
            )
    policy = _policy(context)
    if isinstance(policy, Finding):
        yield policy
        return
    for library in runner.needed:
        promised = library in policy.libraries or library == _LOADER
        if not promised and not any(fnmatchcase(library, rule) for rule in recipe.wheel.exclude):
            yield fail(
                member,
                f"the runner needs {library}",
                expected=f"libraries that {policy.tag} promises or the recipe's "
                f"wheel.exclude allows ({', '.join(recipe.wheel.exclude)})",
                found=library,
            )
    claimed = context.manifest.runner.needed
    if claimed is not None and tuple(claimed) != runner.needed:
        yield false_claim(member, "runner.needed", ", ".join(claimed), ", ".join(runner.needed))


def versions(context: Context) -> Iterator[Finding]:
    """No symbol version is newer than the tag promises; the manifest's minimums are true."""
    member, runner = context.runner_member, context.runner
    policy = _policy(context)
    if isinstance(policy, Finding):
        yield policy
        return
    for demand in runner.version_demands:
        if demand.library not in policy.libraries or policy.allows(demand.version):
            continue
        name = demand.version.partition("_")[0]
        symbols = ", ".join(demand.symbols[:3]) or "its version table"
        more = f" and {len(demand.symbols) - 3} more" if len(demand.symbols) > 3 else ""
        yield fail(
            member,
            f"the runner needs {demand.version} of {demand.library}",
            expected=f"at most {name}_{policy.highest(name)} for {policy.tag}",
            found=f"{demand.version} for {symbols}{more}",
        )
    claimed = context.manifest.runner.minimum_versions
    if claimed is not None and claimed != dict(runner.minimum_versions):
        yield false_claim(
            member,
            "runner.minimum_versions",
            _versions(claimed),
            _versions(dict(runner.minimum_versions)),
        )


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


def _policy(context: Context) -> Policy | Finding:
    try:
        return policy_for(context.recipe.wheel.platform_tag)
    except InputError as error:
        return from_problem(error.problems[0])


def _versions(versions: dict[str, str]) -> str:
    return ", ".join(f"{name}_{versions[name]}" for name in TRACKED if name in versions) or "none"
