"""What the events of a rehearsal mean: cases with figures, and everything that was wrong."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from situ_release.bundle.evidence import Case, Figure
from situ_release.bundle.manifest import CubinEntry
from situ_release.errors import Problem
from situ_release.smoke.rehearsal.arguments import GEMM_WEIGHTS
from situ_release.smoke.rehearsal.child import call_name
from situ_release.smoke.rehearsal.plan import ContractPlan
from situ_release.smoke.supervise import Event, Outcome
from situ_release.smoke.tiers.load import unpredicted

MOST_OF_A_KIND = 10
"""Problems of one kind that are listed; the others are counted."""

_REMEDY = "correct the runner and build the wheel again"


class Judge:
    """Compares what the runner did with what it must do.

    Args:
        plans: what was asked, by contract name.
        cubins: the bundled ones by kernel name.
        whole: whole calls were asked for, not tactic lists only.

    Attributes:
        cases: one per problem, and one per contract for its kernels.
    """

    def __init__(
        self, plans: Mapping[str, ContractPlan], cubins: Mapping[str, CubinEntry], *, whole: bool
    ) -> None:
        self._plans = plans
        self._cubins = cubins
        self._whole = whole
        self._requested: set[str] | None = None
        self._launched: dict[str, set[str]] = {name: set() for name in plans}
        self._raised: set[str] = set()
        self._found: list[Problem] = []
        self.cases: list[Case] = []

    @property
    def problems(self) -> list[Problem]:
        """Everything that was wrong so far, fit to be read."""
        return list(_shortened(_merged(self._found)))

    def hear(self, outcome: Outcome) -> None:
        """Judge the events of a child."""
        if any(event["logs"] for event in outcome.select("callback")):
            self._requested = set()
        calls: dict[tuple[str, int], list[Event]] = {}
        for event in outcome.select("call"):
            calls.setdefault((event["contract"], event["tokens"]), []).append(event)
        for answer in outcome.select("tactics"):
            key = (answer["contract"], answer["tokens"])
            self._judge_problem(answer, calls.get(key, []))
        if not outcome.problems and self._whole:
            for plan in self._plans.values():
                self._judge_kernels(plan)

    def _judge_problem(self, answer: Event, calls: Sequence[Event]) -> None:
        plan, tokens = self._plans[answer["contract"]], answer["tokens"]
        pairs = [(tile, config) for tile, config in answer["tactics"]]
        predicted = plan.tactics(tokens)
        wrong = []
        if pairs != predicted:
            wrong.append(unpredicted(plan.contract.name, tokens, predicted, pairs))
        for call in calls:
            wrong += self._call_problems(plan, call)
        kernels = {item["kernel"] for call in calls for item in call["kernels"]}
        self._launched[plan.contract.name] |= kernels
        self._found += wrong
        figures: dict[str, Figure] = {"tactics": len(pairs)}
        if self._whole:
            figures |= {"calls": len(calls), "kernels": len(kernels)}
            for figure in ("launches", "allocations", "pointers"):
                figures[figure] = sum(call[figure] for call in calls)
            figures["outside"] = sum(len(call["outside"]) for call in calls)
        self.cases.append(
            Case(
                tier="rehearsal",
                subject="tactics and calls" if self._whole else "tactics",
                contract=plan.contract.name,
                tokens=tokens,
                status="fail" if wrong else "pass",
                figures=figures,
            )
        )

    def _judge_kernels(self, plan: ContractPlan) -> None:
        name = plan.contract.name
        never = sorted(plan.selectable - self._launched[name])
        # Where calls raised, launches are missing for that reason, which is told already.
        self._found += (
            Problem(
                "a kernel that the runner can select was never launched",
                name,
                expected="the tactics that its kernel table and rules give launch each",
                found=kernel,
                remedy=_REMEDY,
            )
            for kernel in (never if name not in self._raised else ())
        )
        self.cases.append(
            Case(
                tier="rehearsal",
                subject="selectable kernels",
                contract=name,
                status="fail" if never else "pass",
                figures={
                    "selectable": len(plan.selectable),
                    "requested": len(plan.selectable) - len(never),
                },
            )
        )

    def _call_problems(self, plan: ContractPlan, call: Event) -> Iterator[Problem]:
        tile, config = call["tactic"]
        where = call_name(
            plan.contract.name, call["tokens"], (tile, config), finalize=call["finalize"]
        )
        if self._requested is not None:
            self._requested.update(call["requests"])
        if call["error"] is not None:
            self._raised.add(plan.contract.name)
            yield Problem(**call["error"])
            return
        wanted = plan.kernels((tile, config), call["tokens"])
        for what, expected, found in (
            *_selection_faults(wanted, call["kernels"]),
            *self._origin_faults(call["kernels"]),
            *_argument_faults(call),
        ):
            yield Problem(what, where, expected, found, _REMEDY)

    def _origin_faults(self, kernels: Iterable[Event]) -> Iterator[tuple[str, str, str]]:
        for item in kernels:
            kernel, digest = item["kernel"], item["sha256"]
            bundled = self._cubins.get(kernel)
            if bundled is None or bundled.sha256 != digest:
                yield (
                    "a launched kernel is not the bundle's",
                    "a kernel of the manifest, with its SHA-256",
                    f"{kernel}, SHA-256 {digest}",
                )
            elif self._requested is not None and bundled.filename not in self._requested:
                yield (
                    "a kernel did not come through the package's callback",
                    "every cubin asked for by name",
                    kernel,
                )


def _selection_faults(
    wanted: Sequence[frozenset[str]], kernels: Sequence[Event]
) -> Iterator[tuple[str, str, str]]:
    found = [item["kernel"] for item in kernels]
    if len(found) != len(wanted) or any(
        kernel not in choice for kernel, choice in zip(found, wanted, strict=True)
    ):
        yield (
            "the launched kernels are not those of the tactic",
            ", then ".join(map(_choice, wanted)),
            ", then ".join(found) or "none",
        )
        return
    for name, own, item in zip(("FC1", "FC2"), GEMM_WEIGHTS, kernels, strict=True):
        if item["weights"] != [own]:
            yield (
                "a product was given the wrong weights",
                f"{own} for {name}",
                " and ".join(item["weights"]) or "none",
            )


def _choice(kernels: frozenset[str]) -> str:
    first, *others = sorted(kernels)
    return f"{first} or one of {len(others)} that tie with it" if others else first


def _argument_faults(call: Event) -> Iterator[tuple[str, str, str]]:
    for text in call["outside"]:
        yield "a pointer lies outside its allocation", "every device address inside its own", text
    for name in call["unused"]:
        yield "an input is given to no kernel", "every input among some launch's parameters", name
    if call["writes_output"] != call["finalize"]:
        yield (
            "the output is given to a kernel exactly when the call does not finalize",
            "a kernel that writes it" if call["finalize"] else "none, without finalize",
            "none" if call["finalize"] else "a kernel that was given it",
        )


def _merged(problems: Iterable[Problem]) -> Iterator[Problem]:
    """One for all that differ in ``where`` only: the first, with the number of the others."""
    alike: dict[Problem, list[Problem]] = {}
    for problem in problems:
        alike.setdefault(replace(problem, where=""), []).append(problem)
    for first, *others in alike.values():
        more = f", and {len(others)} more" if others else ""
        yield replace(first, where=first.where + more)


def _shortened(problems: Iterable[Problem]) -> Iterator[Problem]:
    """The first of each kind, and how many others there are."""
    kinds: dict[str, list[Problem]] = {}
    for problem in problems:
        kinds.setdefault(problem.what, []).append(problem)
    for kind in kinds.values():
        yield from kind[:MOST_OF_A_KIND]
        if rest := kind[MOST_OF_A_KIND:]:
            last = kind[MOST_OF_A_KIND - 1]
            yield replace(last, where="elsewhere", found=f"{len(rest)} more of this kind")
