"""Evidence as JUnit XML: a test suite for each tier, a test case for each case and mutant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from xml.etree import ElementTree

from situ_release.bundle.evidence import Case, Evidence, Figure, MutantEntry, Tier
from situ_release.text import printable

_Element = ElementTree.Element


def junit_xml(evidence: Evidence) -> str:
    """The document; what was refused or not run is ``skipped``, what failed is ``failure``.

    A tier has a test case of its own beside those of its cases, so that a crash between two cases
    is a failure, too.
    """
    root = ElementTree.Element("testsuites", name=f"gpu-smoke {evidence.wheel.filename}")
    for tier in evidence.tiers:
        _suite(root, tier.name, list(_tests(evidence, tier)), evidence.times.seconds.get(tier.name))
    for name in dict.fromkeys(item.tier for item in evidence.not_run):
        reasons = (item.reason for item in evidence.not_run if item.tier == name)
        tests = [_skipped(f"not run: {reason}", reason) for reason in reasons]
        _suite(root, name, tests, None)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _suite(root: _Element, name: str, tests: list[_Element], seconds: float | None) -> None:
    counts = {
        "tests": len(tests),
        "failures": sum(test.find("failure") is not None for test in tests),
        "errors": 0,
        "skipped": sum(test.find("skipped") is not None for test in tests),
    }
    suite = ElementTree.SubElement(root, "testsuite", name=name)
    for key, value in counts.items():
        suite.set(key, str(value))
    if seconds is not None:
        suite.set("time", f"{seconds:.3f}")
    for test in tests:
        test.set("classname", f"gpu-smoke.{name}")
        suite.append(test)


def _tests(evidence: Evidence, tier: Tier) -> Iterator[_Element]:
    problems = "\n".join(
        f"{item.where}: {item.what}: expected {item.expected}, found {item.found}; {item.remedy}"
        for item in tier.problems
    )
    yield {
        "pass": _test("the tier", {}),
        "fail": _failed("the tier", problems, {}),
        "refused": _skipped("the tier", problems),
    }[tier.status]
    for case in evidence.cases:
        if case.tier == tier.name:
            name = _name(case)
            passed = case.status == "pass"
            yield _test(name, case.figures) if passed else _failed(name, "", case.figures)
    if tier.name == "numerics":
        for mutant in evidence.mutants:
            name = _mutant_name(mutant)
            if mutant.caught:
                yield _test(name, mutant.figures)
            else:
                yield _failed(name, "the comparison did not see this fault", mutant.figures)


def _name(case: Case) -> str:
    tokens = None if case.tokens is None else f"{case.tokens} tokens"
    seed = None if case.seed is None else f"seed {case.seed}"
    return ", ".join(filter(None, (case.contract, tokens, case.subject, seed)))


def _mutant_name(mutant: MutantEntry) -> str:
    where = f"{mutant.contract}, {mutant.tokens} tokens, seed {mutant.seed}"
    return f"{where}, mutant: {mutant.name}"


def _test(name: str, figures: Mapping[str, Figure]) -> _Element:
    test = ElementTree.Element("testcase", name=name)
    if figures:
        properties = ElementTree.SubElement(test, "properties")
        for key, value in figures.items():
            ElementTree.SubElement(properties, "property", name=key, value=str(value))
    return test


def _failed(name: str, text: str, figures: Mapping[str, Figure]) -> _Element:
    test = _test(name, figures)
    first = text.partition("\n")[0] or "a bound does not hold"
    ElementTree.SubElement(test, "failure", message=_xml(first)).text = _xml(text)
    return test


def _skipped(name: str, text: str) -> _Element:
    test = _test(_xml(name), {})
    ElementTree.SubElement(test, "skipped", message=_xml(text.partition("\n")[0]))
    return test


def _xml(text: str) -> str:
    """Text without the control characters that XML cannot hold."""
    return printable(text, keep_newlines=True)
