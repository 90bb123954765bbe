from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from situ_release.bundle.recipe import Recipe, load_recipe
from situ_release.checks.context import GateInputs
from situ_release.digests import sha256_file
from situ_release.report.document import make_document
from situ_release.report.model import Document
from situ_release.report.subject import Subject, read_subject
from tests.checks.bundle import sound_wheel, write_recipe
from tests.report import given


@dataclass(frozen=True)
class Bundle:
    """A wheel without any fault, and the recipe that it fulfils."""

    wheel: Path
    recipe_path: Path

    @property
    def recipe(self) -> Recipe:
        return load_recipe(str(self.recipe_path)).recipe

    @property
    def sha256(self) -> str:
        return sha256_file(self.wheel)

    def read(self, gate: GateInputs = given.NOTHING, previous: Path | None = None) -> Subject:
        return read_subject(self.wheel, gate=gate, recipe=str(self.recipe_path), previous=previous)

    def document(self, gate: GateInputs = given.NOTHING) -> Document:
        return make_document(self.read(gate))


@pytest.fixture(scope="session")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    folder = tmp_path_factory.mktemp("report")
    return Bundle(sound_wheel(folder / "wheel"), write_recipe(folder / "recipe"))


@pytest.fixture
def cleared(sound: Bundle, tmp_path: Path) -> GateInputs:
    """Everything that publication demands of the sound bundle."""
    if shutil.which("ssh-keygen") is None:
        pytest.skip("no ssh-keygen on the PATH")
    records, signers = given.approvals(tmp_path, sound.wheel, sound.sha256, sound.recipe)
    return GateInputs(
        approvals=records,
        allowed_signers=signers,
        evidence=given.evidence(sound.wheel, sound.sha256, sound.recipe),
        today=given.TODAY,
    )
