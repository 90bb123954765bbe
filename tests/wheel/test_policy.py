from __future__ import annotations

import importlib.util

import pytest

from situ_release.errors import ToolError, UsageError
from situ_release.sources.symbol_versions import VersionDemand
from situ_release.wheel import policy as policy_module
from situ_release.wheel.policy import (
    find_policy,
    library_problems,
    load_policies,
    version_problems,
)

POLICIES = load_policies()
NEW, OLD = (find_policy(f"manylinux_2_{n}_x86_64", POLICIES) for n in (39, 28))


def refused(*versions: str, tag: str = "manylinux_2_28_x86_64", library: str = "libc.so.6"):
    demands = [VersionDemand(version, library, ("f", "g")) for version in versions]
    policy = find_policy(tag, POLICIES)
    return [str(item) for item in version_problems(demands, policy, POLICIES, "runner.so")]


def test_policies_are_auditwheels_own() -> None:
    assert POLICIES[0].tag == "manylinux_2_5_x86_64"
    assert "libstdc++.so.6" in NEW.libraries
    assert NEW.allows("GLIBC_2.38")
    assert not OLD.allows("GLIBC_2.38")
    assert OLD.allows("libcudart.so.13_1")


def test_too_new_symbols_say_which_and_what_would_do() -> None:
    glibc, glibcxx = refused("GLIBC_2.2.5", "GLIBC_2.34", "GLIBC_2.38", "GLIBCXX_3.4.32")
    assert glibc == (
        "runner.so: needs GLIBC symbols that are too new for the tag: expected at most GLIBC_2.28 "
        "(manylinux_2_28_x86_64), found GLIBC_2.38 (f, g); compile the runner on an older system, "
        "or use --plat manylinux_2_39_x86_64"
    )
    assert "expected at most GLIBCXX_3.4.24 (" in glibcxx
    assert "found GLIBCXX_3.4.32 (f, g); compile" in glibcxx


def test_what_no_tag_allows() -> None:
    (problem,) = refused("GLIBC_PRIVATE", "GLIBC_2.34")
    assert "found GLIBC_PRIVATE" in problem
    assert problem.endswith("compile the runner on an older system; no manylinux tag fits it")


def test_what_fits() -> None:
    assert refused("GLIBC_2.28", "GLIBCXX_3.4.24", "libcudart.so.13", "OTHER_9") == []
    assert refused("GLIBC_2.99", library="ld-linux-x86-64.so.2") == []
    assert refused("GLIBC_ABI_DT_RELR", tag="manylinux_2_39_x86_64") == []


@pytest.mark.parametrize(
    ("soname", "excluded", "fine"),
    [
        ("libc.so.6", [], True),
        ("ld-linux-x86-64.so.2", [], True),
        ("libcudart.so.13", ["libcudart.so.*"], True),
        ("libcudart.so.13", ["libcudart.so"], False),
        ("libcudart.so.13", ["LIBCUDART.so.*"], False),
        ("libtvm_ffi.so", ["libtvm_ffi.so*"], True),
        ("libfoo.so.1", ["libcuda.so.*"], False),
    ],
)
def test_libraries_that_nobody_provides(soname: str, excluded: list[str], fine: bool) -> None:
    problems = [str(item) for item in library_problems([soname], NEW, excluded, "runner.so")]
    assert (problems == []) is fine
    if problems:
        assert f"found {soname}" in problems[0]


def test_unknown_tag() -> None:
    for tag in ("manylinux_2_39", "linux_x86_64", "manylinux2014_x86_64", "musllinux_1_2_x86_64"):
        with pytest.raises(UsageError, match=f"--plat {tag}: unknown platform tag"):
            find_policy(tag, POLICIES)


def test_an_auditwheel_without_policies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ToolError, match=r"policies cannot be read.*no module named auditwheel"):
        policy_module.load_policies()
