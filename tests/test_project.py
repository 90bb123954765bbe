"""The project's own rules: layers, files, workflows, versions."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "situ_release"

LAYERS = ("sources", "bundle", "wheel", "checks", "smoke", "inspection", "report", "cli")
"""What stands left may not import what stands right of it."""

BESIDE = {("smoke", "checks")}
"""Neighbours that know nothing of each other although the order would allow it."""


def _imports(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
        elif isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
    return found


@pytest.mark.parametrize("layer", LAYERS)
def test_dependencies_point_one_way(layer: str) -> None:
    allowed = set(LAYERS[: LAYERS.index(layer) + 1])
    for path in (PACKAGE / layer).rglob("*.py"):
        for module in _imports(path):
            parts = module.split(".")
            if parts[0] == "situ_release" and len(parts) > 1 and parts[1] in LAYERS:
                assert parts[1] in allowed, f"{path.relative_to(ROOT)} imports {module}"
                assert (layer, parts[1]) not in BESIDE, f"{path.relative_to(ROOT)}: {module}"


def test_only_cli_prints() -> None:
    for path in PACKAGE.rglob("*.py"):
        if "cli" in path.relative_to(PACKAGE).parts[:1]:
            continue
        assert not _imports(path) & {"typer", "rich"}, path
        calls = [
            node.func.id
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        ]
        assert "print" not in calls, path


def test_help_imports_nothing_heavy() -> None:
    program = (
        "import sys; import situ_release.cli.app; "
        "print(sorted({'pydantic', 'auditwheel', 'elftools', 'torch', 'rich'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def _tracked() -> list[Path]:
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if done.returncode:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in done.stdout.decode().split("\0") if name]


def test_no_binary_is_tracked() -> None:
    for path in _tracked():
        assert path.suffix not in {".cubin", ".so", ".whl", ".o", ".a", ".fatbin"}, path
        if path.is_file():
            assert path.stat().st_size < 400_000, path


def test_workflows_fit_their_schema() -> None:
    workflows = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
    assert workflows
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema"]
    command += ["vendor.github-workflows", *map(str, workflows)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_workflows_are_hardened() -> None:
    zizmor = Path(sys.executable).with_name("zizmor")
    if not zizmor.exists():
        pytest.skip("zizmor has no build for this platform")
    command = [zizmor, "--offline", "--persona=auditor", "--no-progress", ROOT / ".github"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_backend_has_one_pin() -> None:
    """The wheel's bytes depend on the backend's version: what is installed is what is pinned."""
    pins = [
        line.strip().strip(",").removeprefix("requires = [").strip('"]')
        for name in ("pyproject.toml", "payload/shared/pyproject.toml.in")
        for line in (ROOT / name).read_text(encoding="utf-8").splitlines()
        if "hatchling==" in line
    ]
    assert len(pins) == 2
    assert len(set(pins)) == 1
