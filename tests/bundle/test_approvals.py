"""The file of approvals: closed, one spelling for one content, signed by what it says."""

from __future__ import annotations

import datetime as dt
import json
import os
import stat
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from situ_release import toml
from situ_release.bundle.approval_state import approval_texts
from situ_release.bundle.approvals import (
    NAMESPACE,
    Approval,
    Approvals,
    add_approval,
    check_signature,
    load_approvals,
    make_approval,
)
from situ_release.bundle.publication_policy import APPROVAL_KINDS
from situ_release.bundle.ssh_signature import sign, signature_fault
from situ_release.errors import HostError, InputError, SituReleaseError, ToolError, UsageError
from tests.checks.gate import IDENTITY, Signer, make_signer

FIELDS: dict[str, Any] = {
    "kind": "license",
    "decision": "approved",
    "wheel": "a-1-py3-none-any.whl",
    "sha256": "ab" * 32,
    "text": 'He said "yes" \\ and more: ünï',
    "reference": "CASE-7",
    "date": "2026-08-01",
    "identity": IDENTITY,
}
SIGNATURE = "-----BEGIN SSH SIGNATURE-----\nAAAA\n-----END SSH SIGNATURE-----\n"


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Signer:
    return make_signer(tmp_path_factory.mktemp("signer"))


def record(**changes: Any) -> Approval:
    """A record with a signature that is none."""
    return Approval.model_validate({**FIELDS, "signature": SIGNATURE, **changes})


# --- the document --------------------------------------------------------------------------------


def test_what_is_signed_is_every_other_field_in_one_spelling() -> None:
    statement = record(expires="2027-01-01").statement()
    assert json.loads(statement) == {
        "schema": "situ-release/approval/1",
        **FIELDS,
        "expires": "2027-01-01",
    }
    assert json.loads(record().statement())["expires"] is None
    assert record(signature=SIGNATURE.replace("AAAA", "BBBB")).statement() == record().statement()


@settings(max_examples=200, deadline=None)
@given(
    st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=1),
    st.dates(),
    st.none() | st.dates(),
)
def test_what_is_written_is_read_again(text: str, date: dt.date, expires: dt.date | None) -> None:
    written = Approvals.model_validate(
        {
            "schema": 1,
            "approvals": [
                record(text=text, date=date, expires=expires, reference=text[::-1]),
                record(kind="model-owner"),
            ],
        }
    )
    read = Approvals.model_validate(toml.tomllib.loads(written.dumps()))
    assert read == written
    assert read.dumps() == written.dumps()
    assert [r.statement() for r in read.approvals] == [r.statement() for r in written.approvals]


def test_the_layout_does_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "approvals.toml"
    fields = record().model_dump(mode="json")
    lines = [f"{name} = {json.dumps(value)}" for name, value in reversed(fields.items()) if value]
    path.write_text("# by hand\nschema = 1\n[[approvals]]\n" + "\n".join(lines))
    (read,) = load_approvals(path).approvals
    assert read.statement() == record().statement()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "key schema is wrong"),
        ("schema = 2", "key schema is wrong"),
        ("schema = 1\ncolour = 'red'", "unknown key colour"),
        ("schema = 1\n[[approvals]]\nkind = 'colour'", "key approvals.0.kind is wrong"),
        ("schema = 1\napprovals = 3", "key approvals is wrong"),
        ("schema = ", "not valid TOML"),
        ("schema = 1\nschema = 1", "not valid TOML"),
    ],
)
def test_anything_else_is_refused_and_named(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "approvals.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=words):
        load_approvals(path)


@pytest.mark.parametrize(
    "change",
    [
        {"sha256": "AB" * 32},
        {"sha256": "ab"},
        {"text": ""},
        {"text": "one\ntwo"},
        {"text": "\x1b[2J"},
        {"text": "\ud800"},
        {"identity": "-oProxy x"},
        {"identity": "a b"},
        {"date": "yesterday"},
        {"signature": "none"},
        {"signature": SIGNATURE.replace("AAAA", "'''\nkind = 'x'")},
        {"decision": "yes"},
    ],
    ids=str,
)
def test_fields_that_do_not_fit(change: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=next(iter(change))):
        record(**change)


@settings(max_examples=100, deadline=None)
@given(
    st.binary(max_size=300)
    | st.text(max_size=300).map(lambda text: text.encode("utf-8", "replace"))
)
def test_arbitrary_bytes_are_an_input_error(tmp_path_factory: Any, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "arbitrary.toml"
    path.write_bytes(data)
    with suppress(InputError):
        load_approvals(path)


def test_every_kind_has_texts_for_people() -> None:
    assert tuple(approval_texts()) == APPROVAL_KINDS
    for text in approval_texts().values():
        assert text.title
        assert text.who
        assert text.action


# --- signing -------------------------------------------------------------------------------------


def test_a_signed_record_counts_for_those_who_know_the_key(signer: Signer, tmp_path: Path) -> None:
    made = make_approval(signer.key, **FIELDS)
    check_signature(made, signer.allowed)
    with pytest.raises(InputError, match="would not count"):
        check_signature(made, signer.allow(tmp_path / "other", namespaces=f"{NAMESPACE}/x"))
    for change in ({"text": "no"}, {"expires": dt.date(2099, 1, 1)}):
        with pytest.raises(InputError, match="was changed"):
            check_signature(made.model_copy(update=change), signer.allowed)


def test_a_namespace_keeps_other_signatures_out(signer: Signer, tmp_path: Path) -> None:
    message = record().statement()
    for_git = sign(message, signer.key, "git")
    anything = signer.allow(tmp_path / "signers")
    assert signature_fault(message, for_git, IDENTITY, "git", anything) is None
    namespace = f"{NAMESPACE}/license"
    assert signature_fault(message, for_git, IDENTITY, namespace, anything) is not None


@pytest.mark.parametrize(
    ("change", "option"),
    [
        ({"kind": "colour"}, "--kind"),
        ({"decision": "maybe"}, "--decision"),
        ({"text": ""}, "--text"),
        ({"date": "soon"}, "--date"),
        ({"identity": "a b"}, "--identity"),
        ({"expires": "2026-07-31"}, "--expires 2026-07-31"),
    ],
)
def test_options_that_do_not_fit_are_named(
    tmp_path: Path, change: dict[str, str], option: str
) -> None:
    with pytest.raises(UsageError) as caught:
        make_approval(tmp_path / "no key is needed to say so", **{**FIELDS, **change})
    assert [problem.where for problem in caught.value.problems] == [option]


def test_a_key_that_is_not_there(tmp_path: Path, signer: Signer) -> None:
    with pytest.raises(InputError, match="cannot read the signing key"):
        make_approval(tmp_path / "id_none", **FIELDS)
    with pytest.raises(InputError, match="cannot read the allowed signers"):
        check_signature(make_approval(signer.key, **FIELDS), tmp_path)


def test_a_key_that_is_none(tmp_path: Path, signer: Signer) -> None:
    key = tmp_path / "id_bad"
    key.write_text("not a key\n")
    key.chmod(0o600)
    with pytest.raises(ToolError) as caught:
        make_approval(key, **FIELDS)
    assert caught.value.log_tail


def test_allowed_signers_that_are_none_allow_nobody(tmp_path: Path, signer: Signer) -> None:
    made = make_approval(signer.key, **FIELDS)
    for text in ("", "nonsense\n", "\0\0\0", f"{IDENTITY}\n"):
        (tmp_path / "signers").write_text(text)
        with pytest.raises(InputError, match="would not count"):
            check_signature(made, tmp_path / "signers")


def test_a_key_that_has_expired_by_its_line(tmp_path: Path, signer: Signer) -> None:
    made = make_approval(signer.key, **FIELDS)
    line = signer.allow(tmp_path / "signers").read_text()
    (tmp_path / "signers").write_text(line.replace(" ", ' valid-before="20200101" ', 1))
    with pytest.raises(InputError, match="would not count"):
        check_signature(made, tmp_path / "signers")


def test_a_host_without_ssh_keygen(
    tmp_path: Path, signer: Signer, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make_approval(signer.key, **FIELDS)
    monkeypatch.setenv("PATH", str(tmp_path))
    for work in (
        lambda: make_approval(signer.key, **FIELDS),
        lambda: check_signature(made, signer.allowed),
    ):
        with pytest.raises(HostError, match="openssh-client"):
            work()


def test_a_tool_that_never_answers_is_no_success(
    tmp_path: Path, signer: Signer, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make_approval(signer.key, **FIELDS)
    tool = tmp_path / "ssh-keygen"
    tool.write_text(f"#!{sys.executable}\nimport time\ntime.sleep(60)\n")
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("situ_release.bundle.ssh_signature._TIMEOUT_SECONDS", 0.2)
    with pytest.raises(InputError, match="would not count"):
        check_signature(made, signer.allowed)


# --- the file ------------------------------------------------------------------------------------


def test_records_are_appended(tmp_path: Path) -> None:
    path = tmp_path / "new" / "approvals.toml"
    first, second = record(), record(kind="export-control")
    add_approval(path, first)
    before = path.read_text()
    add_approval(path, second)
    assert load_approvals(path).approvals == [first, second]
    assert path.read_text().startswith(before)


def test_a_decision_is_not_made_twice(tmp_path: Path) -> None:
    path = tmp_path / "approvals.toml"
    add_approval(path, record())
    before = path.read_bytes()
    with pytest.raises(InputError, match="already") as caught:
        add_approval(path, record(decision="rejected"))
    assert f"approved by {IDENTITY} on 2026-08-01" in str(caught.value)
    assert path.read_bytes() == before
    add_approval(path, record(sha256="cd" * 32))
    assert len(load_approvals(path).approvals) == 2


def test_a_file_that_is_none_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "approvals.toml"
    path.write_text("schema = 1\ncolour = 'red'\n")
    with pytest.raises(SituReleaseError):
        add_approval(path, record())
    assert path.read_text() == "schema = 1\ncolour = 'red'\n"
    assert list(tmp_path.iterdir()) == [path]


def test_records_added_at_once_are_all_kept(tmp_path: Path) -> None:
    path = tmp_path / "approvals.toml"
    records = [record(kind=kind) for kind in APPROVAL_KINDS]
    children = []
    for one in records:
        child = os.fork()
        if not child:
            status = 1
            with suppress(BaseException):
                add_approval(path, one)
                status = 0
            os._exit(status)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * len(records)
    kept = load_approvals(path).approvals
    assert sorted(one.kind for one in kept) == sorted(APPROVAL_KINDS)
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("day", ["0", "20260101", "1767225600", "2026-02-30"])
def test_a_day_is_spelled_in_one_way(day: str) -> None:
    with pytest.raises(ValidationError):
        record(date=day)
