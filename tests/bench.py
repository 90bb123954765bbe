"""``make bench``: times and memory as ratios against plain tools, measured in the same run.

Machines differ, so the ratios count, not the seconds. Every figure is the best of ``ROUNDS`` runs
of a process of its own, start-up included; memory is the peak of the process or its largest child.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.pipeline import rebuild, run_measured
from tests.published import published

ROUNDS = 3

PLAIN_READ = """
import hashlib, sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as archive:
    for name in archive.namelist():
        hashlib.sha256(archive.read(name)).hexdigest()
"""

Measured = tuple[float, float]


def main() -> None:
    wheel = published()
    folder = Path(tempfile.mkdtemp(prefix="situ-bench-"))
    try:
        os.environ["SOURCE_DATE_EPOCH"] = "1785061321"
        benchmark(wheel, folder)
    finally:
        shutil.rmtree(folder)


def benchmark(wheel: Path, folder: Path) -> None:
    runs = [rebuild(wheel, _fresh(folder / f"run{n}"), quiet=True) for n in range(ROUNDS)]
    print(f"{os.cpu_count()} cores, Python {sys.version.split()[0]}, best of {ROUNDS}\n")
    best: dict[str, Measured] = {}
    for position, step in enumerate(runs[0].steps):
        steps = [run.steps[position] for run in runs]
        best[step.command] = min(s.seconds for s in steps), max(s.peak_mib for s in steps)
        print(
            f"  {step.command:<14} {best[step.command][0]:5.2f} s {best[step.command][1]:5.0f} MiB"
        )
    total = min(run.seconds for run in runs)
    peak = max(peak for _, peak in best.values())
    print(f"  {'together':<14} {total:5.2f} s {peak:5.0f} MiB   (goals: 9 s, 600 MiB)\n")

    payload = folder / "run0" / "payload"
    raw = next((folder / "run0" / "raw").glob("*.whl"))
    plain_build = _best(lambda: _plain_build(payload, _fresh(folder / "plain-raw")))
    plain_repair = _best(lambda: _plain_repair(raw, _fresh(folder / "plain-dist")))
    ours = best["build"][0] + best["repair"][0]
    plain = plain_build[0] + plain_repair[0]
    print(f"  python -m build (not isolated)   {plain_build[0]:5.2f} s")
    print(f"  python -m auditwheel repair      {plain_repair[0]:5.2f} s")
    _ratio("build + repair against plain tools", ours, plain, 1.0)

    plain_read = _best(lambda: _run([sys.executable, "-c", PLAIN_READ, str(wheel)]))
    verify = _best(lambda: _situ("verify", str(wheel)))
    print(f"  zipfile + hashlib, every member  {plain_read[0]:5.2f} s")
    _ratio("verify against that", verify[0], plain_read[0], 2.5)

    nothing = _best(lambda: _run([sys.executable, "-c", "pass"]))
    helped = _best(lambda: _situ("--help"))
    print(f"  --help {helped[0]:.2f} s (goal 0.25 s; python alone {nothing[0]:.2f} s)")
    covered = _best(lambda: _situ("coverage", str(wheel)))
    print(f"  coverage, four SMs {covered[0]:.2f} s (goal 2 s)")
    reported = _best(lambda: _situ("report", str(wheel), "--out", str(folder / "report")))
    print(f"  report {reported[0]:.2f} s (goal 3 s)")


def _ratio(what: str, ours: float, plain: float, goal: float) -> None:
    verdict = "met" if ours <= goal * plain else "MISSED"
    print(f"  => {what}: {ours:.2f} s, ratio {ours / plain:.2f} (goal {goal}): {verdict}\n")


def _best(work: Callable[[], Measured]) -> Measured:
    results = [work() for _ in range(ROUNDS)]
    return min(seconds for seconds, _ in results), max(peak for _, peak in results)


def _run(command: list[str]) -> Measured:
    code, seconds, peak = run_measured(command, quiet=True)
    if code:
        raise SystemExit(f"{command} failed with {code}")
    return seconds, peak


def _situ(*arguments: str) -> Measured:
    return _run([sys.executable, "-m", "situ_release", *arguments])


def _plain_build(payload: Path, out: Path) -> Measured:
    copy = out / "copy"
    shutil.copytree(payload, copy)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation"]
    return _run([*command, "--outdir", str(out), str(copy)])


def _plain_repair(raw: Path, out: Path) -> Measured:
    scripts = str(Path(sys.executable).parent)
    os.environ["PATH"] = f"{scripts}{os.pathsep}{os.environ['PATH']}"
    command = [sys.executable, "-m", "auditwheel", "repair", "--only-plat"]
    command += ["--exclude", "libcuda.so.*", "--exclude", "libcudart.so.*"]
    command += ["--plat", "manylinux_2_39_x86_64", "--wheel-dir", str(out), str(raw)]
    return _run(command)


def _fresh(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


if __name__ == "__main__":
    main()
