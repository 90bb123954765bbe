"""The renderer: shared files and a template become a project."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from situ_release import resources
from situ_release.bundle.recipe import load_recipe
from situ_release.bundle.template import SHARED, render_template, template_values
from situ_release.errors import InputError
from tests.payload.assemble import render

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


_PROJECT = """
name = @name@
list = @items@
table = @table@
raw = '@@name'
"""


@pytest.fixture
def templates(tmp_path: Path) -> Path:
    """A folder with ``shared`` and the template ``mine``."""
    for name, text in {
        "shared/project.toml.in": _PROJECT,
        "shared/package/_runtime/code.py": "shared = '@name@'\n",
        "mine/NOTES.md": "about @name@, user@example.org, a @decorator\n",
        "mine/package/__init__.py": "version = '@name@'\n",
    }.items():
        path = tmp_path / "templates" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "templates"


VALUES = {
    "import_name": "my_package",
    "name": 'say "hi" \\ ü',
    "items": ["a", 'b"'],
    "table": {"Home page": "https://example.org/"},
}


def test_files_of_both_folders_with_values_filled_in(templates: Path, tmp_path: Path) -> None:
    render_template(templates / "mine", tmp_path / "out", VALUES)
    written = sorted(p.relative_to(tmp_path / "out").as_posix() for p in _files(tmp_path / "out"))
    assert written == [
        "NOTES.md",
        "my_package/__init__.py",
        "my_package/_runtime/code.py",
        "project.toml",
    ]
    document = tomllib.loads((tmp_path / "out/project.toml").read_text("utf-8"))
    assert document == {
        "name": VALUES["name"],
        "list": VALUES["items"],
        "table": VALUES["table"],
        "raw": "@@name",
    }
    notes = (tmp_path / "out/NOTES.md").read_text("utf-8")
    assert notes == 'about say "hi" \\ ü, user@example.org, a @decorator\n'


def test_a_templates_file_replaces_the_shared_one(templates: Path, tmp_path: Path) -> None:
    (templates / "mine/project.toml").write_text("own = true\n")
    render_template(templates / "mine", tmp_path / "out", VALUES)
    assert (tmp_path / "out/project.toml").read_text() == "own = true\n"


def test_bytecode_of_an_imported_template_is_left_out(templates: Path, tmp_path: Path) -> None:
    cache = templates / "mine/package/__pycache__/x.cpython-311.pyc"
    cache.parent.mkdir()
    cache.write_bytes(b"\xff\xfe")
    render_template(templates / "mine", tmp_path / "out", VALUES)
    assert not (tmp_path / "out/my_package/__pycache__").exists()


def test_modes_do_not_depend_on_the_umask(templates: Path, tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        render_template(templates / "mine", tmp_path / "out", VALUES)
    finally:
        os.umask(before)
    modes = {path: path.stat().st_mode & 0o777 for path in (tmp_path / "out").rglob("*")}
    assert all(mode == (0o755 if path.is_dir() else 0o644) for path, mode in modes.items())


def test_every_placeholder_without_a_value_is_named(templates: Path, tmp_path: Path) -> None:
    (templates / "mine/NOTES.md").write_text("@nothing@ @items@")
    (templates / "mine/other.txt").write_text("@missing@")
    with pytest.raises(InputError) as caught:
        render_template(templates / "mine", tmp_path / "out", VALUES)
    lines = str(caught.value).splitlines()
    assert [line.split("placeholder ")[1].split()[0] for line in lines] == [
        "@nothing@",
        "@items@",
        "@missing@",
    ]
    assert not (tmp_path / "out").exists()


def test_a_file_that_is_no_text_is_named(templates: Path, tmp_path: Path) -> None:
    (templates / "mine/blob.bin").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match=r"blob\.bin: cannot read the template file"):
        render_template(templates / "mine", tmp_path / "out", VALUES)


@pytest.mark.parametrize("name", ["absent", SHARED])
def test_no_such_template(templates: Path, tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="no such payload template"):
        render_template(templates / name, tmp_path / "out", VALUES)


def test_values_come_from_the_recipe_and_the_version_can_be_another() -> None:
    recipe = load_recipe().recipe
    values = template_values(recipe, "9.9")
    assert values["version"] == "9.9"
    assert values["import_name"] == "tokenspeed_situ"
    assert values["wheel_tag"] == "py3-none-linux_x86_64"
    assert values["cubin_count"] == "267"
    assert "| w4a8-fc2 | fc2 | sm100f | 101 |" in values["families_table"]


def test_shared_code_knows_no_bundle() -> None:
    """A second bundle uses it as it is: no name, number or symbol of the first is in it."""
    recipe = load_recipe().recipe
    own = {recipe.package.distribution, recipe.package.import_name, recipe.runner.file}
    own |= {*recipe.runner.ffi_symbols, recipe.target.architecture, "_private", "situ", "3584"}
    own |= {family.role for family in recipe.families}
    for path in _files(resources.payload_templates() / SHARED):
        text = path.read_text("utf-8").lower().replace("situ-release", "this tool")
        assert not [word for word in own if word in text], path


def test_one_shared_runtime_serves_two_packages(tmp_path: Path) -> None:
    one, other = render(tmp_path / "one"), render(tmp_path / "other")
    for path in _files(one.folder / "_runtime"):
        same = other.folder / path.relative_to(one.folder)
        assert path.read_bytes() == same.read_bytes()
    assert one.name not in "".join(path.read_text() for path in _files(one.folder / "_runtime"))


def test_texts_name_only_what_the_wheel_has(tmp_path: Path) -> None:
    """The published README points to a file that its wheel does not have; ours must not."""
    package = render(tmp_path / "project", "tokenspeed_situ")
    texts = {
        name: (package.project / name).read_text()
        for name in ("README.md", "THIRD_PARTY_NOTICES.md")
    }
    assert "PROVENANCE" not in "".join(texts.values())
    for name in ("FLASHINFER_LICENSE.txt", "FLASHINFER_NOTICE.txt"):
        assert f"tokenspeed_situ/licenses/{name}" in texts["THIRD_PARTY_NOTICES.md"]
    assert "MXFP8, FC2 reads that" in texts["README.md"].replace("\n", " ")
    assert all("@" not in text for text in texts.values())


def _files(folder: Path) -> list[Path]:
    return [p for p in folder.rglob("*") if p.is_file() and "__pycache__" not in p.parts]
