"""``flashinferMetaInfo.h``: the C++ table a runner is compiled from, one entry per kernel.

An entry of the real header (flashinfer-cubin 0.6.13: 9,027,784 bytes, 2,108 entries, 127 options)::

    {nullptr, 0, <shared memory bytes>, "<kernel>", <threads>, "<sha256>", "", nullptr, nullptr,
     nullptr, 0, { /* mField */ value, /* mField */ value }, gemm::SmVersion::Sm100f},

stands between a declaration of the list's length and the end of the array. A header that was
rebuilt from a runner's own table knows only name, SHA-256 and SM; what it does not know is spelled
``{}``, and is None here. Whether an entry's options agree with its name is
:mod:`situ_release.sources.kernel_options`' question.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from situ_release.digests import sha256_bytes
from situ_release.errors import InputError, raise_all
from situ_release.sources import fmha_header
from situ_release.sources.faults import Faults, shown
from situ_release.sources.metadata_table import (
    MetadataEntry,
    MetadataHeader,
    Option,
    header_problem,
    index_entries,
)

__all__ = ["MetadataEntry", "MetadataHeader", "Option", "read_header", "write_header"]

FILENAMES = ("flashinferMetaInfo.h", "flashInferMetaInfo.h")
"""Both spellings that exist; the second is the fmha pool's."""

LIST_NAME = "tllmGenBatchedGemm"
"""Stem of the C++ names ``…List`` and ``…ListLen`` in batched-GEMM pools."""

MAX_HEADER_BYTES = 64 << 20
"""Larger headers are refused; the largest real one has 9 MB."""

_MAX_OPTION_CHARACTERS = 1 << 16

_EXPORT_VERSION = re.compile(r'^#define TLLM_GEN_EXPORT_VERSION "([^"\n]{0,100})"', re.MULTILINE)
_LENGTH = re.compile(r"^static constexpr size_t (\w{1,100})ListLen = ([0-9]{1,9});", re.MULTILINE)
_ARRAY = re.compile(r"^static const [\w:]{1,200} (\w{1,100})List\[\] = \{", re.MULTILINE)
_SKIPPED = re.compile(r"\s+|(?:#ifndef |#endif|//)[^\n]*(?<!\\)\n")
# The table is read without a preprocessor: nothing may make a compiler see another one. Real
# headers have one #ifndef EXCLUDE_SM_100 around its entries.
_CONDITIONAL = re.compile(
    r"^[ \t]*(?:#|%:|\?\?=)[ \t]*(?:if(?!ndef[ \t]+EXCLUDE_SM_[0-9]+$)|el)", re.MULTILINE
)
_RAW_STRING = re.compile(r'R"[^\s()\\]{0,16}\(')
_RESUME = re.compile(r"^(?:\{|\};)", re.MULTILINE)

# Options hold no quote, and every entry has one before its options: a search for the end of one
# entry's options ends in the next entry at the latest, so a broken header takes linear time too.
_ENTRY = re.compile(
    r"\{\s*nullptr,\s*0,\s*([0-9]{1,9}|\{\}),"
    r'\s*"([^"\n]*)",\s*([0-9]{1,9}|\{\}),'
    r'\s*"([^"\n]*)",\s*"",\s*nullptr,\s*nullptr,\s*nullptr,\s*0,'
    r'\s*\{([^{}"]*(?:\{[^{}"]*\}[^{}"]*){0,500})\},'
    r"\s*gemm::SmVersion::Sm([0-9]{2,3}[a-z]?)\s*\},?"
)
_SCALAR = r"(?:-?[0-9]{1,20}|[A-Za-z_][\w:]{0,99}\(-?[0-9]{1,20}\))"
_VALUE = rf"(?:{_SCALAR}|\{{(?:{_SCALAR}(?:, {_SCALAR})*)?\}})"
_OPTIONS = re.compile(rf"\s*(?:/\* m\w{{1,60}} \*/ {_VALUE}\s*(?:,\s*(?=/)|\Z))*")
_FIELD = re.compile(r"/\* (m\w+) \*/ ")


def read_header(data: bytes, where: str) -> MetadataHeader:
    """Read a metadata header.

    Args:
        data: the file's bytes.
        where: the name used in errors.

    Raises:
        InputError: no such table, an entry or option that is garbage or cut off, a count that is
            not the declared one, a name twice, a digest that is none: all at once, with line
            numbers.
    """
    if len(data) > MAX_HEADER_BYTES:
        found = f"{len(data)} bytes"
        raise _fault("not a metadata header", where, f"at most {MAX_HEADER_BYTES} bytes", found)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise _fault(
            "not a metadata header", f"{where}:{line}", "UTF-8 text", "other bytes"
        ) from error
    if fmha_header.ARRAY in text:
        return fmha_header.read_fmha_header(data, text, where)
    faults = Faults(where)
    array = _ARRAY.search(text)
    length = _LENGTH.search(text)
    if array is None or length is None or array[1] != length[1]:
        raise _fault(
            "not a metadata header",
            where,
            expected="a C++ table '…List[] = {' and its declared length '…ListLen = <n>;'",
            found=_first_line(text),
        )
    _refuse_hidden_table(text, array.start(), where)
    entries = _read_entries(text, array.end(), where, faults)
    declared = int(length[2])
    if declared != len(entries) and not faults.problems:
        faults.add(
            header_problem(
                "wrong number of entries",
                f"{where}:{text.count(chr(10), 0, length.start()) + 1}",
                expected=f"{declared} as declared",
                found=str(len(entries)),
            )
        )
    by_name = index_entries(entries, where, faults)
    faults.raise_any()
    version = _EXPORT_VERSION.search(text)
    return MetadataHeader(
        where=where,
        sha256=sha256_bytes(data),
        list_name=array[1],
        export_version=version[1] if version else None,
        declared_length=declared,
        entries=tuple(entries),
        by_name=by_name,
    )


def write_header(
    entries: Sequence[MetadataEntry],
    *,
    comment: str,
    export_version: str | None = None,
    list_name: str = LIST_NAME,
) -> bytes:
    """The bytes of a metadata header in the real format; :func:`read_header` reads them back.

    An entry without options cannot be compiled into a runner, so that a header with one stops the
    compiler.

    Args:
        entries: the table, in the order of the runner's.
        comment: text for the top of the file, any number of lines.
        export_version: version of the generator's export format, where known.
        list_name: stem of the list's C++ name.
    """
    complete = all(entry.option_text is not None for entry in entries)
    head = [f"// {line}".rstrip() for line in comment.splitlines()]
    head += ["", "#pragma once", ""]
    if not complete:
        head += ['#error "this header does not hold the options a runner is compiled from"', ""]
    if export_version is not None:
        head += [f'#define TLLM_GEN_EXPORT_VERSION "{export_version}"', ""]
    head += [
        f"static constexpr size_t {list_name}ListLen = {len(entries)};",
        "",
        f"static const batchedGemm::BatchedGemmConfig {list_name}List[] = {{",
    ]
    rows = [_render(entry) for entry in entries]
    return "\n".join([*head, *rows, "};", ""]).encode()


def _refuse_hidden_table(text: str, start: int, where: str) -> None:
    """Whether a compiler could see another table than the one that begins at ``start``.

    Raises:
        InputError: there are conditionals, or a comment or raw string that holds the table.
    """
    found: dict[str, int] = {}
    if conditional := _CONDITIONAL.search(text):
        found["a preprocessor conditional"] = conditional.start()
    comment = text.rfind("/*", 0, start)
    if comment > text.rfind("*/", 0, start):
        found["a comment around the table"] = comment
    if raw := _RAW_STRING.search(text, 0, start):
        found["a raw string"] = raw.start()
    raise_all(
        InputError,
        (
            header_problem(
                "the table cannot be told without a compiler",
                f"{where}:{text.count(chr(10), 0, position) + 1}",
                expected="no conditional but #ifndef EXCLUDE_SM_<n>, no comment around the table",
                found=what,
            )
            for what, position in found.items()
        ),
    )


def _read_entries(text: str, start: int, where: str, faults: Faults) -> list[MetadataEntry]:
    """The array's entries; after a malformed one, on with the next line that may begin one."""
    entries: list[MetadataEntry] = []
    fields: list[str] | None = None
    line = text.count("\n", 0, start) + 1
    position = start
    while True:
        begin = position
        while skipped := _SKIPPED.match(text, begin):
            begin = skipped.end()
        line += text.count("\n", position, begin)
        if text.startswith("};", begin):
            return entries
        match = _ENTRY.match(text, begin)
        if match is None:
            resume = _RESUME.search(text, begin + 1)
            _report_broken(text, begin, f"{where}:{line}", faults)
            if resume is None:
                return entries
            line += text.count("\n", begin, resume.start())
            position = resume.start()
            continue
        memory, name, threads, digest, options, sm = match.groups()
        if options:
            found = _FIELD.findall(options)
            fields = found if fields is None else fields
            _check_options_text(options, found, fields, name, f"{where}:{line}", faults)
        entries.append(
            MetadataEntry(
                name=name,
                sha256=digest,
                sm=f"sm{sm}",
                shared_memory_bytes=None if memory == "{}" else int(memory),
                threads=None if threads == "{}" else int(threads),
                option_text=options or None,
                line=line,
            )
        )
        line += text.count("\n", begin, match.end())
        position = match.end()


def _check_options_text(
    options: str, found: list[str], fields: list[str], name: str, place: str, faults: Faults
) -> None:
    """Well-formed, each field once, and the fields that every entry of this header has."""
    if len(options) > _MAX_OPTION_CHARACTERS:
        what, expected = "malformed options", f"at most {_MAX_OPTION_CHARACTERS} characters"
        seen = f"{len(options)} characters"
    elif _OPTIONS.fullmatch(options) is None:
        good = _OPTIONS.match(options)
        rest = options[good.end() if good else 0 :]
        what, expected, seen = "malformed options", "/* mField */ value", repr(shown(rest, 60))
    elif len(set(found)) != len(found):
        what, expected = "an option twice", "each field once"
        seen = ", ".join(sorted({field for field in found if found.count(field) > 1}))
    elif found != fields:
        what, expected = "other options than the entries before", f"{len(fields)} fields"
        seen = ", ".join(sorted(set(found) ^ set(fields))) or "the same in another order"
    else:
        return
    faults.add(header_problem(what, place, expected, f"{shown(seen)} in {shown(name)}"))


def _report_broken(text: str, begin: int, place: str, faults: Faults) -> None:
    rest = text[begin : begin + 80]
    faults.add(
        header_problem(
            "malformed entry" if rest else "truncated metadata header",
            place,
            expected="an entry '{nullptr, 0, …, \"bmm_…\", …}' or the end of the table '};'",
            found=repr(shown(rest, 60)) if rest else "the end of the file",
        )
    )


def _render(entry: MetadataEntry) -> str:
    memory = "{}" if entry.shared_memory_bytes is None else entry.shared_memory_bytes
    threads = "{}" if entry.threads is None else entry.threads
    return (
        f'{{nullptr, 0, {memory}, "{entry.name}", {threads}, "{entry.sha256}", "", '
        f"nullptr, nullptr, nullptr, 0, {{{entry.option_text or ''}}}, "
        f"gemm::SmVersion::Sm{entry.sm.removeprefix('sm')}}},"
    )


def _first_line(text: str) -> str:
    return repr(shown(text.strip().split("\n", 1)[0], 60)) if text.strip() else "an empty file"


def _fault(what: str, where: str, expected: str, found: str) -> InputError:
    return InputError(header_problem(what, where, expected, found))
