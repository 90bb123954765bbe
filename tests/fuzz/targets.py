"""What is fuzzed: readers of bytes, each with sound inputs to start from."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from situ_release import resources
from situ_release.bundle.coverage import CoverageModel
from situ_release.bundle.evidence import read_evidence
from situ_release.bundle.lock import dump_lock, load_lock, lock_of
from situ_release.bundle.manifest import read_manifest
from situ_release.bundle.recipe import load_recipe
from situ_release.checks.verify import verify_wheel
from situ_release.inspection.inspect import inspect_path
from situ_release.sources.checksums import read_checksums
from situ_release.sources.content_kind import describe_content
from situ_release.sources.cubin import read_cubin
from situ_release.sources.kernel_name import parse
from situ_release.sources.kernel_options import check_options
from situ_release.sources.marker import parse_marker
from situ_release.sources.metadata_header import read_header
from situ_release.sources.pool import open_pools
from situ_release.sources.runner import read_runner
from situ_release.sources.snapshot import open_snapshot
from situ_release.wheel.bundle import open_bundle
from situ_release.wheel.dist_info import parse_wheel_name, read_metadata, read_wheel_headers
from situ_release.wheel.record import parse_record
from situ_release.wheel.recover import recover_wheel
from tests.fuzz.attempt import answer
from tests.fuzz.mutation import members, pieces, words
from tests.sources.test_elf_robustness import CUBIN, RUNNER
from tests.sources.test_marker import MARKER
from tests.sources.test_metadata_header import BARE_TEXT, FMHA, FULL_TEXT
from tests.synth.elf import make_cubin, make_header_only_cubin
from tests.synth.pool import KERNELS, make_pool, make_snapshot
from tests.synth.wheel import (
    DIST_INFO,
    MANIFEST,
    bundle_files,
    make_wheel,
    record_of,
    wheel_files,
    write_mini_recipe,
)


@dataclass(frozen=True)
class Target:
    """A reader, sound inputs to start from, how they are damaged, and its share of the time."""

    name: str
    read: Callable[[bytes], object]
    seeds: tuple[bytes, ...]
    mutate: Callable[[bytes, Random], bytes] = pieces
    share: int = 1


def all_targets(folder: Path) -> list[Target]:
    """Every target. Those that read paths write their input below ``folder``."""
    files = wheel_files(bundle_files(style="ours"))
    manifest, metadata = files[MANIFEST], files[f"{DIST_INFO}/METADATA"]
    lock = dump_lock(lock_of(read_manifest(manifest, "m"), "kimi-k3-situ")).encode()
    recipes = tuple(path.read_bytes() for path in sorted(resources.recipes().glob("*.toml")))
    headers = (FULL_TEXT.encode(), BARE_TEXT.encode(), FMHA.encode())
    old_cubin = make_cubin("k", sm=90, abi=7)
    no_cubin = make_header_only_cubin(filler=bytes(256))
    wheel = make_wheel(folder / "wheel", style="ours")
    recipe = write_mini_recipe(folder)

    def at(name: str, read: Callable[[Path], object]) -> Callable[[bytes], object]:
        path = folder / name

        def read_bytes(data: bytes) -> object:
            path.write_bytes(data)
            return read(path)

        return read_bytes

    def read_wheel(path: Path) -> None:
        verify_wheel(path, recipe=str(recipe))
        answer(lambda: inspect_path(path))
        answer(lambda: recover_wheel(path, folder / "recovered"))
        bundle = open_bundle(path, str(recipe))
        model = CoverageModel(bundle.loaded.recipe, bundle.runner.kernel_table)
        model.device(103, bundle.digests)

    return [
        Target("cubin", _read_cubin, (CUBIN, old_cubin, no_cubin), words),
        Target("runner", _read_runner, (RUNNER, CUBIN), words),
        Target("content", describe_content, (CUBIN, b"version https://git-lfs", manifest)),
        Target("metadata header", _read_header, headers),
        Target("checksums", lambda data: read_checksums(data, "c"), (_checksums(),)),
        Target("kernel name", _read_kernel_name, tuple(name.encode() for name in KERNELS)),
        Target("marker", lambda data: parse_marker(data, "m"), (_marker(),)),
        Target("manifest", lambda data: read_manifest(data, "m"), (manifest,)),
        Target("evidence", lambda data: read_evidence(data, "e"), (manifest, b'{"schema": 1}')),
        Target("recipe", at("fuzzed.toml", lambda path: load_recipe(str(path))), recipes),
        Target(
            "lock", at("x.lock.json", lambda path: load_lock(path.with_name("x.toml"))), (lock,)
        ),
        Target("RECORD", lambda data: parse_record(data, "R"), (record_of(files),)),
        Target("METADATA", lambda data: read_metadata(data, "M"), (metadata,)),
        Target("WHEEL", lambda data: read_wheel_headers(data, "W"), (files[f"{DIST_INFO}/WHEEL"],)),
        Target("wheel's name", _read_wheel_name, (wheel.name.encode(),)),
        Target("pool", at("pool.zip", _read_pools), (_pool(folder),), members, 3),
        Target("snapshot", at("snapshot.zip", _read_snapshot), (_snapshot(folder),), members, 2),
        Target("wheel", at(wheel.name, read_wheel), (wheel.read_bytes(),), members, 10),
    ]


def _read_cubin(data: bytes) -> None:
    cubin = read_cubin(data, "x")
    assert len(cubin.device_code_sha256) == 64
    assert isinstance(cubin.embedded_paths, tuple)


def _read_runner(data: bytes) -> None:
    runner = read_runner(data, "x")
    assert runner.kernel_table.count >= 0
    assert isinstance(runner.masked_paths(), tuple)


def _read_header(data: bytes) -> None:
    header = read_header(data, "header")
    for entry in header.entries:
        name = answer(lambda entry=entry: parse(entry.name))  # type: ignore[misc]
        if name is not None:
            assert str(name) == entry.name
            check_options(entry, name, header.place(entry))


def _read_kernel_name(data: bytes) -> None:
    text = data.decode("latin-1")
    assert str(parse(text)) == text


def _read_wheel_name(data: bytes) -> None:
    parse_wheel_name(data.decode("latin-1") or "x")  # no file has an empty name


def _read_pools(path: Path) -> None:
    for pool in open_pools(path):
        answer(lambda pool=pool: pool.header)  # type: ignore[misc]
        answer(lambda pool=pool: pool.marker)  # type: ignore[misc]
        answer(pool.verify_all)
        for found in (answer(lambda pool=pool: pool.find_all(KERNELS[:2])) or {}).values():  # type: ignore[misc]
            answer(lambda pool=pool, found=found: pool.read(found))  # type: ignore[misc]


def _read_snapshot(path: Path) -> None:
    snapshot = open_snapshot(path)
    for text in snapshot.licenses.values():
        answer(lambda text=text: snapshot.read(text))  # type: ignore[misc]


def _checksums() -> bytes:
    return b"".join(b"%064x  a/b%d\n" % (number, number) for number in range(9))


def _marker() -> bytes:
    return MARKER.model_dump_json().encode()


def _pool(folder: Path) -> bytes:
    return _zipped(make_pool(folder, KERNELS[:2], options=True).root)


def _snapshot(folder: Path) -> bytes:
    return _zipped(make_snapshot(folder, layout="wheel"))


def _zipped(root: Path) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        for path in sorted(root.rglob("*")):
            if path.is_file():
                archive.write(path, path.relative_to(root))
    return written.getvalue()
