"""One way at least to break a bundle for every check id; each breaks one thing."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from situ_release.digests import sha256_bytes
from tests.checks.bundle import (
    EXPRESSION,
    FC1,
    KERNELS,
    METADATA,
    PACKAGE,
    SBOM,
    W4A8,
    add_sbom,
    compiled_with,
    cubin_member,
    recipe_text,
)
from tests.synth.elf import DEFAULT_NEEDED, Undefined, make_cubin, make_fatbin
from tests.synth.wheel import (
    DIST_INFO,
    MANIFEST,
    PUBLISHED_TAG,
    RAW_TAG,
    RUNNER,
    Edit,
    Files,
    cubin_of,
    edit_manifest,
    exchange,
    kernels,
)

WHEEL = f"{DIST_INFO.removesuffix('.dist-info')}-{PUBLISHED_TAG}.whl"
RECIPE = "kimi-k3-situ.toml"
LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"
NOTICE = f"{PACKAGE}/licenses/FLASHINFER_NOTICE.txt"
CUBIN = cubin_member(FC1)


@dataclass(frozen=True)
class Breakage:
    """One broken thing.

    Attributes:
        check: the id that must report it.
        name: what is broken, in a few words.
        subject: the member or file that the finding must name.
        knobs: for :func:`tests.checks.bundle.verify`.
        status: of that check.
        others: status of every other check that cannot but see it, too.
        golden: whether its messages are kept; not where they quote another project's.
    """

    check: str
    name: str
    subject: str
    knobs: dict[str, Any]
    status: str = "fail"
    others: dict[str, str] = field(default_factory=dict)
    golden: bool = True

    @property
    def severity(self) -> str:
        """Of the finding: what a check that still passes has to say is a note."""
        return "note" if self.status == "pass" else self.status

    def __str__(self) -> str:
        return f"{self.check}-{self.name.replace(' ', '-')}"


def put(member: str, data: bytes) -> Edit:
    return lambda files: files.update({member: data})


def drop(member: str) -> Edit:
    return lambda files: files.pop(member)


def replace_in(member: str, old: bytes, new: bytes) -> Edit:
    def edit(files: Files) -> None:
        assert old in files[member]
        files[member] = files[member].replace(old, new)

    return edit


def manifest(change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    return {"edit": edit_manifest(change)}


def in_sbom(**changes: Any) -> dict[str, Any]:
    """Change top-level keys of the bill of materials; a function gets the old value."""

    def edit(files: Files) -> None:
        add_sbom(files)
        document = json.loads(files[SBOM])
        for key, value in changes.items():
            document[key] = value(document[key]) if callable(value) else value
        files[SBOM] = json.dumps(document).encode()

    return {"edit": edit}


def licensed(expression: str) -> Callable[[list[dict[str, Any]]], list[dict[str, Any]]]:
    """Components with another licence for the runner."""

    def change(components: list[dict[str, Any]]) -> list[dict[str, Any]]:
        for component in components:
            if component["bom-ref"] == "runner":
                component["licenses"] = [{"expression": expression}]
        return components

    return change


def without_sbom(files: Files) -> None:
    """Take the bill of materials out, and its row in RECORD."""
    del files[SBOM]
    record = files[f"{DIST_INFO}/RECORD"].decode().splitlines(keepends=True)
    rows = [row for row in record if not row.startswith(SBOM)]
    files[f"{DIST_INFO}/RECORD"] = "".join(rows).encode()


def in_recipe(old: str, new: str) -> dict[str, Any]:
    text = recipe_text()
    assert old in text
    return {"recipe": text.replace(old, new)}


def advisory(status: str, sha256: str) -> dict[str, Any]:
    """A recipe that knows something about a binary."""
    lines = ["", "[[advisories]]", f'sha256 = "{sha256}"', f'status = "{status}"']
    lines += ['reference = "issue 1"', 'text = "It writes out of bounds."', ""]
    return {"recipe": recipe_text() + "\n".join(lines)}


def damage(path: Path) -> None:
    """Flip a byte of a member's content, stored so that it can be found; nothing else changes."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    data = bytearray(path.read_bytes())
    data[data.index(b"Apache License")] ^= 1
    path.write_bytes(data)


def append(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"appended")


# The manifest names its recipe by digest, so every edit of the recipe's text is seen there, too.
OTHER_RECIPE = {"manifest.recipe": "warn"}
REVIEWED = {"manifest.locked": "warn"}
# A kernel that can be selected is not the one that the runner asks for.
UNCOVERED = {"coverage.closed": "fail"}
NO_CUBIN = {
    **REVIEWED,
    **UNCOVERED,
    "cubin.arch": "skip",
    "cubin.symbol": "skip",
    "cubin.toolchain": "skip",
    "runner.leaks": "skip",
}
NO_RUNNER = {
    **REVIEWED,
    "families.complete": "skip",
    "coverage.closed": "skip",
    "coverage.unreachable": "skip",
    **{
        f"runner.{name}": "skip"
        for name in (
            "symbols", "needed", "versions", "rpath", "stack", "table", "devicecode", "leaks",
        )
    },
}  # fmt: skip

BREAKAGES = [
    Breakage("wheel.archive", "bytes behind the end", WHEEL, {"after": append}),
    Breakage(
        "wheel.archive",
        "a damaged member",
        f"{PACKAGE}/licenses/FLASHINFER_LICENSE.txt",
        {"after": damage},
        others={"licenses.files": "fail"},
    ),
    Breakage(
        "wheel.record",
        "changed bytes",
        f"{PACKAGE}/loader.py",
        {"tamper": put(f"{PACKAGE}/loader.py", b"changed\n")},
        others={"package.code": "fail"},
    ),
    Breakage(
        "wheel.filename",
        "another version in the name",
        f"tokenspeed_situ-0.1.0-{PUBLISHED_TAG}.whl",
        {"filename": f"tokenspeed_situ-0.1.0-{PUBLISHED_TAG}.whl"},
    ),
    Breakage(
        "wheel.filename",
        "no wheel name",
        "bundle.whl",
        {"filename": "bundle.whl"},
        others={"wheel.tags": "skip"},
        golden=False,
    ),
    Breakage("wheel.tags", "not repaired", f"{DIST_INFO}/WHEEL", {"tag": RAW_TAG}),
    Breakage(
        "wheel.tags",
        "calls itself pure",
        f"{DIST_INFO}/WHEEL",
        {"edit": replace_in(f"{DIST_INFO}/WHEEL", b"Purelib: false", b"Purelib: true")},
    ),
    Breakage(
        "wheel.metadata",
        "another requirement",
        METADATA,
        {"edit": replace_in(METADATA, b">=0.1.12,<0.2", b">=0.1.12")},
    ),
    Breakage(
        "wheel.metadata",
        "no valid version",
        METADATA,
        {"edit": replace_in(METADATA, b"Version: 0.1.0.post20260727", b"Version: new")},
        others={"wheel.filename": "skip", "licenses.files": "skip", "licenses.declared": "skip"},
        golden=False,
    ),
    Breakage(
        "wheel.metadata",
        "another summary",
        METADATA,
        {"edit": replace_in(METADATA, b"Summary: AOT", b"Summary: Ahead-of-time")},
        status="warn",
    ),
    Breakage(
        "wheel.size",
        "over the limit",
        WHEEL,
        in_recipe("size_limit_bytes = 104857600", "size_limit_bytes = 1000"),
        others=OTHER_RECIPE,
    ),
    Breakage("wheel.sbom", "missing", SBOM, {"tamper": without_sbom}),
    Breakage(
        "wheel.sbom",
        "a library's beside it",
        f"{DIST_INFO}/sboms/auditwheel.cdx.json",
        {"edit": put(f"{DIST_INFO}/sboms/auditwheel.cdx.json", b"{}")},
    ),
    Breakage("wheel.sbom", "no JSON", SBOM, {"edit": put(SBOM, b"<bom/>")}),
    Breakage("wheel.sbom", "of another manifest", SBOM, in_sbom(serialNumber="urn:uuid:0")),
    Breakage("wheel.sbom", "without components", SBOM, in_sbom(components=[])),
    Breakage("wheel.sbom", "of odd types", SBOM, in_sbom(components=[{"hashes": 1}], metadata=[])),
    Breakage(
        "wheel.sbom",
        "another licence declared",
        SBOM,
        in_sbom(components=licensed("GPL-3.0-only")),
        status="warn",
    ),
    Breakage(
        "manifest.schema",
        "unknown key",
        MANIFEST,
        manifest(lambda document: document.update(surprise=1)),
        others={
            **{f"manifest.{name}": "skip" for name in ("files", "digests", "recipe", "locked")},
            **{f"cubin.{name}": "skip" for name in ("format", "arch", "symbol", "toolchain")},
            "families.counts": "skip",
            "runner.format": "skip",
            **{name: status for name, status in NO_RUNNER.items() if status == "skip"},
            "wheel.metadata": "skip",
            "wheel.sbom": "skip",
            "provenance.recovered": "skip",
            "provenance.snapshot": "skip",
            "provenance.validated": "skip",
            "package.code": "skip",
        },
    ),
    Breakage(
        "manifest.files",
        "a cubin too many",
        f"{PACKAGE}/cubins/sm103a/Bmm_old_sm103a.cubin",
        {"edit": put(f"{PACKAGE}/cubins/sm103a/Bmm_old_sm103a.cubin", make_cubin())},
    ),
    Breakage(
        "manifest.files",
        "a library in another folder",
        f"{PACKAGE}.libs/libcudart-1234.so.13",
        {"edit": put(f"{PACKAGE}.libs/libcudart-1234.so.13", b"\x7fELF\x02\x01\x01")},
    ),
    Breakage(
        "manifest.files",
        "a cubin missing",
        CUBIN,
        {"edit": drop(CUBIN)},
        others={
            "manifest.digests": "skip",
            "cubin.format": "skip",
            "cubin.arch": "skip",
            "cubin.symbol": "skip",
            "cubin.toolchain": "skip",
            "families.counts": "fail",
            "families.complete": "fail",
            "coverage.closed": "fail",
            "runner.table": "skip",
            "runner.leaks": "skip",
        },
    ),
    Breakage(
        "manifest.files",
        "the runner missing",
        RUNNER,
        {"edit": drop(RUNNER)},
        others={
            **NO_RUNNER,
            "manifest.locked": "pass",
            "manifest.digests": "skip",
            "runner.format": "skip",
        },
    ),
    Breakage(
        "manifest.digests",
        "another digest claimed",
        CUBIN,
        manifest(lambda document: document["cubins"][0].update(sha256="0" * 64)),
    ),
    Breakage(
        "manifest.recipe",
        "a limitation reworded",
        MANIFEST,
        manifest(lambda document: document["limitations"].__setitem__(0, "None.")),
    ),
    Breakage(
        "manifest.recipe",
        "a contract widened",
        MANIFEST,
        manifest(lambda document: document["supported_contracts"][1].update(top_k=32)),
    ),
    Breakage(
        "manifest.recipe",
        "staged from another recipe",
        MANIFEST,
        manifest(lambda document: document["recipe"].update(sha256="0" * 64)),
        status="warn",
    ),
    Breakage(
        "manifest.locked",
        "a cubin never reviewed",
        CUBIN,
        {"lock": lambda lock: lock["cubins"].pop(CUBIN.rpartition("/")[2])},
        status="warn",
    ),
    Breakage(
        "manifest.recipe",
        "a number that is only equal in Python",
        MANIFEST,
        manifest(lambda document: document["supported_contracts"][1].update(top_k=16.0)),
    ),
    Breakage(
        "manifest.recipe",
        "an unknown source",
        MANIFEST,
        manifest(lambda document: document["source_provenance"].update(reviewed_by="X")),
    ),
    Breakage(
        "manifest.recipe",
        "no name of the pool",
        MANIFEST,
        manifest(lambda document: document["source_provenance"].pop("private_pool_name")),
    ),
    Breakage(
        "manifest.recipe",
        "another version than the snapshot's",
        MANIFEST,
        manifest(lambda document: document["source_provenance"].update(flashinfer_version="9.9")),
    ),
    Breakage(
        "manifest.recipe",
        "a pool smaller than the bundle",
        MANIFEST,
        manifest(lambda document: document["source_provenance"].update(source_pool_cubin_count=7)),
    ),
    Breakage(
        "manifest.recipe",
        "a pool's digest that is none",
        MANIFEST,
        manifest(
            lambda document: document["source_provenance"].update(private_pool_config_sha256="1c")
        ),
    ),
    Breakage(
        "package.code",
        "a module changed and RECORD corrected",
        f"{PACKAGE}/loader.py",
        {"edit": put(f"{PACKAGE}/loader.py", b"import os\n")},
    ),
    Breakage(
        "package.code",
        "a module added and RECORD corrected",
        f"{PACKAGE}/extra.py",
        {"edit": put(f"{PACKAGE}/extra.py", b"import os\n")},
    ),
    Breakage(
        "package.code",
        "a module removed and RECORD corrected",
        f"{PACKAGE}/op.py",
        {"edit": drop(f"{PACKAGE}/op.py")},
    ),
    Breakage(
        "package.code",
        "the wrapper's licence changed",
        f"{DIST_INFO}/licenses/LICENSE",
        {"edit": put(f"{DIST_INFO}/licenses/LICENSE", b"Public domain.\n")},
    ),
    Breakage(
        "package.code",
        "entry points",
        f"{DIST_INFO}/entry_points.txt",
        {"edit": put(f"{DIST_INFO}/entry_points.txt", b"[console_scripts]\nls = a:main\n")},
    ),
    Breakage(
        "package.code",
        "a folder in dist-info",
        f"{DIST_INFO}/sub/a.sh",
        {"edit": put(f"{DIST_INFO}/sub/a.sh", b"#!/bin/sh\n")},
    ),
    Breakage(
        "package.code",
        "a program among the licences",
        f"{PACKAGE}/licenses/tool",
        {"edit": put(f"{PACKAGE}/licenses/tool", b"MZ\x90\x00")},
    ),
    Breakage(
        "package.code",
        "made by another version",
        PACKAGE,
        manifest(lambda document: document["tools"].update(situ_release="0.0.9")),
        status="warn",
    ),
    Breakage(
        "cubin.format",
        "a git LFS pointer",
        CUBIN,
        {"edit": exchange(CUBIN, LFS)},
        others={**NO_CUBIN, "runner.table": "fail"},
    ),
    Breakage(
        "cubin.arch",
        "another SM inside",
        cubin_member(W4A8),
        {"edit": compiled_with({W4A8: make_cubin(W4A8, sm=120, arch_specific=False)})},
        others=REVIEWED,
    ),
    Breakage(
        "cubin.arch",
        "an architecture specific cubin as a family one",
        cubin_member(W4A8),
        {"edit": compiled_with({W4A8: make_cubin(W4A8, sm=100, arch_specific=True)})},
        others=REVIEWED,
    ),
    Breakage(
        "cubin.symbol",
        "another kernel inside",
        CUBIN,
        {"edit": compiled_with({FC1: make_cubin(KERNELS[1])})},
        others=REVIEWED,
    ),
    Breakage(
        "cubin.toolchain",
        "another tool claimed",
        CUBIN,
        manifest(
            lambda document: document["cubins"][0].update(
                toolchain={"producer": "ptxas", "version": "V12.9.90", "options": ""}
            )
        ),
    ),
    Breakage(
        "families.counts",
        "another role claimed",
        CUBIN,
        manifest(lambda document: document["cubins"][0].update(role="fc2")),
    ),
    Breakage(
        "families.counts",
        "another count in the recipe",
        MANIFEST,
        in_recipe('arch = "sm103a"\ncount = 2', 'arch = "sm103a"\ncount = 3'),
        others={"manifest.recipe": "fail"},
    ),
    Breakage(
        "families.complete",
        "a kernel the runner may ask for",
        f"B{kernels(3)['w4a8-fc1'][2][1:]}.cubin",
        {"edit": compiled_with({}, also={kernels(3)["w4a8-fc1"][2]: b"not bundled"})},
        others=REVIEWED,
    ),
    Breakage(
        "runner.format",
        "a text file",
        RUNNER,
        {"edit": exchange(RUNNER, b"not found\n")},
        others=NO_RUNNER,
    ),
    Breakage(
        "runner.format", "another machine", RUNNER, {"machine": 183}, others=NO_RUNNER
    ),
    Breakage(
        "runner.symbols",
        "an entry point missing",
        RUNNER,
        {"ffi_symbols": ("trtllm_fp4_block_scale_moe_private",)},
        others=REVIEWED,
    ),
    Breakage(
        "runner.symbols",
        "a function that nobody defines",
        RUNNER,
        {"undefined": ("TVMFFINoSuchSymbol",)},
        others=REVIEWED,
    ),
    Breakage(
        "runner.needed",
        "a library of the build host",
        RUNNER,
        {"needed": (*DEFAULT_NEEDED, "libfoo.so.1")},
        others=REVIEWED,
    ),
    Breakage(
        "runner.needed",
        "no driver library",
        RUNNER,
        {"needed": ("libcudart.so.13", "libstdc++.so.6", "libc.so.6")},
        others=REVIEWED,
    ),
    Breakage(
        "runner.versions",
        "a symbol too new for the tag",
        RUNNER,
        {
            "versions": {"libc.so.6": ("GLIBC_2.40",)},
            "undefined": (Undefined("new_function", "GLIBC_2.40"),),
        },
        others=REVIEWED,
    ),
    Breakage(
        "runner.versions",
        "false minimums",
        RUNNER,
        manifest(lambda document: document["runner"].update(minimum_versions={"GLIBC": "2.5"})),
    ),
    Breakage("runner.rpath", "an RPATH", RUNNER, {"rpath": "/opt/lib"}, others=REVIEWED),
    Breakage("runner.stack", "executable", RUNNER, {"exec_stack": True}, others=REVIEWED),
    Breakage(
        "runner.table",
        "a cubin exchanged and all digests corrected",
        CUBIN,
        {"edit": exchange(CUBIN, cubin_of(FC1, seed=1))},
        others={**REVIEWED, **UNCOVERED},
    ),
    Breakage(
        "runner.table",
        "a runner compiled for nothing",
        RUNNER,
        {"table": ()},
        others=REVIEWED,
    ),
    Breakage(
        "runner.devicecode",
        "for another SM",
        RUNNER,
        {"fatbin": make_fatbin(make_cubin("bmm_routing_sm90a", sm=90), sm=90)},
        status="warn",
        others=REVIEWED,
    ),
    Breakage(
        "runner.leaks",
        "a build path",
        RUNNER,
        {"strings": ("/home/alice/flashinfer/csrc/launcher.cu",)},
        status="warn",
        others=REVIEWED,
    ),
    Breakage(
        "coverage.closed",
        "a kernel of no family that the runner may select",
        WHEEL,
        {"edit": compiled_with({}, also={W4A8.replace("_sm100f", "_sm103a"): b"not bundled"})},
        others=REVIEWED,
    ),
    Breakage(
        "coverage.unreachable",
        "cubins for another device than the recipe's",
        WHEEL,
        in_recipe("sms = [103]", "sms = [100]"),
        status="pass",
        others={**OTHER_RECIPE, "runner.devicecode": "warn"},
    ),
    Breakage(
        "licenses.files",
        "an empty text",
        NOTICE,
        {"edit": put(NOTICE, b"\n")},
    ),
    Breakage(
        "licenses.files",
        "a text that refers to none",
        NOTICE,
        {"edit": put(NOTICE, b"See licenses/ for the texts, and PROVENANCE.md.\n")},
        status="warn",
    ),
    Breakage(
        "licenses.declared",
        "an expression that leaves a part out",
        METADATA,
        in_recipe(EXPRESSION, "Apache-2.0")
        | {"edit": replace_in(METADATA, EXPRESSION.encode(), b"Apache-2.0")},
        status="warn",
        others=OTHER_RECIPE,
    ),
    Breakage(
        "licenses.declared",
        "a blank field",
        RECIPE,
        in_recipe('reviewer = "A. Reviewer"', 'reviewer = ""'),
        status="warn",
        others=OTHER_RECIPE,
    ),
    Breakage(
        "advisories.known",
        "a fault that was reproduced",
        CUBIN,
        advisory("reproduced", sha256_bytes(cubin_of(FC1))),
        others=OTHER_RECIPE,
    ),
    Breakage(
        "advisories.known",
        "a fault that was reported",
        CUBIN,
        advisory("reported", sha256_bytes(cubin_of(FC1))),
        status="warn",
        others=OTHER_RECIPE,
    ),
    Breakage(
        "advisories.known",
        "a fault that was refuted",
        CUBIN,
        advisory("refuted", sha256_bytes(cubin_of(FC1))),
        status="pass",
        others=OTHER_RECIPE,
    ),
    Breakage(
        "provenance.recovered",
        "out of a wheel",
        MANIFEST,
        manifest(
            lambda document: document.update(recovered_from={"wheel": "a.whl", "sha256": "0" * 64})
        ),
        status="warn",
    ),
    Breakage(
        "provenance.snapshot",
        "uncommitted changes",
        MANIFEST,
        manifest(lambda document: document["snapshot"].update(dirty=True)),
        status="warn",
    ),
    Breakage(
        "provenance.validated",
        "no evidence beside the claim",
        MANIFEST,
        manifest(lambda document: document.update(gpu_validated=True)),
        status="warn",
    ),
]  # fmt: skip
