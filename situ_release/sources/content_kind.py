"""What a file that should have been an ELF file is instead, in words.

A binary that cannot be read is rarely random: it is a git-LFS pointer, an error page of a failed
download, a file mangled by a text-mode copy. Saying so is worth more than "bad magic".
"""

from __future__ import annotations

_MACHINES = {3: "i386", 62: "x86-64", 183: "AArch64", 190: "NVIDIA CUDA", 243: "RISC-V"}
_TYPES = {1: "relocatable object", 2: "executable", 3: "shared object", 4: "core dump"}

_MAGICS: tuple[tuple[bytes, str], ...] = (
    (b"version https://git-lfs", "a git-LFS pointer, not the file itself"),
    (b"\x50\xed\x55\xba", "a CUDA fatbin container"),
    (b"PK\x03\x04", "a zip archive"),
    (b"PK\x05\x06", "an empty zip archive"),
    (b"\x1f\x8b", "gzip-compressed data"),
    (b"\x28\xb5\x2f\xfd", "zstd-compressed data"),
    (b"\xfd7zXZ\x00", "xz-compressed data"),
    (b"!<arch>\n", "a static library (ar archive)"),
)


def machine_name(machine: int) -> str:
    """The usual name of an ELF ``e_machine`` value, or its number."""
    return _MACHINES.get(machine, f"machine {machine}")


def is_crlf_mangled(data: bytes) -> bool:
    """Whether every line feed of binary data follows a carriage return.

    A text-mode copy inserts the carriage returns; in binary data that was not copied so, two or
    more line feeds that all happen to follow one are as good as impossible.
    """
    first = data.find(b"\n")
    if first <= 0 or data[first - 1] != 0x0D:
        return False
    feeds = data.count(b"\n")
    return feeds >= 2 and feeds == data.count(b"\r\n")


def describe_content(data: bytes) -> str:
    """Say in a few words what ``data`` is ("zero bytes", "a git-LFS pointer", "an HTML page").

    Args:
        data: the whole file.
    """
    if not data:
        return "an empty file (0 bytes)"
    if data.startswith(b"\x7fELF"):
        return _describe_elf(data)
    for magic, name in _MAGICS:
        if data.startswith(magic):
            return name
    if not data.strip(b"\0"):
        return f"nothing but {len(data):,} zero bytes"
    head = data[:512]
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if text.startswith((b"<!doctype html", b"<html", b"<head", b"<?xml")):
        return "an HTML page (a failed download?)"
    if text.startswith((b"{", b"[")) and _is_text(head):
        return "a JSON text (a failed download?)"
    if b".target sm_" in data[:4096]:
        return "PTX text"
    if _is_text(head):
        first_line = head.split(b"\n", 1)[0][:40].decode("utf-8", "replace").strip()
        return f"text beginning {first_line!r}"
    return f"{len(data):,} bytes beginning {data[:8].hex(' ')}"


def _describe_elf(data: bytes) -> str:
    if is_crlf_mangled(data):
        return "an ELF file whose line feeds became CR LF in a text-mode copy"
    if len(data) < 64:
        return f"the first {len(data)} bytes of an ELF file"
    if data[4] != 2:
        return "a 32-bit ELF file"
    if data[5] != 1:
        return "a big-endian ELF file"
    kind = _TYPES.get(int.from_bytes(data[16:18], "little"), "file of unknown type")
    machine = machine_name(int.from_bytes(data[18:20], "little"))
    return f"an ELF {kind} for {machine} ({len(data):,} bytes)"


def _is_text(head: bytes) -> bool:
    if any(byte < 9 or (13 < byte < 32 and byte != 27) for byte in head):
        return False
    try:
        head.decode()
    except UnicodeDecodeError as error:
        return error.start > len(head) - 4  # only the last character is cut off
    return True
