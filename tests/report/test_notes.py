"""Release notes: what changed and why it matters, and an install line that is really run."""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from situ_release.checks.context import GateInputs
from situ_release.report.document import make_document
from situ_release.report.notes import install_command, release_notes
from situ_release.report.subject import Subject, read_subject
from tests.checks.bundle import FC1, compiled_with, sound_wheel
from tests.report.conftest import Bundle
from tests.report.given import NOTHING
from tests.synth.elf import make_cubin
from tests.synth.wheel import DIST_INFO, PACKAGE


def notes(subject: Subject) -> str:
    return release_notes(subject, make_document(subject).decision)


def test_the_parts_of_the_notes_in_order(sound: Bundle, cleared: GateInputs) -> None:
    text = notes(sound.read(cleared))
    assert re.findall(r"^#+ (.+)$", text, re.MULTILINE) == [
        "tokenspeed-situ 0.1.0.post20260727",
        "Install and architecture",
        "Build",
        "Minimum host libraries",
        "Validation",
        "Known issues",
    ]
    assert "Not cleared" not in text
    assert "NVIDIA B300 (sm_103), driver 580.95" in text
    assert "| numerics | pass | 8/8 |" in text
    assert "0.99994" in text
    assert "GLIBC 2." in text
    assert "c0c0c0" in text


def test_without_evidence_nothing_is_called_validated(sound: Bundle) -> None:
    text = notes(sound.read())
    assert "Not validated: there is no evidence of a run on a GPU." in text
    assert "**Not cleared for publication.** 6 points are open" in text


def test_evidence_with_gaps_says_that_it_does_not_count(sound: Bundle, cleared: GateInputs) -> None:
    taken = cleared.evidence
    assert taken is not None
    tiers = [t.model_copy(update={"status": "fail"}) for t in taken.tiers[:1]] + taken.tiers[1:]
    gate = dataclasses.replace(cleared, evidence=taken.model_copy(update={"tiers": tiers}))
    text = notes(sound.read(gate))
    assert "**This does not count as validated:**" in text
    assert "- tier load has not passed: found fail" in text


@pytest.mark.parametrize(
    ("edit", "headline", "matters"),
    [
        (
            lambda files: files.update({f"{DIST_INFO}/licenses/LICENSE": b"MIT\n"}),
            "No binary changed",
            "The runner and the kernels are the same, byte for byte",
        ),
        (
            lambda files: files.update({f"{PACKAGE}/loader.py": b"# other\n"}),
            "No binary changed",
            "Python code around them differs",
        ),
        (
            compiled_with({FC1: make_cubin(FC1, sm=103, arch_specific=True, seed=7)}),
            "Binaries: 2 changed",
            "Validate it anew",
        ),
    ],
    ids=["text", "python", "cubin"],
)
def test_what_changed_and_why_it_matters(
    sound: Bundle, tmp_path: Path, edit: object, headline: str, matters: str
) -> None:
    before = sound_wheel(tmp_path, edit=edit)  # type: ignore[arg-type]
    subject = sound.read(previous=before)
    text = notes(subject)
    assert "## Changes since 0.1.0.post20260727" in text
    assert headline in text
    assert matters in text
    section = make_document(subject).section("changes")
    assert section.lead.startswith(headline)


def test_another_distribution_is_no_previous_release(sound: Bundle, tmp_path: Path) -> None:
    other = tmp_path / "another-1.0-py3-none-any.whl"
    shutil.copyfile(sound.wheel, other)
    with pytest.raises(Exception, match="previous release is another distribution"):
        sound.read(previous=other)


def install(subject: Subject, folder: Path, target: Path, **environment: str) -> str:
    """Run the notes' line in bash, where pip finds wheels in ``folder`` alone; its output."""
    text = notes(subject)
    (line,) = [
        part.strip() for part in re.findall(r"^```\n(.*?)\n```$", text, re.MULTILINE | re.DOTALL)
    ]
    assert line == install_command(subject)
    variables = {
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(folder),
        "PIP_TARGET": str(target),
        "PIP_ONLY_BINARY": ":all:",
        "PIP_PLATFORM": subject.name.tag.rpartition("-")[2],
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    done = subprocess.run(
        ["bash", "-c", line],
        env={**os.environ, **variables, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr if done.returncode == 0 else f"FAILED {done.stderr}"


@pytest.mark.slow
def test_the_install_line_installs_this_file_and_no_other(sound: Bundle, tmp_path: Path) -> None:
    if shutil.which("bash") is None:
        pytest.skip("no bash on the PATH")
    subject = sound.read()
    good = install(subject, sound.wheel.parent, tmp_path / "good")
    assert "Successfully installed tokenspeed-situ-0.1.0.post20260727" in good
    assert (tmp_path / "good" / PACKAGE / "manifest.json").exists()
    other = tmp_path / "other"
    sound_wheel(other, edit=lambda files: files.update({f"{PACKAGE}/loader.py": b"# other\n"}))
    refused = install(subject, other, tmp_path / "bad")
    assert refused.startswith("FAILED")
    assert "DO NOT MATCH THE HASHES" in refused or "mismatch" in refused.lower()
    assert not (tmp_path / "bad" / PACKAGE).exists()


@pytest.mark.slow
def test_the_install_line_of_the_published_wheel(published_wheel: Path, tmp_path: Path) -> None:
    subject = read_subject(published_wheel, gate=NOTHING)
    output = install(subject, published_wheel.parent, tmp_path / "site")
    assert "Successfully installed tokenspeed-situ-0.1.0.post20260727" in output
    assert len(list((tmp_path / "site").rglob("*.cubin"))) == 267
