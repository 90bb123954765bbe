"""From a wheel to the gate, as reviewers and the pipeline type it."""

from __future__ import annotations

from pathlib import Path

import pytest

from situ_release.bundle.approvals import load_approvals
from situ_release.bundle.publication_policy import APPROVAL_KINDS
from tests.checks.bundle import sound_wheel, write_recipe
from tests.checks.gate import IDENTITY, Signer, evidence_of, make_signer
from tests.cli.run import Result, situ


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("gate")


@pytest.fixture(scope="module")
def signer(folder: Path) -> Signer:
    return make_signer(folder / "signer")


@pytest.fixture(scope="module")
def wheel(folder: Path) -> Path:
    return sound_wheel(folder)


@pytest.fixture(scope="module")
def recipe(folder: Path) -> Path:
    return write_recipe(folder)


@pytest.fixture(scope="module")
def evidence(folder: Path, wheel: Path, recipe: Path) -> Path:
    path = folder / "evidence.json"
    path.write_text(evidence_of(wheel, recipe).canonical())
    return path


def approve(signer: Signer, wheel: Path, approvals: Path, kind: str, *more: object) -> Result:
    words = ["--kind", kind, "--decision", "approved", "--text", "Nothing stands against it."]
    words += ["--reference", "CASE-7", "--identity", IDENTITY, "--key", str(signer.key)]
    return situ("approve", wheel, *words, "--approvals", approvals, *more, "--json")


@pytest.fixture(scope="module")
def approvals(folder: Path, signer: Signer, wheel: Path) -> Path:
    path = folder / "approvals.toml"
    for kind in APPROVAL_KINDS:
        assert approve(signer, wheel, path, kind).code == 0
    return path


def verify(wheel: Path, recipe: Path, **files: Path | None) -> Result:
    words = [f"--{name.replace('_', '-')}={path}" for name, path in files.items() if path]
    return situ("verify", wheel, f"--recipe={recipe}", "--for-publication", *words, "--json")


def test_a_decision_is_recorded(signer: Signer, wheel: Path, tmp_path: Path) -> None:
    path = tmp_path / "approvals.toml"
    options = ["--expires", "2099-01-31", "--date", "2026-08-01"]
    result = approve(signer, wheel, path, "license", *options)
    document = result.json
    assert document["kind"] == "license"
    assert document["expires"] == "2099-01-31"
    assert not document["checked"]
    (record,) = load_approvals(path).approvals
    assert record.sha256 == document["wheel"]["sha256"]
    assert (record.date.isoformat(), record.identity) == ("2026-08-01", IDENTITY)
    assert "--allowed-signers" in result.stderr


def test_a_decision_that_would_not_count_is_not_recorded(
    signer: Signer, wheel: Path, tmp_path: Path
) -> None:
    path = tmp_path / "approvals.toml"
    other = signer.allow(tmp_path / "signers", identity="somebody@example.org")
    refused = approve(signer, wheel, path, "license", "--allowed-signers", other)
    assert refused.code == 3
    assert "would not count" in refused.json["error"]["what"]
    assert not path.exists()
    accepted = approve(signer, wheel, path, "license", "--allowed-signers", signer.allowed)
    assert accepted.json["checked"]


def test_nothing_that_is_no_wheel_is_approved(signer: Signer, tmp_path: Path) -> None:
    page = tmp_path / "a-1-py3-none-any.whl"
    page.write_text("<html>not found</html>")
    result = approve(signer, page, tmp_path / "approvals.toml", "license")
    assert result.code == 3
    assert not (tmp_path / "approvals.toml").exists()


def test_everything_there_opens_the_gate(
    wheel: Path, recipe: Path, approvals: Path, signer: Signer, evidence: Path
) -> None:
    result = verify(
        wheel, recipe, approvals=approvals, allowed_signers=signer.allowed, evidence=evidence
    )
    document = result.json
    assert document["ok"], document["open"]
    assert document["open"] == []
    assert document["for_publication"]
    assert "may be published" in result.stderr


@pytest.mark.parametrize("missing", ["approvals", "allowed_signers", "evidence"])
def test_what_is_missing_is_open(
    wheel: Path, recipe: Path, approvals: Path, signer: Signer, evidence: Path, missing: str
) -> None:
    files = {"approvals": approvals, "allowed_signers": signer.allowed, "evidence": evidence}
    result = verify(wheel, recipe, **{**files, missing: None})
    document = result.json
    assert document["exit_code"] == 1
    expected = ["evidence"] if missing == "evidence" else list(APPROVAL_KINDS)
    assert [point["subject"] for point in document["open"]] == expected
    assert all(point["who"] and point["remedy"] for point in document["open"])
    assert "may NOT be published" in result.stderr
    assert f"open before publication: {len(expected)}" in result.stderr
    for point in document["open"]:
        assert f"  {point['who']}\n" in result.stderr


def test_a_changed_byte_of_the_wheel_shuts_it(
    wheel: Path, recipe: Path, approvals: Path, signer: Signer, evidence: Path, tmp_path: Path
) -> None:
    other = tmp_path / wheel.name
    other.write_bytes(wheel.read_bytes() + b"\0")
    result = verify(
        other, recipe, approvals=approvals, allowed_signers=signer.allowed, evidence=evidence
    )
    failed = {c["id"] for c in result.json["checks"] if c["status"] == "fail"}
    assert failed == {"wheel.archive", "publication.approvals", "publication.evidence"}


def test_a_changed_letter_of_a_decision_shuts_it(
    wheel: Path, recipe: Path, approvals: Path, signer: Signer, evidence: Path, tmp_path: Path
) -> None:
    other = tmp_path / "approvals.toml"
    other.write_text(approvals.read_text().replace("CASE-7", "CASE-8", 1))
    result = verify(
        wheel, recipe, approvals=other, allowed_signers=signer.allowed, evidence=evidence
    )
    (point,) = result.json["open"]
    assert (point["check"], point["subject"]) == ("publication.approvals", APPROVAL_KINDS[0])


def test_the_clock_decides_what_has_expired(
    wheel: Path, recipe: Path, signer: Signer, evidence: Path, tmp_path: Path
) -> None:
    path = tmp_path / "approvals.toml"
    for kind in APPROVAL_KINDS:
        approve(signer, wheel, path, kind, "--date", "2026-01-01", "--expires", "2026-01-31")
    words = [f"--approvals={path}", f"--allowed-signers={signer.allowed}"]
    result = situ(
        *("verify", wheel, f"--recipe={recipe}", "--for-publication", *words, "--json"),
        SOURCE_DATE_EPOCH="1767225600",  # the first day of 2026
    )
    messages = [point["message"] for point in result.json["open"]]
    assert sum("expired on 2026-01-31" in message for message in messages) == len(APPROVAL_KINDS)


def test_a_host_without_ssh_keygen(
    wheel: Path, recipe: Path, approvals: Path, signer: Signer, tmp_path: Path
) -> None:
    words = [f"--approvals={approvals}", f"--allowed-signers={signer.allowed}"]
    for command in (
        ("verify", wheel, f"--recipe={recipe}", "--for-publication", *words),
        (
            *("approve", wheel, "--kind=license", "--decision=approved", "--text=t"),
            *("--reference=r", f"--key={signer.key}", f"--identity={IDENTITY}"),
            f"--approvals={tmp_path / 'approvals.toml'}",
        ),
    ):
        result = situ(*command, "--json", PATH=str(tmp_path))
        assert result.code == 4
        assert "openssh-client" in result.json["error"]["remedy"]
    assert list(tmp_path.iterdir()) == []
