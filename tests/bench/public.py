"""The public pools: the header of 9 MB, 1.65 GB to inspect, staging 361 cubins."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path

from situ_release.sources.pool import open_pool
from tests.bench.measure import Measured, best, fresh, goal, in_turn, python, ratio, situ
from tests.public import POOL_FOLDER, RECIPE, cubin_wheel, snapshot_wheel, write_stand_in
from tests.published import NotFetchedError
from tests.synth.inputs import MiniInputs, make_inputs

ATTENTION_FOLDER = (
    "flashinfer_cubin/cubins/158f6fa11ef139a098cfddcdddce73ca99d164ad/fmha/trtllm-gen"
)
"""The attention pool in the same wheel: 13,453 files, 1.65 GB."""

HEADER = "include/flashinferMetaInfo.h"

CROSS_CHECK = """
import os, sys
from pathlib import Path
from situ_release.sources.kernel_name import parse_all
from situ_release.sources.kernel_options import check_options
from situ_release.sources.metadata_header import read_header
os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
header = read_header(Path(sys.argv[1]).read_bytes(), "header")
names = parse_all(header.by_name)
assert not any(check_options(entry, names[entry.name], "x") for entry in header.entries)
"""

PLAIN_IMPORTS = """
import hashlib, sys
from pathlib import Path
from situ_release.sources.files import open_source
from situ_release.sources.metadata_header import read_header
"""

PLAIN_STAGE = f"""{PLAIN_IMPORTS}
pool, names, out = open_source(Path(sys.argv[1]), "pool"), sys.argv[2], Path(sys.argv[3])
read_header(pool.read("{HEADER}"), "header")
for name in Path(names).read_text().split():
    data = pool.read(name)
    hashlib.sha256(data).hexdigest()
    (out / name).write_bytes(data)
"""


def benchmark_public(folder: Path) -> None:
    try:
        wheel, snapshot = cubin_wheel(), snapshot_wheel()
    except NotFetchedError as error:
        print(f"  The public pool is not measured: {error}")
        return
    unpacked = fresh(folder / "public")
    with zipfile.ZipFile(wheel) as archive:
        inside = [name for name in archive.namelist() if name.startswith(f"{POOL_FOLDER}/")]
        archive.extractall(unpacked, inside)
    pool = unpacked / POOL_FOLDER
    module = write_stand_in(folder / "public.so", open_pool(pool).header.entries)

    seconds, peak = best(lambda: python(CROSS_CHECK, pool / HEADER))
    goal("public header, 2,108 entries cross-checked, one core", seconds, 1.5)
    goal("its memory", peak, 300, "MiB")

    seconds, peak = situ("inspect", wheel / ATTENTION_FOLDER)
    print(f"  inspect of 13,453 files, 1.65 GB, all cores {seconds:5.2f} s")
    goal("its memory, the largest process", peak, 500, "MiB")

    shutil.unpack_archive(snapshot, unpacked / "snapshot", "zip")
    small = _small(folder / "small").command()
    names, copy, out = folder / "names", folder / "copy", folder / "staged"
    for form, source, sources in (
        ("unpacked", pool, unpacked / "snapshot"),
        ("in its wheel", wheel / POOL_FOLDER, snapshot),
    ):
        arguments = [f"--snapshot-root={sources}", f"--pool-root={source}", f"--module={module}"]
        command = ["stage-assets", f"--recipe={RECIPE}", *arguments, f"--out={out}"]
        _stage(command, out)
        names.write_text("\n".join(_cubins(out)))
        (staged, _), (plain, _), (start, _), (imports, _) = in_turn(
            lambda: _stage(command, out),  # noqa: B023
            lambda: python(PLAIN_STAGE, source, names, fresh(copy)),  # noqa: B023
            lambda: situ(*small),
            lambda: python(PLAIN_IMPORTS),
        )
        staged, plain = staged - start, plain - imports
        print(f"\n  pool {form}: header parse, hashing and copying of 361 cubins {plain:5.2f} s")
        goal("stage-assets, beyond what eight small cubins take", staged, 1.2)
        ratio("stage-assets against that", staged, plain, 1.5)


def _stage(command: list[str], out: Path) -> Measured:
    shutil.rmtree(out, ignore_errors=True)  # replacing an older payload is not what is measured
    return situ(*command)


def _small(folder: Path) -> MiniInputs:
    """Sources of the first recipe with eight synthetic cubins: what is left is start-up."""
    return make_inputs(fresh(folder), layout="files")


def _cubins(staged: Path) -> list[str]:
    (manifest,) = staged.glob("*/manifest.json")
    return [entry["filename"] for entry in json.loads(manifest.read_text())["cubins"]]
