"""The published wheels and the public pools, as FACTS about them were measured."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from situ_release.inspection.diff.compare import compare_paths
from situ_release.inspection.diff.headline import headline
from situ_release.inspection.facts.pool import PoolFacts
from situ_release.inspection.facts.wheel import WheelFacts
from situ_release.inspection.inspect import PoolsFacts, inspect_path
from situ_release.inspection.pages.difference import difference_page
from situ_release.inspection.pages.inspection import inspection_page
from tests.conftest import fetch
from tests.inspection.golden import WIDTH, render

AOT = {
    "x86_64": "154559e357c105aecbd51192a692a39f5b71de4337ff72b12390c90eef9b8c75",
    "aarch64": "9ebb5b3f22eda2bb39b9eab856c648c338f89b162edf65e4f6b88e5b9b398631",
}
"""SHA-256 of the wheels tokenspeed-cutedsl-kda 0.1.0.post20260923, by architecture."""

ATTENTION = "flashinfer_cubin/cubins/158f6fa11ef139a098cfddcdddce73ca99d164ad/fmha/trtllm-gen"
CUTE_DSL = "flashinfer_cubin/cubins/801e770219613fbf088bc074c414732b26cc550d"


def test_the_published_wheel(published_wheel: Path) -> None:
    inspection = inspect_path(published_wheel)
    facts = inspection.facts
    assert isinstance(facts, WheelFacts)
    cubins = facts.binaries.cubins
    assert (cubins.count, cubins.bytes) == (267, 23_063_768)
    assert [(g.producer, g.version, g.options, g.count) for g in cubins.toolchains] == [
        ("ptxas", "V13.1.80", "-v -arch sm_100f -m 64", 207),
        ("nvasm_internal", "V12.9.90", "-gen-opext no -nomaxrreg", 60),
    ]
    assert [(g.target, g.arch_specific, g.count) for g in cubins.targets] == [
        ("sm_100", False, 207),
        ("sm_103a", True, 60),
    ]
    (runner,) = facts.binaries.libraries
    library = runner.library
    assert library.minimum_versions == {"GLIBC": "2.38", "GLIBCXX": "3.4.32", "CXXABI": "1.3.9"}
    assert [(m.target, m.kind, m.compressed) for m in library.device_modules] == [
        ("sm_103a", "cubin", True)
    ] * 10
    assert library.kernel_table is not None
    assert library.kernel_table.count == 1696
    assert library.kernel_table.census.unknown == ()
    assert any(path.startswith("/home/") for path in library.embedded_paths)
    assert facts.problems == ()
    shown = render(inspection_page(inspection))
    assert "207  ptxas           V13.1.80" in shown
    assert max(map(len, shown.splitlines())) <= WIDTH


def test_the_two_releases_have_the_same_binaries(
    previous_wheel: Path, published_wheel: Path
) -> None:
    difference = compare_paths(previous_wheel, published_wheel)
    assert not difference.identical
    assert difference.binaries.all_same
    assert len(difference.binaries.same) == 268
    assert difference.kernel_table is not None
    assert difference.kernel_table.same
    assert [change.key for change in difference.manifest or ()] == ["package_version"]
    first = render(difference_page(difference)).splitlines()[0]
    assert first.startswith("No binary changed: 267 cubins and 1 library are byte-identical.")


@pytest.mark.network
def test_two_host_architectures_with_equal_device_code() -> None:
    old, new = (
        fetch("tokenspeed-cutedsl-kda==0.1.0.post20260923", digest, f"manylinux_2_17_{machine}")
        for machine, digest in AOT.items()
    )
    difference = compare_paths(old, new)
    (changed,) = difference.binaries.changed
    assert changed.comparison.device_code == "equal"
    assert [module.target for module in changed.comparison.modules] == ["sm_100a", "sm_103a"]
    for module in changed.comparison.modules:
        assert (module.change, module.device_code) == ("changed", "equal")
        assert module.sections is not None
        assert (module.sections.kinds, len(module.sections.differ)) == (("relocations",), 5)
    machine = next(fact for fact in changed.comparison.facts if fact.key == "machine")
    assert (machine.old, machine.new) == ("x86-64", "AArch64")
    assert difference.manifest is None
    assert difference.kernel_table is None
    assert headline(difference) == (
        "No device code changed: the one binary differs only in host code and relocations."
    )


@pytest.mark.slow
def test_the_wheel_of_the_public_pools(cubin_wheel: Path) -> None:
    facts = inspect_path(cubin_wheel).facts
    assert isinstance(facts, WheelFacts)
    assert [pool.folder for pool in facts.pools if pool.cubins > 10_000] == [ATTENTION]
    assert sum(pool.cubins for pool in facts.pools) == 15_970
    assert facts.binaries.cubins.count == 0


@pytest.mark.slow
def test_pools_without_cubins(cubin_wheel: Path) -> None:
    facts = inspect_path(cubin_wheel / CUTE_DSL).facts
    assert isinstance(facts, PoolsFacts)
    assert [pool.name for pool in facts.pools] == ["sm_100a", "sm_103a", "sm_110a"]
    for pool in facts.pools:
        assert pool.cubins.count == 0
        assert pool.checksums is not None
        assert len(pool.checksums.missing) == pool.checksums.count == 320


@pytest.mark.slow
def test_the_attention_pool(cubin_wheel: Path) -> None:
    """13,452 cubins, 1.65 GB; and all processes together stay under 500 MB."""
    script = f"""if True:
        import os, pickle, resource, sys
        from pathlib import Path
        from situ_release.inspection.inspect import inspect_path
        facts = inspect_path(Path({str(cubin_wheel / ATTENTION)!r})).facts
        assert not any(name in sys.modules for name in ("torch", "elftools"))
        sys.stdout.buffer.write(pickle.dumps(facts))
        status = Path("/proc/self/status").read_text()
        own = int(status.partition("VmHWM:")[2].split()[0])
        worker = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        sys.stderr.write(str((own + worker * len(os.sched_getaffinity(0))) // 1024))
    """
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    # Pages that forked processes share are counted once for each: no bound on more cores.
    assert int(done.stderr) < 500 or len(os.sched_getaffinity(0)) > 4
    pool = _attention(done.stdout)
    assert (pool.cubins.count, pool.cubins.bytes) == (13_452, 1_645_737_456)
    assert [(g.target, g.arch_specific, g.count) for g in pool.cubins.targets] == [
        ("sm_100", False, 11_248),
        ("sm_103a", True, 1_892),
        ("sm_100a", True, 312),
    ]
    assert [(g.producer, g.count) for g in pool.cubins.toolchains] == [
        ("ptxas", 11_248),
        ("ptxas", 1_628),
        ("nvasm_internal", 528),
        ("ptxas", 48),
    ]
    assert pool.header_path == "include/flashInferMetaInfo.h"
    assert pool.header is not None
    assert pool.header.disagreements is None
    assert pool.agreement is not None
    assert (pool.agreement.matching, pool.agreement.missing) == (13_452, ())
    assert pool.checksums is not None
    assert (pool.checksums.count, pool.checksums.wrong) == (13_453, ())
    assert pool.cubins.unreadable == ()
    assert pool.cubins.hungriest[0].cubin.most_registers == 168
    assert pool.cubins.largest[0].cubin.size == 290_328


def _attention(pickled: bytes) -> PoolFacts:
    facts = pickle.loads(pickled)
    assert isinstance(facts, PoolsFacts)
    (pool,) = facts.pools
    return pool
