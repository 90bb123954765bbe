"""The metadata header: typed records or errors with line numbers; written headers read back."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from situ_release.digests import sha256_bytes
from situ_release.errors import InputError
from situ_release.sources.kernel_name import parse
from situ_release.sources.kernel_options import check_options
from situ_release.sources.metadata_header import (
    MAX_HEADER_BYTES,
    MetadataEntry,
    read_header,
    write_header,
)
from tests.sources.attempt import attempt, is_complete
from tests.synth.pool import KERNELS, options_for

ENTRIES = tuple(
    MetadataEntry(
        name, sha256_bytes(name.encode()), name.rpartition("_")[2], 65536, 384, options_for(name)
    )
    for name in KERNELS
)
BARE = tuple(MetadataEntry(entry.name, entry.sha256, entry.sm) for entry in ENTRIES)
FULL_TEXT = write_header(ENTRIES, comment="A test.", export_version="7.0.4").decode()
BARE_TEXT = write_header(BARE, comment="A test.\n\nOf two paragraphs.").decode()


def refused(text: str) -> list[tuple[int | None, str, str]]:
    """Line, fault and finding of every problem of a broken header."""
    with pytest.raises(InputError) as caught:
        read_header(text.encode(), "meta.h")
    assert is_complete(caught.value)
    lines = [re.fullmatch(r"meta\.h(?::(\d+))?", each.where) for each in caught.value.problems]
    assert all(lines)
    return [
        (int(line[1]) if line and line[1] else None, each.what, each.found)
        for line, each in zip(lines, caught.value.problems, strict=True)
    ]


def line_of(text: str, part: str) -> int:
    return text.count("\n", 0, text.index(part)) + 1


def test_a_full_header_reads_back() -> None:
    header = read_header(FULL_TEXT.encode(), "meta.h")
    assert header.entries == ENTRIES
    assert header.export_version == "7.0.4"
    assert header.list_name == "tllmGenBatchedGemm"
    assert header.declared_length == len(header) == len(ENTRIES)
    assert header.sha256 == sha256_bytes(FULL_TEXT.encode())
    assert "#error" not in FULL_TEXT
    found = header.find(KERNELS[3])
    assert found == ENTRIES[3]
    assert header.find("bmm_none") is None
    assert header.place(found) == f"meta.h:{line_of(FULL_TEXT, KERNELS[3])}"


def test_what_a_recovered_header_does_not_know_is_absent() -> None:
    header = read_header(BARE_TEXT.encode(), "meta.h")
    assert header.entries == BARE
    assert header.export_version is None
    for entry in header.entries:
        assert (entry.shared_memory_bytes, entry.threads, entry.options) == (None, None, None)
    assert BARE_TEXT.startswith("// A test.\n//\n// Of two paragraphs.\n")
    assert "\n#error " in BARE_TEXT
    assert not re.search(r"\bm[A-Z]\w+", BARE_TEXT.partition("List[] = {")[2])


def test_options_become_numbers_and_tuples() -> None:
    text = (
        " /* mA */ 7\n, /* mB */ -1\n, /* mC */ gemm::BiasType(3)\n, /* mD */ {}\n"
        ", /* mE */ {batchedGemm::RouteImpl(2)}\n, /* mF */ {1, x::Y(2)}\n "
    )
    entry = replace(ENTRIES[0], option_text=text)
    (read,) = read_header(write_header([entry], comment="x"), "meta.h").entries
    assert read.options == {"mA": 7, "mB": -1, "mC": 3, "mD": (), "mE": (2,), "mF": (1, 2)}


@pytest.mark.parametrize(
    "text",
    ["", "\n", "int main() {}", "<html>404</html>", "version https://git-lfs.github.com/spec/v1\n"],
)
def test_what_is_no_header_is_told_with_its_first_line(text: str) -> None:
    ((line, what, found),) = refused(text)
    assert (line, what) == (None, "not a metadata header")
    assert found in (repr(text.strip()), "an empty file")


def test_other_bytes_and_giants_are_refused() -> None:
    with pytest.raises(InputError, match=r"meta\.h:2.*UTF-8"):
        read_header(b"// \n\xff", "meta.h")
    with pytest.raises(InputError, match="at most"):
        read_header(bytes(MAX_HEADER_BYTES + 1), "meta.h")


@pytest.mark.parametrize("declared", [0, len(ENTRIES) - 1, len(ENTRIES) + 1])
def test_a_count_that_is_not_the_declared_one(declared: int) -> None:
    text = FULL_TEXT.replace(f"Len = {len(ENTRIES)};", f"Len = {declared};")
    assert refused(text) == [
        (line_of(text, "ListLen"), "wrong number of entries", str(len(ENTRIES)))
    ]


def test_a_lost_entry_is_a_wrong_count() -> None:
    rows = FULL_TEXT.split("{nullptr")
    text = "{nullptr".join([*rows[:2], *rows[3:]])
    assert [what for _, what, _ in refused(text)] == ["wrong number of entries"]


@pytest.mark.parametrize("part", [0.3, 0.5, 0.9])
def test_truncation_anywhere_in_the_table(part: float) -> None:
    text = FULL_TEXT[: int(len(FULL_TEXT) * part)]
    problems = refused(text)
    assert problems[-1][1] in ("malformed entry", "truncated metadata header")
    assert problems[-1][0] is not None


def _around(before: str, after: str = "") -> str:
    table = FULL_TEXT.index("static constexpr")
    return f"{FULL_TEXT[:table]}{before}\n{FULL_TEXT[table:]}{after}\n"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (_around("#if 0", "#endif"), "a preprocessor conditional"),
        (_around("#  ifdef X", "#endif"), "a preprocessor conditional"),
        (_around("#ifndef __cplusplus", "#endif"), "a preprocessor conditional"),
        (_around("#ifndef EXCLUDE_SM_100\n#else", "#endif"), "a preprocessor conditional"),
        (_around("/*", "*/"), "a comment around the table"),
        (_around('const char *x = R"(', ')";'), "a raw string"),
    ],
)
def test_a_table_that_a_compiler_may_not_see(text: str, found: str) -> None:
    assert [each[2] for each in refused(text)] == [found]


def test_the_real_headers_guard_is_no_fault() -> None:
    first, end = FULL_TEXT.index("{nullptr"), FULL_TEXT.index("};\n")
    entries = f"#ifndef EXCLUDE_SM_100\n{FULL_TEXT[first:end]}#endif // EXCLUDE_SM_100\n"
    text = FULL_TEXT[:first] + entries + FULL_TEXT[end:]
    assert len(read_header(text.encode(), "meta.h")) == len(ENTRIES)


@pytest.mark.parametrize("hidden", ["/* {nullptr */ ", "#if 0\n", '#include "x.h"\n', "// x \\\n"])
def test_no_entry_of_the_table_is_hidden(hidden: str) -> None:
    entry = FULL_TEXT.index("{nullptr")
    assert refused(FULL_TEXT[:entry] + hidden + FULL_TEXT[entry:])


def test_truncation_between_two_entries() -> None:
    text = BARE_TEXT[: BARE_TEXT.index(KERNELS[2])].rpartition("{nullptr")[0]
    assert refused(text) == [
        (text.count("\n") + 1, "truncated metadata header", "the end of the file")
    ]


def test_every_duplicate_and_bad_digest_is_listed_with_its_line() -> None:
    entries = [
        *BARE,
        replace(BARE[1], sha256="f" * 64),
        replace(BARE[2], name=BARE[2].name + "x", sha256="1"),
    ]
    text = write_header(entries, comment="x").decode()
    first = line_of(text, KERNELS[0])
    assert refused(text) == [
        (first + len(BARE), "kernel listed twice", f"{KERNELS[1]}, already on line {first + 1}"),
        (first + len(BARE) + 1, "bad digest", f"'1' for {KERNELS[2]}x"),
    ]


@pytest.mark.parametrize("digest", ["", "0" * 63, "0" * 65, "A" * 64, "g" * 64, " " + "0" * 64])
def test_bad_digests(digest: str) -> None:
    text = write_header([replace(BARE[0], sha256=digest)], comment="x").decode()
    assert [what for _, what, _ in refused(text)] == ["bad digest"]


def test_a_name_must_be_an_identifier() -> None:
    text = write_header([replace(BARE[0], name="bmm x"), BARE[1]], comment="x").decode()
    assert [what for _, what, _ in refused(text)] == ["bad kernel name"]


def test_all_garbage_entries_are_listed_and_the_others_still_checked() -> None:
    rows = BARE_TEXT.split("\n")
    at = [i for i, row in enumerate(rows) if row.startswith("{nullptr")]
    rows[at[1]] = rows[at[1]].replace("nullptr, 0,", "nullptr, zero,", 1)
    rows[at[3]] = "{garbage"
    rows[at[5]] = rows[at[5]].replace("Sm100f", "Sm100f}, oops {")
    rows[at[6]] = rows[at[6]].replace(BARE[6].sha256, "?")
    found = [(line, what) for line, what, _ in refused("\n".join(rows))]
    assert found == [
        (at[1] + 1, "malformed entry"),
        (at[3] + 1, "malformed entry"),
        (at[5] + 1, "malformed entry"),
        (at[6] + 1, "bad digest"),
    ]


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("/* mTileK */ 256", "/* mTileK */ two", "malformed options"),
        ("/* mTileK */ 256", "/* mTileK */ ", "malformed options"),
        ("/* mTileK */ 256", "/* mTileK 256", "malformed options"),
        ("/* mTileK */ 256", "/* mTileK */ 256 /* mX */ 1", "malformed options"),
        ("/* mTileM */", "/* mTileK */", "an option twice"),
        ("/* mTileM */", "/* mTileX */", "other options than the entries before"),
    ],
)
def test_garbage_in_options(old: str, new: str, what: str) -> None:
    start = FULL_TEXT.index(KERNELS[1])
    text = FULL_TEXT[:start] + FULL_TEXT[start:].replace(old, new, 1)
    ((line, found, _),) = refused(text)
    assert (line, found) == (line_of(text, KERNELS[1]), what)


def test_options_without_an_end_do_not_take_long() -> None:
    entry = (
        '{nullptr, 0, 1, "bmm_x", 1, "0", "", nullptr, nullptr, nullptr, 0, {'
        + "/* mA */ 1, " * 2000
    )
    text = FULL_TEXT.partition("= {\n")[0] + "= {\n" + (entry + "\n") * 200
    assert len(refused(text)) == 101


@given(st.binary())
def test_arbitrary_bytes(data: bytes) -> None:
    _, refusal = attempt(lambda: read_header(data, "meta.h"))
    assert refusal is not None
    assert is_complete(refusal)


@given(st.data())
def test_arbitrary_edits_of_a_header(data: st.DataObject) -> None:
    text = bytearray(FULL_TEXT.encode() if data.draw(st.booleans()) else BARE_TEXT.encode())
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 400)))
    text[start:end] = data.draw(
        st.binary(max_size=40) | st.sampled_from([b"{", b"}", b'"', b"};\n", b"\n"])
    )
    header, refusal = attempt(lambda: read_header(bytes(text), "meta.h"))
    if header is None:
        assert refusal is not None
        assert is_complete(refusal)
    else:
        assert len(header) == header.declared_length == len(header.by_name)
        for entry in header.entries:
            _ = entry.options


# --- options against names -------------------------------------------------------------------


@pytest.mark.parametrize("entry", ENTRIES, ids=range(len(ENTRIES)))
def test_options_that_agree(entry: MetadataEntry) -> None:
    assert check_options(entry, parse(entry.name), "meta.h:1") == []


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ("mTileN */ 8", "mTileN */ 16", "mTileN"),
        ("mClusterDimX */ 1", "mClusterDimX */ 2", "mClusterDimX"),
        ("mNumSlicesForSplitK */ 1", "mNumSlicesForSplitK */ 2", "mNumSlicesForSplitK"),
        ("mDtypeA */ trtllm::gen::Dtype(17826828)", "mDtypeA */ trtllm::gen::Dtype(1)", "mDtypeA"),
        ("mDtypeMmaA */ trtllm::gen::Dtype(17826828)", "mDtypeMmaA */ 1052672", "mDtypeMmaA or"),
        ("mActType */ 3", "mActType */ 0", "mActType"),
        ("mFusedAct */ 1", "mFusedAct */ 0", "mFusedAct"),
        ("mRouteSfsImpl */ {batchedGemm::RouteImpl(1)}", "mRouteSfsImpl */ {}", "mRouteSfsImpl"),
        ("mNumStagesB */ 4", "mNumStagesB */ 5", "mNumStagesB"),
        ("mIsStaticBatch */ 0", "mIsStaticBatch */ 1", "mIsStaticBatch"),
        ("mTileM */", "mOther */", "mTileM"),
    ],
)  # fmt: skip
def test_options_that_disagree_are_named(old: str, new: str, field: str) -> None:
    entry = next(each for each in ENTRIES if "siTuGlu_dynB_sm100f" in each.name)
    assert entry.option_text is not None
    assert old in entry.option_text
    broken = replace(entry, option_text=entry.option_text.replace(old, new))
    problems = check_options(broken, parse(entry.name), "meta.h:7")
    assert problems
    assert all(each.where == "meta.h:7" and entry.name in each.expected for each in problems)
    assert any(each.expected.startswith(field) for each in problems)


def test_an_entry_without_options_must_still_have_the_sm_of_its_name() -> None:
    entry = replace(BARE[0], sm="sm100f")
    (problem,) = check_options(entry, parse(entry.name), "meta.h:7")
    assert ("sm103a" in problem.expected, problem.found) == (True, "sm100f")


# --- the fmha form ---------------------------------------------------------------------------

FMHA = f"""#pragma once
struct TllmGenFmhaKernelMetaInfo
{{
    int mSM;
    const char* mFuncName;
    int mSharedMemBytes;
    int mThreadsPerCTA;
    const char* sha256;
}};

static const TllmGenFmhaKernelMetaInfo sTllmGenFmhaKernelMetaInfos[] = {{
{{ kSM_100f, "fmhaSm100fKernel_A", 1024, 512, "{"1" * 64}"}},
{{ kSM_103, "fmhaSm103aKernel_B", 2048, 384, "{"2" * 64}"}},
}};
// end
"""


def test_the_fmha_form_gives_the_same_records() -> None:
    header = read_header(FMHA.encode(), "meta.h")
    assert header.entries == (
        MetadataEntry("fmhaSm100fKernel_A", "1" * 64, "sm100f", 1024, 512),
        MetadataEntry("fmhaSm103aKernel_B", "2" * 64, "sm103a", 2048, 384),
    )
    assert (header.declared_length, header.export_version) == (None, None)
    assert [entry.line for entry in header.entries] == [12, 13]


@pytest.mark.parametrize(
    ("old", "new", "line", "what"),
    [
        ("mFuncName;", "mName;", None, "not an fmha metadata header"),
        ("1024, 512", "1024", 12, "malformed entry"),
        ("1024", "-1", 12, "malformed entry"),
        ("kSM_103,", "kSM_100,", 13, "malformed entry"),
        ("aKernel_B", "aKernel_-", 13, "bad kernel name"),
        ("1" * 64, "1" * 63, 12, "bad digest"),
        ('_103, "fmhaSm103aKernel_B', '_100, "fmhaSm100fKernel_A', 13, "kernel listed twice"),
        ("};\n// end\n", "", 14, "malformed entry"),
    ],
)  # fmt: skip
def test_faults_of_the_fmha_form(old: str, new: str, line: int | None, what: str) -> None:
    assert old in FMHA
    assert refused(FMHA.replace(old, new))[0][:2] == (line, what)


@given(st.data())
def test_arbitrary_edits_of_an_fmha_header(data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(FMHA)))
    end = data.draw(st.integers(start, len(FMHA)))
    text = FMHA[:start] + data.draw(st.text(max_size=20)) + FMHA[end:]
    _, refusal = attempt(lambda: read_header(text.encode("utf-8", "replace"), "meta.h"))
    assert refusal is None or is_complete(refusal)
