"""The gate: it opens for the very wheel that was approved and ran, and for no other."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from situ_release.bundle.approvals import NAMESPACE, Approval
from situ_release.bundle.evidence import Evidence
from situ_release.bundle.publication_policy import APPROVAL_KINDS
from situ_release.checks.context import GateInputs
from situ_release.checks.model import Finding, VerifyReport
from situ_release.checks.registry import CHECKS, PUBLICATION_CHECKS, choose
from situ_release.checks.verify import verify_wheel
from situ_release.errors import UsageError
from tests.checks.breakages import replace_in
from tests.checks.bundle import METADATA, recipe_text, result, sound_wheel, statuses, write_recipe
from tests.checks.gate import DECIDED, IDENTITY, TODAY, Signer, evidence_of, gate, make_signer
from tests.synth.wheel import PUBLISHED_TAG, RAW_TAG

KIND = "export-control"
GATE = {check.id for check in PUBLICATION_CHECKS}


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
def records(signer: Signer, wheel: Path) -> list[Approval]:
    return signer.approve_all(wheel)


@pytest.fixture(scope="module")
def evidence(wheel: Path, recipe: Path) -> Evidence:
    return evidence_of(wheel, recipe)


@pytest.fixture
def judged(
    wheel: Path, recipe: Path, records: list[Approval], signer: Signer, evidence: Evidence
) -> Callable[..., VerifyReport]:
    """The report with every input as it should be, but for what is given."""

    def verify(**changes: Any) -> VerifyReport:
        inputs = {"records": records, "signers": signer.allowed, "evidence": evidence} | changes
        return verify_wheel(inputs.pop("wheel", wheel), recipe=str(recipe), gate=gate(**inputs))

    return verify


def instead(records: list[Approval], *others: Approval) -> list[Approval]:
    """The records, with ``others`` in place of those of the same kind."""
    return [r for r in records if r.kind not in {o.kind for o in others}] + list(others)


def only_fault(report: VerifyReport, check_id: str) -> Finding:
    assert statuses(report) == {check_id: "fail"}
    assert report.verdict == "may NOT be published"
    assert report.exit_code == 1
    ((check, finding),) = report.open_points
    assert check.id == check_id
    assert finding.remedy
    assert finding.who
    return finding


def test_a_wheel_with_everything_may_be_published(judged: Callable[..., VerifyReport]) -> None:
    report = judged()
    assert statuses(report) == {}
    assert report.verdict == "may be published"
    assert report.open_points == ()
    notes = result(report, "publication.approvals").findings
    assert [note.subject for note in notes] == list(APPROVAL_KINDS)
    assert all(IDENTITY in note.message and "CASE-7" in note.message for note in notes)


def test_the_gate_runs_after_everything_else_and_only_when_asked() -> None:
    assert choose(for_publication=True) == CHECKS + PUBLICATION_CHECKS
    assert not GATE & {check.id for check in choose()}
    for options in ({"select": ["publication.index"]}, {"ignore": ["publication"]}):
        with pytest.raises(UsageError) as caught:
            choose(**options)
        assert caught.value.problems[0].expected == "--for-publication"
        with pytest.raises(UsageError, match="a part of the checks"):
            choose(**options, for_publication=True)


def test_nothing_given_is_all_open_each_with_who_must_act(
    judged: Callable[..., VerifyReport],
) -> None:
    report = judged(records=None, signers=None, evidence=None)
    assert statuses(report) == {"publication.approvals": "fail", "publication.evidence": "fail"}
    assert [finding.subject for _, finding in report.open_points] == [*APPROVAL_KINDS, "evidence"]
    assert len({finding.who for _, finding in report.open_points}) == 6


def test_a_fault_of_the_wheel_keeps_the_gate_shut(
    judged: Callable[..., VerifyReport], signer: Signer, recipe: Path, tmp_path: Path
) -> None:
    broken = sound_wheel(tmp_path, rpath="/opt/lib")
    report = judged(
        wheel=broken, records=signer.approve_all(broken), evidence=evidence_of(broken, recipe)
    )
    assert not GATE & statuses(report).keys()
    assert statuses(report)["runner.rpath"] == "fail"
    assert report.verdict == "may NOT be published"


# --- approvals -----------------------------------------------------------------------------------


def test_any_changed_byte_voids_the_approvals(
    judged: Callable[..., VerifyReport], records: list[Approval], wheel: Path, tmp_path: Path
) -> None:
    other = tmp_path / wheel.name
    data = bytearray(wheel.read_bytes())
    data[-1] ^= 1
    other.write_bytes(data)
    report = judged(wheel=other)
    findings = result(report, "publication.approvals").findings
    assert [finding.subject for finding in findings] == list(APPROVAL_KINDS)
    assert all(f"for another wheel, {wheel.name}" in finding.message for finding in findings)
    assert result(report, "publication.evidence").status == "fail"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"decision": "rejected", "text": "Not classified."}, ("was refused", "Not classified.")),
        ({"decision": "conditional", "text": "Not to Y."}, ("conditions only", "Not to Y.")),
        ({"expires": TODAY - dt.timedelta(1), "date": DECIDED}, ("expired on 2026-08-02",)),
        ({"date": TODAY + dt.timedelta(2)}, ("still to come",)),
    ],
    ids=["rejected", "conditional", "expired", "of a day to come"],
)
def test_a_decision_that_does_not_open_the_gate(
    judged: Callable[..., VerifyReport],
    records: list[Approval],
    signer: Signer,
    wheel: Path,
    changes: dict[str, Any],
    words: tuple[str, ...],
) -> None:
    report = judged(records=instead(records, signer.approve(wheel, KIND, **changes)))
    finding = only_fault(report, "publication.approvals")
    assert (finding.subject, finding.who) == (KIND, "export-control reviewer")
    assert all(word in finding.message for word in (*words, IDENTITY))


@pytest.mark.parametrize(
    "changes",
    [
        {"expires": TODAY},
        {"expires": TODAY + dt.timedelta(1)},
        {"date": TODAY},
        {"date": TODAY + dt.timedelta(1)},
    ],
    ids=["last day", "day before", "today", "today where the day begins earlier"],
)
def test_a_decision_that_still_counts(
    judged: Callable[..., VerifyReport],
    records: list[Approval],
    signer: Signer,
    wheel: Path,
    changes: dict[str, Any],
) -> None:
    report = judged(records=instead(records, signer.approve(wheel, KIND, **changes)))
    assert statuses(report) == {}


@pytest.mark.parametrize("kind", APPROVAL_KINDS)
def test_a_missing_approval(
    judged: Callable[..., VerifyReport], records: list[Approval], kind: str
) -> None:
    report = judged(records=[record for record in records if record.kind != kind])
    finding = only_fault(report, "publication.approvals")
    assert finding.subject == kind
    assert "is missing" in finding.message


@pytest.mark.parametrize("second", ["approved", "rejected"])
def test_two_records_of_one_kind_count_for_nothing(
    judged: Callable[..., VerifyReport],
    records: list[Approval],
    signer: Signer,
    wheel: Path,
    second: str,
) -> None:
    finding = only_fault(
        judged(records=[*records, signer.approve(wheel, KIND, decision=second)]),
        "publication.approvals",
    )
    assert finding.subject == KIND
    assert f"there are 2: approved by {IDENTITY}, {second} by {IDENTITY}" in finding.message


@pytest.mark.parametrize(
    "change",
    [
        {"decision": "approved"},
        {"text": "Anything goes."},
        {"reference": "CASE-8"},
        {"date": dt.date(2026, 7, 30)},
        {"expires": dt.date(2099, 1, 1)},
        {"expires": None},
        {"wheel": "other.whl"},
        {"identity": "somebody@example.org"},
        {"kind": KIND},
    ],
    ids=lambda change: f"{next(iter(change))}-{next(iter(change.values()))}",
)
def test_a_record_that_was_changed_after_signing(
    judged: Callable[..., VerifyReport],
    records: list[Approval],
    signer: Signer,
    wheel: Path,
    tmp_path: Path,
    change: dict[str, Any],
) -> None:
    signed = {"decision": "conditional", "expires": dt.date(2026, 12, 31)}
    kind = "model-owner" if "kind" in change else KIND
    honest = signer.approve(wheel, kind, **signed)
    forged = honest.model_copy(update=change)
    assert forged != honest
    # Also for one who may sign anything under any name.
    signers = signer.allow(tmp_path / "signers", identity="*")
    report = judged(records=instead(records, forged), signers=signers)
    finding = only_fault(report, "publication.approvals")
    assert finding.subject == KIND
    assert "was changed" in finding.message


def test_a_record_of_another_wheel_under_this_wheel_s_digest(
    judged: Callable[..., VerifyReport], records: list[Approval], signer: Signer, wheel: Path
) -> None:
    other = signer.approve(wheel, KIND, sha256="1" * 64)
    mine = next(record for record in records if record.kind == KIND)
    forged = other.model_copy(update={"sha256": mine.sha256})
    report = judged(records=instead(records, forged))
    assert "was changed" in only_fault(report, "publication.approvals").message


def test_a_signature_that_is_none(
    judged: Callable[..., VerifyReport], records: list[Approval]
) -> None:
    mine = next(record for record in records if record.kind == KIND)
    for text in ("AAAA", "U1NIU0lH" * 30):
        armoured = f"-----BEGIN SSH SIGNATURE-----\n{text}\n-----END SSH SIGNATURE-----\n"
        forged = mine.model_copy(update={"signature": armoured})
        report = judged(records=instead(records, forged))
        assert "was changed" in only_fault(report, "publication.approvals").message


@pytest.mark.parametrize(
    "options",
    [
        {"identity": "somebody@example.org"},
        {"namespaces": f"{NAMESPACE}/license"},
        {"namespaces": "git"},
    ],
    ids=["another name", "another kind of approval", "another purpose"],
)
def test_a_signer_who_may_not_decide_this(
    judged: Callable[..., VerifyReport],
    records: list[Approval],
    signer: Signer,
    tmp_path: Path,
    options: dict[str, str],
) -> None:
    report = judged(signers=signer.allow(tmp_path / "signers", **options))
    assert statuses(report) == {"publication.approvals": "fail"}
    allowed = {"license"} if "license" in options.get("namespaces", "") else set()
    failed = {finding.subject for _, finding in report.open_points}
    assert failed == set(APPROVAL_KINDS) - allowed
    assert all("is not one that" in finding.message for _, finding in report.open_points)


def test_an_unknown_signer(
    judged: Callable[..., VerifyReport], records: list[Approval], wheel: Path, tmp_path: Path
) -> None:
    stranger = make_signer(tmp_path / "stranger")
    report = judged(records=instead(records, stranger.approve(wheel, KIND)))
    finding = only_fault(report, "publication.approvals")
    assert "is not one that" in finding.message


def test_without_allowed_signers_nothing_counts(judged: Callable[..., VerifyReport]) -> None:
    report = judged(signers=None)
    assert statuses(report) == {"publication.approvals": "fail"}
    assert all("was not checked" in finding.message for _, finding in report.open_points)


def test_a_refusal_that_nobody_had_asked_for_counts(
    judged: Callable[..., VerifyReport],
    records: list[Approval],
    signer: Signer,
    wheel: Path,
    evidence: Evidence,
    tmp_path: Path,
) -> None:
    old = f'"model-owner", "{KIND}", '
    text = recipe_text()
    assert old in text
    recipe = write_recipe(tmp_path, text.replace(old, '"model-owner", '))
    fewer = [record for record in records if record.kind != KIND]
    inputs: list[tuple[list[Approval], str]] = [
        (fewer, "pass"),
        (records, "pass"),
        ([*fewer, signer.approve(wheel, KIND, decision="rejected")], "fail"),
    ]
    for given, status in inputs:
        report = verify_wheel(wheel, recipe=str(recipe), gate=gate(given, signer.allowed, evidence))
        assert result(report, "publication.approvals").status == status


# --- evidence ------------------------------------------------------------------------------------


def _failed(evidence: Evidence, status: str) -> dict[str, Any]:
    first = evidence.tiers[0].model_copy(update={"status": status})
    return {"tiers": [first, *evidence.tiers[1:]]}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda e: {"wheel": e.wheel.model_copy(update={"sha256": "0" * 64})}, "another wheel"),
        (lambda e: _failed(e, "fail"), "tier load has not passed"),
        (lambda e: _failed(e, "refused"), "tier load has not passed"),
        (lambda e: {"tiers": e.tiers[:-1]}, "tier shards has not passed"),
        (lambda e: {"host": None}, "not on a device"),
        (lambda e: {"terms_sha256": "0" * 64}, "other demands"),
        (lambda e: {"scope": e.scope.model_copy(update={"short": True})}, "a short one"),
    ],
    ids=["wheel", "failed", "refused", "not asked for", "no device", "laxer terms", "short"],
)
def test_evidence_that_shows_too_little(
    judged: Callable[..., VerifyReport],
    evidence: Evidence,
    change: Callable[[Evidence], dict[str, Any]],
    words: str,
) -> None:
    report = judged(evidence=evidence.model_copy(update=change(evidence)))
    finding = only_fault(report, "publication.evidence")
    assert words in finding.message
    assert finding.who == "maintainer, on a target device"


def test_evidence_of_another_device(
    judged: Callable[..., VerifyReport], evidence: Evidence
) -> None:
    assert evidence.host is not None
    device = evidence.host.devices[0].model_copy(update={"name": "NVIDIA H200", "sm": 90})
    host = evidence.host.model_copy(update={"devices": [device]})
    report = judged(evidence=evidence.model_copy(update={"host": host}))
    assert "NVIDIA H200, sm_90" in only_fault(report, "publication.evidence").message


# --- index ---------------------------------------------------------------------------------------


def _metadata(old: str, new: str) -> dict[str, Any]:
    return {"edit": replace_in(METADATA, old.encode(), new.encode())}


PRE_ALPHA = "Classifier: Development Status :: 2 - Pre-Alpha"
MARKDOWN = "Description-Content-Type: text/markdown"


@pytest.mark.parametrize(
    ("knobs", "words"),
    [
        (_metadata("post20260727", "post20260727+cu131"), "the version is a local one"),
        ({"tag": RAW_TAG}, "no wheel with this platform tag"),
        (_metadata(PRE_ALPHA, "Classifier: Development Status :: 0"), "an unknown Classifier"),
        (_metadata(PRE_ALPHA, "Classifier: Private :: Do Not Upload"), "forbids upload"),
        (_metadata(PRE_ALPHA, "Classifier: Natural Language :: Ukranian"), "a deprecated"),
        (_metadata(">=0.1.12,<0.2", " @ https://example.org/x.whl"), "Requires-Dist names a URL"),
        (_metadata("Summary: AOT", "Summary: " + 512 * "A"), "Summary is too long"),
        (_metadata("Project-URL: Homepage", "Project-URL: " + 33 * "H"), "the label"),
        (_metadata("Homepage, https://", "Homepage, "), "Project-URL Homepage is no URL"),
        (_metadata("Homepage, https://github.com", "Homepage, https://[x"), "is no URL"),
        (
            _metadata(f"{MARKDOWN}\n", "Description-Content-Type: text/x-rst\n")
            | {"also": ("A synthetic bundle.", "`a <b>`_ :bad:`c`\n\n====")},
            "cannot render the description",
        ),
    ],
    ids=[
        "local version", "tag", "unknown", "private", "deprecated", "URL", "summary", "label",
        "no URL", "a URL that is none", "description",
    ],
)  # fmt: skip
def test_what_the_index_refuses(
    judged: Callable[..., VerifyReport], tmp_path: Path, knobs: dict[str, Any], words: str
) -> None:
    also = knobs.pop("also", None)
    if also:
        first, second = knobs["edit"], _metadata(*also)["edit"]
        knobs["edit"] = lambda files: (first(files), second(files))
    report = judged(wheel=sound_wheel(tmp_path, **knobs))
    check = result(report, "publication.index")
    assert check.status == "fail"
    assert [words in finding.message for finding in check.findings] == [True]
    assert check.findings[0].remedy


def test_a_wheel_over_the_limit(
    wheel: Path, tmp_path: Path, records: list[Approval], signer: Signer, evidence: Evidence
) -> None:
    text = recipe_text().replace("size_limit_bytes = 104857600", "size_limit_bytes = 1000")
    report = verify_wheel(
        wheel,
        recipe=str(write_recipe(tmp_path, text)),
        gate=gate(records, signer.allowed, evidence),
    )
    assert result(report, "publication.index").status == "fail"


def test_a_plain_text_or_rst_description_is_fine(
    judged: Callable[..., VerifyReport], tmp_path: Path
) -> None:
    for kind in ("text/plain", "text/x-rst", "text/markdown; variant=GFM; charset=UTF-8"):
        edit = _metadata(MARKDOWN, f"Description-Content-Type: {kind}")
        report = judged(wheel=sound_wheel(tmp_path / kind[5:10], **edit))
        assert result(report, "publication.index").findings == ()


def test_a_pre_release_is_a_warning(judged: Callable[..., VerifyReport], tmp_path: Path) -> None:
    edit = _metadata("Version: 0.1.0.post20260727", "Version: 0.1.0rc1")
    check = result(judged(wheel=sound_wheel(tmp_path, **edit)), "publication.index")
    assert check.status == "warn"


def test_what_cannot_be_read_is_not_checked(
    judged: Callable[..., VerifyReport], tmp_path: Path
) -> None:
    report = judged(wheel=sound_wheel(tmp_path, filename="bundle.whl"))
    assert result(report, "publication.index").status == "skip"
    path = tmp_path / f"a-1-{PUBLISHED_TAG}.whl"
    path.write_bytes(b"no wheel")
    report = judged(wheel=path)
    assert report.exit_code == 1
    assert result(report, "publication.index").status == "skip"


# --- the real one --------------------------------------------------------------------------------


def test_what_is_open_for_the_published_wheel(published_wheel: Path) -> None:
    report = verify_wheel(published_wheel, gate=GateInputs(None, None, None, TODAY))
    assert report.exit_code == 1
    assert {check.id for check in report.checks if check.status in ("fail", "skip")} == {
        "publication.approvals",
        "publication.evidence",
    }
    assert [finding.subject for _, finding in report.open_points] == [*APPROVAL_KINDS, "evidence"]
    assert result(report, "publication.index").findings == ()
