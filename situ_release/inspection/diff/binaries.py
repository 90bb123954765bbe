"""Two binaries of one name compared: what the GPU executes first, then what they say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

from situ_release.errors import InputError
from situ_release.inspection.diff.documents import Change, compare_documents
from situ_release.inspection.diff.sections import SectionComparison, compare_sections
from situ_release.inspection.facts.cubin import facts_of as facts_of_cubin
from situ_release.inspection.facts.runner import facts_of as facts_of_runner
from situ_release.inspection.identify import is_cubin
from situ_release.sources.cubin import Cubin, read_cubin
from situ_release.sources.elf import read_elf
from situ_release.sources.fatbin import DeviceModule
from situ_release.sources.runner import read_runner

Verdict = Literal["equal", "different", "unknown", "none"]
"""Whether what the GPU executes is equal; unknown where it is compressed, none where there is none.
"""

_OF_CUBIN = ("target", "arch_specific", "abi_version", "toolkit", "toolchain", "kernels")
_OF_LIBRARY = (
    "machine",
    "soname",
    "needed",
    "rpath",
    "runpath",
    "executable_stack",
    "minimum_versions",
    "build_id",
    "compilers",
    "stripped",
    "ffi_exports",
    "exports",
)


@dataclass(frozen=True, slots=True)
class ModuleComparison:
    """A piece of device code inside two libraries.

    Attributes:
        target: what it was compiled for.
        kind: "cubin", "ptx", …
        change: ``same`` bytes, ``changed``, ``added`` or ``removed``.
        device_code: whether the code is equal.
        sections: where changed cubins differ; None where that cannot be told.
    """

    target: str
    kind: str
    change: Literal["same", "changed", "added", "removed"]
    device_code: Verdict
    sections: SectionComparison | None


@dataclass(frozen=True, slots=True)
class BinaryComparison:
    """How two binaries of one name differ.

    Attributes:
        device_code: whether everything in them that a GPU executes is equal.
        sections: sections that differ; None where one of them is no readable ELF file.
        modules: the device code inside of two libraries.
        facts: what they say differently of themselves. Of build paths only the number is here.
        unreadable: why they could not be compared; "" where they could.
    """

    device_code: Verdict
    sections: SectionComparison | None
    modules: tuple[ModuleComparison, ...]
    facts: tuple[Change, ...]
    unreadable: str


def compare_binaries(old: bytes, new: bytes, where: str) -> BinaryComparison:
    """Compare two binaries whose bytes differ."""
    try:
        if is_cubin(old) and is_cubin(new):
            return _compare_cubins(old, new, where)
        return _compare_libraries(old, new, where)
    except InputError as error:
        problem = error.problems[0]
        return BinaryComparison("unknown", None, (), (), f"{problem.what}: {problem.found}")


def _compare_cubins(old: bytes, new: bytes, where: str) -> BinaryComparison:
    before, after = (read_cubin(data, where) for data in (old, new))
    return BinaryComparison(
        device_code=_verdict(before, after),
        sections=compare_sections(before.elf, after.elf),
        modules=(),
        facts=compare_documents(_cubin_document(before, old), _cubin_document(after, new)),
        unreadable="",
    )


def _compare_libraries(old: bytes, new: bytes, where: str) -> BinaryComparison:
    before, after = (read_runner(data, where) for data in (old, new))
    modules = tuple(_compare_modules(before.device_modules, after.device_modules))
    documents = []
    for runner, data in ((before, old), (after, new)):
        facts = asdict(facts_of_runner(runner, data))
        document = {key: facts[key] for key in _OF_LIBRARY}
        document["undefined"] = [symbol.name for symbol in runner.undefined]
        document["embedded_paths"] = len(runner.embedded_paths)
        documents.append(document)
    return BinaryComparison(
        device_code=_overall(modules),
        sections=compare_sections(read_elf(old, where), read_elf(new, where)),
        modules=modules,
        facts=compare_documents(documents[0], documents[1]),
        unreadable="",
    )


def _compare_modules(
    old: tuple[DeviceModule, ...], new: tuple[DeviceModule, ...]
) -> Iterator[ModuleComparison]:
    """Pair the modules of each kind and target: equal ones first, the rest in their order."""
    keys = dict.fromkeys((module.target, module.kind) for module in (*old, *new))
    for key in keys:
        before, after = (
            [module for module in side if (module.target, module.kind) == key]
            for side in (old, new)
        )
        pairs: list[tuple[DeviceModule, DeviceModule]] = []
        for rank in (_payload, _code):
            for module in list(before):
                match = next((m for m in after if rank(m) and rank(m) == rank(module)), None)
                if match is not None:
                    pairs.append((module, match))
                    before.remove(module)
                    after.remove(match)
        common = min(len(before), len(after))
        pairs += zip(before[:common], after[:common], strict=True)
        for first, second in pairs:
            yield _compare_pair(first, second)
        for module in before[common:]:
            yield ModuleComparison(module.target, module.kind, "removed", "different", None)
        for module in after[common:]:
            yield ModuleComparison(module.target, module.kind, "added", "different", None)


def _payload(module: DeviceModule) -> bytes | None:
    return module.payload


def _code(module: DeviceModule) -> str | None:
    return module.device_code_sha256


def _compare_pair(old: DeviceModule, new: DeviceModule) -> ModuleComparison:
    target, kind = old.target, old.kind
    if old.payload == new.payload:
        return ModuleComparison(target, kind, "same", "equal", None)
    if old.device_code_sha256 is None or new.device_code_sha256 is None:
        verdict: Verdict = "unknown" if old.compressed or new.compressed else "different"
        return ModuleComparison(target, kind, "changed", verdict, None)
    before, after = (read_cubin(module.payload, module.target) for module in (old, new))
    sections = compare_sections(before.elf, after.elf)
    return ModuleComparison(target, kind, "changed", _verdict(before, after), sections)


def _verdict(old: Cubin, new: Cubin) -> Verdict:
    # Equal sections for another SM are other code.
    same_target = (old.sm, old.arch_specific) == (new.sm, new.arch_specific)
    equal = same_target and old.device_code_sha256 == new.device_code_sha256
    return "equal" if equal else "different"


def _overall(modules: tuple[ModuleComparison, ...]) -> Verdict:
    verdicts = {module.device_code for module in modules}
    order: tuple[Verdict, ...] = ("different", "unknown", "equal")
    return next((verdict for verdict in order if verdict in verdicts), "none")


def _cubin_document(cubin: Cubin, data: bytes) -> dict[str, Any]:
    facts = asdict(facts_of_cubin(cubin, data))
    document = {key: facts[key] for key in _OF_CUBIN}
    document["line_info"] = cubin.has_line_info
    document["embedded_paths"] = len(cubin.embedded_paths)
    return document
