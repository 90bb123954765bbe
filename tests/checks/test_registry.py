from __future__ import annotations

import pytest

from situ_release.checks.catalog import catalog, markdown
from situ_release.checks.registry import CHECKS, PUBLICATION_CHECKS, choose
from situ_release.errors import UsageError

IDS = [check.id for check in CHECKS]
ALL = [*IDS, *(check.id for check in PUBLICATION_CHECKS)]


def test_ids_are_unique_and_those_of_the_catalog_in_its_order() -> None:
    assert len(set(ALL)) == len(ALL)
    assert list(catalog()) == ALL


@pytest.mark.parametrize("check_id", ALL)
def test_every_check_has_texts_for_people(check_id: str) -> None:
    text = catalog()[check_id]
    assert text.title
    assert text.causes
    assert text.remedy
    assert text.who
    assert not text.title.endswith(".")


def test_the_page_of_checks_has_a_paragraph_for_every_check() -> None:
    section = markdown()
    assert [line[3:] for line in section.splitlines() if line.startswith("## ")] == ALL


def test_all_checks_run_unless_some_are_chosen() -> None:
    assert choose() == CHECKS
    assert [check.id for check in choose(["cubin", "runner.table"])] == [
        "cubin.format",
        "cubin.arch",
        "cubin.symbol",
        "cubin.toolchain",
        "runner.table",
    ]
    assert [check.id for check in choose(["cubin"], ["cubin.s", "cubin.t"])] == [
        "cubin.format",
        "cubin.arch",
    ]


def test_ignored_checks_are_left_out() -> None:
    left = {check.id for check in choose(ignore=["runner", "cubin"])}
    assert left == {name for name in IDS if not name.startswith(("runner.", "cubin."))}


@pytest.mark.parametrize("option", ["select", "ignore"])
def test_an_unknown_id_is_named_beside_the_known_ones(option: str) -> None:
    with pytest.raises(UsageError) as caught:
        choose(**{option: ["cubin", "runnr", ""]})
    (problem,) = caught.value.problems
    assert "'runnr', ''" in problem.found
    assert "cubin'" not in problem.found
    assert all(check_id in problem.expected for check_id in IDS)


def test_nothing_left_to_check_is_no_success() -> None:
    with pytest.raises(UsageError, match="no check is left"):
        choose(["cubin"], ["cubin"])
