"""Numerics, determinism and shards on the CPU, against runners that are right or wrong."""

from __future__ import annotations

import itertools

import pytest

torch = pytest.importorskip("torch")

from situ_release.smoke import mutants  # noqa: E402
from situ_release.smoke.child import FaultError  # noqa: E402
from situ_release.smoke.determinism import REPEATS, Repetition  # noqa: E402
from situ_release.smoke.numerics import ContractCheck  # noqa: E402
from situ_release.smoke.shards import ShardSums, whole_layer  # noqa: E402
from tests.smoke.fakes import (  # noqa: E402
    DEFAULT,
    TOLERANCE,
    Events,
    FakeRunner,
    fetching,
    plan_of,
    session_of,
)
from tests.smoke.small import small_contract  # noqa: E402

PRECISIONS = ["w4a16", "w4a8"]
PLAN = plan_of(9, DEFAULT, (8, 0), (8, 3))


def numerics(runner: FakeRunner, precision: str = "w4a16", *, seeds: int = 1) -> Events:
    session, events = session_of(runner)
    contract = small_contract(precision, expert_parallel=2)
    check = ContractCheck(session, contract, [PLAN], TOLERANCE, 1, [9])
    for seed in range(seeds):
        check.run(seed)
    return events


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_right_runner_passes_and_every_mutant_is_caught(precision: str) -> None:
    runner = fetching(FakeRunner(), PLAN)
    events = numerics(runner, precision, seeds=2)
    assert events.problems == []
    cases = events.named("case")
    subjects = ["default tactic", "tactic (8, 0)", "tactic (8, 3)"]
    assert [(case["seed"], case["subject"]) for case in cases] == [
        *((0, subject) for subject in subjects),
        *((1, subject) for subject in subjects),
    ]
    assert {case["contract"] for case in cases} == {small_contract(precision).name}
    assert cases[0]["fetched"] == [f"one{DEFAULT}", f"two{DEFAULT}"]
    assert all(case["figures"]["cosine"] > 0.9999 for case in cases)
    found = events.named("mutant")
    assert [mutant["name"] for mutant in found] == list(mutants.MUTANTS)
    assert all(mutant["caught"] and mutant["broken"] for mutant in found)


def test_the_output_is_nan_before_the_call() -> None:
    seen = []

    class Lazy(FakeRunner):
        def __call__(self, inputs, output, tactic, **options):  # type: ignore[no-untyped-def]
            seen.append(bool(output.isnan().all()))

    events = numerics(fetching(Lazy(), PLAN))
    assert seen == [True] * 3
    assert {problem.what for problem in events.problems} >= {
        "elements of the output are unwritten, NaN or infinite"
    }
    assert all(case["figures"] == {"nonfinite": 9 * 256} for case in events.named("case"))


def test_one_wrong_tactic_is_named() -> None:
    def spoil(output, tactic) -> None:  # type: ignore[no-untyped-def]
        if tactic == (8, 3):
            output[4, 7] *= -3

    events = numerics(fetching(FakeRunner(spoil), PLAN))
    (problem,) = events.problems
    assert "at 9 tokens, tactic (8, 3), seed 0" in problem.where
    assert "worst_token at most 0.02" in problem.expected
    assert [case["status"] for case in events.named("case")] == ["pass", "pass", "fail"]


def test_one_unwritten_element_fails() -> None:
    def spoil(output, tactic) -> None:  # type: ignore[no-untyped-def]
        output[0, 0] = float("nan")

    events = numerics(fetching(FakeRunner(spoil), PLAN))
    assert {case["status"] for case in events.named("case")} == {"fail"}
    assert events.problems[0].found == "1 elements that are not"


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", mutants.MUTANTS)
def test_a_runner_with_a_mutants_fault_fails_and_agrees_with_the_mutant(
    precision: str, name: str
) -> None:
    events = numerics(fetching(FakeRunner(change=mutants.MUTANTS[name]), PLAN), precision)
    assert {case["status"] for case in events.named("case")} == {"fail"}
    caught = {mutant["name"]: mutant["caught"] for mutant in events.named("mutant")}
    assert [other for other, seen in caught.items() if not seen] == [name]
    assert any(p.what == "the comparison does not see a fault" for p in events.problems)


@pytest.mark.parametrize(
    ("fetch", "found"),
    [
        ({(8, 3): ["one(8, 0)", "two(8, 0)"]}, "one(8, 0), two(8, 0)"),
        ({(8, 3): []}, "none of them fetched"),
        ({(8, 3): ["one(8, 3)"]}, "one(8, 3)"),
    ],
)
def test_a_tactic_that_launches_other_kernels_fails(
    fetch: dict[tuple[int, int], list[str]], found: str
) -> None:
    runner = fetching(FakeRunner(), PLAN)
    runner.to_fetch |= fetch
    (problem,) = numerics(runner).problems
    assert problem.what == "the tactic does not launch its kernels"
    assert "one(8, 3) and two(8, 3)" in problem.expected
    assert found in problem.found


def test_what_the_runner_raises_is_a_fault_that_says_where() -> None:
    class Raising(FakeRunner):
        def __call__(self, inputs, output, tactic, **options):  # type: ignore[no-untyped-def]
            raise RuntimeError("no such kernel")

    with pytest.raises(FaultError) as caught:
        numerics(Raising())
    (problem,) = caught.value.problems
    assert "9 tokens" in problem.where
    assert "no such kernel" in problem.found


def test_no_token_at_all_is_a_case() -> None:
    plan = plan_of(0, DEFAULT)
    session, events = session_of(FakeRunner())
    ContractCheck(session, small_contract("w4a8"), [plan], TOLERANCE, 0, [1]).run(0)
    (case,) = events.named("case")
    assert (case["tokens"], case["status"]) == (0, "pass")


# --- determinism --------------------------------------------------------------------------------


def repeated(runner: FakeRunner, **ways) -> Events:  # type: ignore[no-untyped-def]
    session, events = session_of(runner)
    Repetition(session, small_contract("w4a8"), [PLAN, plan_of(0, DEFAULT)], 0, ways).run()
    return events


def test_equal_bits_pass_with_a_digest_for_the_second_process() -> None:
    first, second = (repeated(FakeRunner()) for _ in range(2))
    assert first.problems == []
    digests = [case["output_sha256"] for case in first.named("case")]
    assert digests == [case["output_sha256"] for case in second.named("case")]
    assert len(set(digests[:3])) == 1
    assert first.named("case")[0]["figures"] == {"repeats": REPEATS, "differing_elements": 0}


def test_a_runner_that_varies_fails() -> None:
    counter = itertools.count()

    def spoil(output, tactic) -> None:  # type: ignore[no-untyped-def]
        if len(output) and next(counter) % 4 == 2:
            output[3, 5] += 1

    events = repeated(FakeRunner(spoil))
    assert events.problems[0].found == f"1 elements that differ in {REPEATS} repetitions"


def test_another_way_must_give_the_same_bits() -> None:
    def right(session, inputs, output, tactic) -> None:  # type: ignore[no-untyped-def]
        session.moe(inputs, output, tactic)

    def wrong(session, inputs, output, tactic) -> None:  # type: ignore[no-untyped-def]
        right(session, inputs, output, tactic)
        output[0] = 0

    events = repeated(FakeRunner(), right=right, wrong=wrong)
    subjects = {case["subject"]: case["status"] for case in events.named("case")}
    assert subjects["default tactic, right"] == "pass"
    assert subjects["default tactic, wrong"] == "fail"
    assert "tactic (8, 3), right" not in subjects


# --- shards -------------------------------------------------------------------------------------


def shard_contracts() -> list[object]:
    """Two expert-parallel and two tensor-parallel ranks of one whole."""
    contracts = []
    for precision in PRECISIONS:
        base = small_contract(precision).model_copy(update={"physical_intermediate_size": 256})
        for change in (
            {"local_num_experts": 4, "expert_parallel_size": 2},
            {"physical_intermediate_size": 128, "tensor_parallel_size": 2},
        ):
            name = f"{precision}-{next(iter(change)).replace('_', '-')}"
            contracts.append(base.model_copy(update={**change, "name": name}))
    return contracts


def sums(runner: FakeRunner, rank: int = 0, world: int = 1, reduce=None) -> Events:  # type: ignore[no-untyped-def]
    session, events = session_of(runner)
    contracts = shard_contracts()
    assert len({str(whole_layer(c).physical_intermediate_size) for c in contracts}) == 1  # type: ignore[arg-type]
    ShardSums(session, rank, world, reduce, TOLERANCE).check(contracts, [1, 9])  # type: ignore[arg-type]
    return events


def test_shards_add_up_to_the_whole() -> None:
    events = sums(FakeRunner())
    assert events.problems == []
    assert [(case["contract"], case["tokens"]) for case in events.named("case")] == [
        (contract.name, tokens)  # type: ignore[attr-defined]
        for contract in shard_contracts()
        for tokens in (1, 9)
    ]
    subjects = {case["subject"] for case in events.named("case")}
    assert subjects == {
        "sum of 2 expert-parallel shards, one after another",
        "sum of 2 tensor-parallel shards, one after another",
    }


def test_a_shard_that_is_wrong_or_missing_fails() -> None:
    counter = itertools.count()

    def spoil(output, tactic) -> None:  # type: ignore[no-untyped-def]
        if next(counter) == 0:
            output.zero_()

    events = sums(FakeRunner(spoil))
    assert [case["status"] for case in events.named("case")].count("fail") == 1


def test_two_processes_share_the_shards() -> None:
    others: list[object] = []

    def collect(total) -> None:  # type: ignore[no-untyped-def]
        others.append(total.clone())

    second = sums(FakeRunner(), 1, 2, collect)
    assert second.named("case") == []
    assert len(others) == 8
    first = sums(FakeRunner(), 0, 2, lambda total: total.add_(others.pop(0)))
    assert first.problems == []
    assert {case["status"] for case in first.named("case")} == {"pass"}
    assert "in 2 processes, gloo" in first.named("case")[0]["subject"]
