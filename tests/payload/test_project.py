"""The rendered project is buildable: complete, reproducible, with the metadata of the recipe."""

from __future__ import annotations

import email
import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from email.message import Message
from pathlib import Path

import pytest

from situ_release.bundle.recipe import load_recipe
from tests.payload.assemble import CUBINS, Package, assemble, render

EPOCH = "1785000000"


def build(project: Path, out: Path, umask: int = 0o022, epoch: str = EPOCH) -> Path:
    """Call the backend's hook as a frontend without isolation does."""
    code = (
        "import os, sys; from hatchling.build import build_wheel\n"
        f"os.umask({umask}); print(build_wheel({str(out)!r}))"
    )
    out.mkdir()
    environment = {**os.environ, "SOURCE_DATE_EPOCH": epoch, "PYTHONDONTWRITEBYTECODE": "1"}
    result = subprocess.run(
        [sys.executable, "-c", code],
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return out / result.stdout.splitlines()[-1]


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [n for n in archive.namelist() if n.endswith(".dist-info/METADATA")]
        return email.message_from_bytes(archive.read(name))


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Package:
    return assemble(tmp_path_factory.mktemp("built") / "project", name="tokenspeed_situ")


@pytest.fixture(scope="module")
def wheel(package: Package, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(package.project, tmp_path_factory.mktemp("wheel") / "out")


def test_name_and_tag(wheel: Path) -> None:
    assert wheel.name == "tokenspeed_situ-1.2.3.post4-py3-none-linux_x86_64.whl"
    with zipfile.ZipFile(wheel) as archive:
        text = archive.read("tokenspeed_situ-1.2.3.post4.dist-info/WHEEL").decode()
    assert "Root-Is-Purelib: false\n" in text
    assert text.count("Tag: ") == 1
    assert "Tag: py3-none-linux_x86_64\n" in text


def test_every_file_of_the_package_is_in(wheel: Path, package: Package) -> None:
    with zipfile.ZipFile(wheel) as archive:
        inside = {name for name in archive.namelist() if not name.startswith("tokenspeed_situ-")}
        for name in inside:
            assert archive.read(name) == (package.project / name).read_bytes(), name
    assert inside == {
        path.relative_to(package.project).as_posix()
        for path in package.folder.rglob("*")
        if path.is_file()
    }
    assert {
        f"tokenspeed_situ/cubins/{arch}/{name}" for name, (arch, _, _) in CUBINS.items()
    } < inside


def test_ignore_files_above_take_nothing_out(package: Package, tmp_path: Path) -> None:
    """A checkout ignores *.so and *.cubin; a payload staged inside it must still be whole."""
    (tmp_path / ".git").mkdir()
    (tmp_path / ".gitignore").write_text("*.so\n*.cubin\nbuild/\nlicenses/\n")
    project = tmp_path / "build" / "payload"
    shutil.copytree(package.project, project)
    odd = project / "tokenspeed_situ/cubins/sm103a/extra/deeper"
    odd.mkdir(parents=True)
    (odd / "Bmm_odd.cubin").write_bytes(b"odd")
    with zipfile.ZipFile(build(project, tmp_path / "out")) as archive:
        names = archive.namelist()
    assert "tokenspeed_situ/cubins/sm103a/extra/deeper/Bmm_odd.cubin" in names
    assert "tokenspeed_situ/lib/runner.so" in names
    assert "tokenspeed_situ/licenses/FLASHINFER_LICENSE.txt" in names


def test_the_wheel_is_the_same_byte_for_byte(wheel: Path, package: Package, tmp_path: Path) -> None:
    """Another folder, other file times and modes, another umask."""
    project = tmp_path / "elsewhere" / "deeply" / "nested"
    shutil.copytree(package.project, project)
    for number, path in enumerate(sorted(project.rglob("*"))):
        os.utime(path, (1_000_000_000 + number, 1_000_000_000 + number))
        if path.is_file():
            path.chmod(0o600 if number % 2 else 0o640)
    again = build(project, tmp_path / "out", umask=0o077)
    assert again.name == wheel.name
    assert _sha256(again) == _sha256(wheel)


def test_the_date_comes_from_the_variable(package: Package, wheel: Path, tmp_path: Path) -> None:
    other = build(package.project, tmp_path / "out", epoch="1700000000")
    with zipfile.ZipFile(other) as archive:
        assert {info.date_time[0] for info in archive.infolist()} == {2023}
    assert _sha256(other) != _sha256(wheel)


def test_headers_are_those_of_the_published_wheel(tmp_path: Path) -> None:
    recipe = load_recipe().recipe
    package = render(tmp_path / "project", "tokenspeed_situ")
    headers = metadata(build(package.project, tmp_path / "out"))
    assert headers["Name"] == "tokenspeed-situ"
    assert headers["Version"] == "1.2.3.post4"
    assert headers["Summary"] == "AOT TensorRT-LLM-Gen MXFP4+SiTU MoE kernel bundle"
    assert headers["License-Expression"] == "LicenseRef-Proprietary"
    assert headers["Requires-Python"] == ">=3.10"
    assert headers.get_all("Requires-Dist") == ["apache-tvm-ffi<0.2,>=0.1.12"]
    assert headers.get_all("Classifier") == recipe.package.classifiers
    assert headers.get_all("Project-URL") == [
        "Homepage, https://github.com/lightseekorg/tokenspeed"
    ]
    assert headers.get_all("License-File") == ["LICENSE", "THIRD_PARTY_NOTICES.md"]
    assert headers["Description-Content-Type"] == "text/markdown"
    assert headers.get_payload().startswith("# tokenspeed-situ 1.2.3.post4\n")


def test_licence_texts_lie_beside_the_metadata(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        folder = "tokenspeed_situ-1.2.3.post4.dist-info/licenses"
        assert archive.read(f"{folder}/LICENSE").startswith(b"MIT License")
        notices = archive.read(f"{folder}/THIRD_PARTY_NOTICES.md").decode()
    assert "Do not publish or redistribute" in notices


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
