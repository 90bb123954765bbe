"""The published package and ours, installed side by side and compared from outside."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from situ_release.bundle.recipe import load_recipe
from situ_release.bundle.staging import stage
from situ_release.wheel.build import build_wheel
from situ_release.wheel.recover import recover_wheel
from tests.payload.test_project import metadata

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "tokenspeed_situ"


def install(wheel: Path, folder: Path, platform: str) -> Path:
    """Install a wheel's files; pip would refuse the tag on an older glibc without the options."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    command += ["--no-compile", "--disable-pip-version-check", "--only-binary=:all:"]
    command += ["--platform", platform, "--target", str(folder), str(wheel)]
    subprocess.run(command, check=True)
    return folder


@pytest.fixture(scope="module")
def published(published_wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("published")
    return install(published_wheel, folder, "manylinux_2_39_x86_64")


@pytest.fixture(scope="module")
def payload(published_wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Our payload, staged from what the published wheel was recovered to."""
    folder = tmp_path_factory.mktemp("staged")
    sources = recover_wheel(published_wheel, folder / "sources")
    stage(load_recipe(), sources.snapshot, sources.pool, sources.module, folder / "payload")
    return folder / "payload"


@pytest.fixture(scope="module")
def ours_wheel(payload: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(payload, tmp_path_factory.mktemp("wheel")).path


@pytest.fixture(scope="module")
def ours(ours_wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(ours_wheel, tmp_path_factory.mktemp("installed"), "linux_x86_64")


def observe(folder: Path) -> dict[str, Any]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    result = subprocess.run(
        [sys.executable, "-m", "tests.payload.observe", str(folder)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def both(published: Path, ours: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    return observe(published), observe(ours)


@pytest.mark.parametrize(
    "aspect",
    [
        *("names", "version", "signatures", "enums", "constants"),
        *(
            "bad calls",
            "opened by bad calls",
            "unchecked calls",
            "opened",
            "good calls",
            "requests",
        ),
    ],
)
def test_ours_is_the_published_one(
    both: tuple[dict[str, Any], dict[str, Any]], aspect: str
) -> None:
    theirs, ours = both
    assert ours[aspect] == theirs[aspect]


def test_the_comparison_saw_something(both: tuple[dict[str, Any], dict[str, Any]]) -> None:
    theirs, _ = both
    assert len(theirs["bad calls"]) >= 40
    assert set(theirs["bad calls"].values()) == {"raises ValueError", "raises TypeError"}
    assert theirs["opened by bad calls"] == 0
    assert theirs["opened"] is True
    assert all(len(call) == 2 for call in theirs["good calls"].values())
    assert len(theirs["signatures"]["mxfp4_situ_routed_moe"]) == 18
    assert theirs["requests"]["right"] > 0
    assert theirs["requests"]["absent"] == "raises BundleError"


@pytest.mark.parametrize("function", ["info", "verify"])
def test_contents_are_the_published_ones(
    both: tuple[dict[str, Any], dict[str, Any]], published: Path, ours: Path, function: str
) -> None:
    theirs, own = both[0][function], both[1][function]
    runner = f"{PACKAGE}/lib/fused_moe_k3_situ_sm103.so"
    assert theirs.pop("runner") == str(published / runner)
    assert own.pop("runner") == str(ours / runner)
    assert list(own.items()) == list(theirs.items())
    assert own["cubin_count"] == 267


def test_the_published_loader_accepts_our_manifest(
    both: tuple[dict[str, Any], dict[str, Any]], published: Path, payload: Path, tmp_path: Path
) -> None:
    observed = observe(with_manifest(published, payload / PACKAGE, tmp_path / "copy"))
    assert observed["verify"]["cubin_count"] == 267
    for aspect in ("opened", "requests", "good calls"):
        assert observed[aspect] == both[0][aspect]


def test_our_loader_accepts_the_published_manifest(
    both: tuple[dict[str, Any], dict[str, Any]], published: Path, ours: Path, tmp_path: Path
) -> None:
    observed = observe(with_manifest(ours, published / PACKAGE, tmp_path / "copy"))
    assert observed["verify"]["cubin_count"] == 267
    for aspect in ("opened", "requests", "good calls"):
        assert observed[aspect] == both[1][aspect]


DAMAGES = {
    "cubin missing": lambda package: first_cubin(package).unlink(),
    "cubin changed": lambda package: write_new(first_cubin(package), "other"),
    "runner missing": lambda package: runner(package).unlink(),
    "runner changed": lambda package: write_new(runner(package), "other"),
    "manifest missing": lambda package: (package / "manifest.json").unlink(),
    "manifest broken": lambda package: write_new(package / "manifest.json", "{"),
    "schema 2": lambda package: edit(package, schema_version=2),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_refused_alike(published: Path, ours: Path, tmp_path: Path, damage: str) -> None:
    seen = []
    for label, source in (("theirs", published), ("ours", ours)):
        folder = linked_copy(source, tmp_path / label)
        DAMAGES[damage](folder / PACKAGE)
        observed = observe(folder)
        aspects = ("verify", "bad calls", "unchecked calls", "opened", "good calls")
        seen.append({aspect: observed[aspect] for aspect in aspects})
    assert seen[0]["verify"] == "raises BundleError"
    assert seen[1] == seen[0]


def test_metadata_headers_are_equal(published_wheel: Path, ours_wheel: Path) -> None:
    """Requirements and classifiers in any order; the published one's backend adds Dynamic."""
    theirs, own = metadata(published_wheel), metadata(ours_wheel)
    for name in (
        *("Name", "Version", "Summary", "License-Expression", "Requires-Python", "Requires-Dist"),
        *("Classifier", "Project-URL", "License-File", "Description-Content-Type"),
    ):
        assert sorted(own.get_all(name) or []) == sorted(theirs.get_all(name) or []), name
    assert set(own.keys()) == set(theirs.keys()) - {"Dynamic"}


def test_binaries_went_through_unchanged(published_wheel: Path, ours_wheel: Path) -> None:
    with zipfile.ZipFile(published_wheel) as theirs, zipfile.ZipFile(ours_wheel) as own:
        names = [name for name in theirs.namelist() if name.endswith((".cubin", ".so"))]
        assert len(names) == 268
        assert all(own.read(name) == theirs.read(name) for name in names)


def linked_copy(source: Path, target: Path) -> Path:
    """A copy of hard links: quick, and safe as long as files are replaced, not written to."""
    shutil.copytree(source, target, copy_function=os.link)
    return target


def with_manifest(source: Path, package: Path, target: Path) -> Path:
    """A copy of ``source`` with the manifest of ``package``."""
    text = (package / "manifest.json").read_text("utf-8")
    write_new(linked_copy(source, target) / PACKAGE / "manifest.json", text)
    return target


def write_new(path: Path, text: str) -> None:
    path.unlink()
    path.write_text(text)


def edit(package: Path, **changes: Any) -> None:
    path = package / "manifest.json"
    write_new(path, json.dumps(json.loads(path.read_text()) | changes))


def runner(package: Path) -> Path:
    return package / "lib" / "fused_moe_k3_situ_sm103.so"


def first_cubin(package: Path) -> Path:
    return min((package / "cubins").rglob("*.cubin"))
