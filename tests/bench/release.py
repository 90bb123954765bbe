"""The published wheel: the five commands, and those that read it."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from tests.bench.measure import (
    ROUNDS,
    Measured,
    best,
    fresh,
    goal,
    in_turn,
    python,
    ratio,
    run,
    situ,
)
from tests.pipeline import rebuild
from tests.published import published

PLAIN_READ = """
import hashlib, sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as archive:
    for name in archive.namelist():
        hashlib.sha256(archive.read(name)).hexdigest()
"""


def benchmark_release(folder: Path) -> None:
    wheel = published()
    runs = [rebuild(wheel, fresh(folder / f"run{n}"), quiet=True) for n in range(ROUNDS)]
    steps: dict[str, Measured] = {}
    for position, step in enumerate(runs[0].steps):
        same = [one.steps[position] for one in runs]
        steps[step.command] = min(s.seconds for s in same), max(s.peak_mib for s in same)
        seconds, peak = steps[step.command]
        print(f"  {step.command:<14} {seconds:5.2f} s {peak:5.0f} MiB")
    print()
    goal("all five commands", min(one.seconds for one in runs), 9)
    goal("their memory", max(peak for _, peak in steps.values()), 600, "MiB")
    print()

    payload = folder / "run0" / "payload"
    raw = next((folder / "run0" / "raw").glob("*.whl"))
    built, repaired = folder / "built", folder / "repaired"
    (build, _), (repair, _), (plain_build, _), (plain_repair, _) = in_turn(
        lambda: situ("build", f"--payload={payload}", f"--outdir={fresh(built)}"),
        lambda: situ("repair", raw, f"--wheel-dir={fresh(repaired)}"),
        lambda: _plain_build(payload, fresh(folder / "plain-raw")),
        lambda: _plain_repair(raw, fresh(folder / "plain-dist")),
    )
    print(f"  python -m build (not isolated)   {plain_build:5.2f} s")
    print(f"  python -m auditwheel repair      {plain_repair:5.2f} s")
    ratio("build + repair against plain tools", build + repair, plain_build + plain_repair, 1.0)

    (plain_read, _), (verify, _) = in_turn(
        lambda: python(PLAIN_READ, wheel), lambda: situ("verify", wheel)
    )
    print(f"  zipfile + hashlib, every member  {plain_read:5.2f} s")
    ratio("verify against that", verify, plain_read, 2.5)

    print(f"  python alone {best(lambda: python('pass'))[0]:.2f} s")
    goal("--help", best(lambda: situ("--help"))[0], 0.25)
    goal("coverage, four SMs", best(lambda: situ("coverage", wheel))[0], 2)
    goal("report", best(lambda: situ("report", wheel, "--out", folder / "report"))[0], 3)
    print()


def _plain_build(payload: Path, out: Path) -> Measured:
    copy = out / "copy"
    shutil.copytree(payload, copy)
    return run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, copy)


def _plain_repair(raw: Path, out: Path) -> Measured:
    scripts = str(Path(sys.executable).parent)
    os.environ["PATH"] = f"{scripts}{os.pathsep}{os.environ['PATH']}"
    command = [sys.executable, "-m", "auditwheel", "repair", "--only-plat"]
    command += ["--exclude", "libcuda.so.*", "--exclude", "libcudart.so.*"]
    command += ["--plat", "manylinux_2_39_x86_64", "--wheel-dir", str(out), str(raw)]
    return run(*command)
