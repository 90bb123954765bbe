"""Names, header and pool as they really are: the published runner's table and a public pool."""

from __future__ import annotations

import zipfile
from collections import Counter
from pathlib import Path

import pytest

from situ_release.digests import sha256_bytes
from situ_release.sources.kernel_name import parse_all
from situ_release.sources.kernel_options import check_options
from situ_release.sources.kernel_table import read_kernel_table
from situ_release.sources.metadata_header import MetadataEntry, read_header, write_header
from situ_release.sources.pool import Pool, open_pool, open_pools
from situ_release.sources.snapshot import open_snapshot
from tests.public import POOL

RUNNER = "tokenspeed_situ/lib/fused_moe_k3_situ_sm103.so"

FAMILIES = {
    "Bfloat16_MxE2m1Bfloat16_castBfloat16_patch_Fp32_Ab32": 120,
    "MxE4m3_MxE2m1MxE4m3_Fp32_Ab32_Bb32_Cb32": 212,
    "Bfloat16_MxE2m1MxE4m3_Fp32_Ab32_Bb32": 101,
    "Bfloat16_Bfloat16Bfloat16_Fp32": 144,
    "Bfloat16_E2m1E2m1_Fp32_Ab16_Bb16": 58,
    "Bfloat16_E2m1E2m1_Fp32_Ab16_Bb16tokFp32": 113,
    "Bfloat16_E4m3E4m3_Fp32": 132,
    "Bfloat16_MxE2m1E4m3_castMxE4m3_Fp32_Ab32_Bb32": 20,
    "Bfloat16_MxE4m3MxE4m3_Fp32_Ab32_Bb32": 101,
    "Bfloat16_MxInt4Bfloat16_castBfloat16_Fp32_Ab32": 96,
    "E2m1_E2m1E2m1_Fp32_Ab16_Bb16_Cb16": 161,
    "E4m3_E4m3E4m3_Fp32": 92,
    "E4m3_E4m3E4m3_Fp32_BtokBfloat16": 80,
    "E4m3_MxE2m1E4m3_castMxE4m3_Fp32_Ab32_Bb32": 40,
    "Fp16_E2m1E2m1_Fp32_Ab16_Bb16": 2,
    "Fp16_E4m3E4m3_Fp32": 12,
    "MxE4m3_MxE4m3MxE4m3_Fp32_Ab32_Bb32_Cb32": 212,
}
"""Kernels of each family in the published runner's table."""


@pytest.fixture(scope="module")
def table(published_wheel: Path) -> tuple[tuple[str, str], ...]:
    with zipfile.ZipFile(published_wheel) as archive:
        return read_kernel_table(archive.read(RUNNER), RUNNER).pairs


def test_all_private_names(table: tuple[tuple[str, str], ...]) -> None:
    names = parse_all(name for name, _ in table)
    assert len(names) == 1696
    assert [str(fields) for fields in names.values()] == list(names)
    assert Counter(fields.dtype_family for fields in names.values()) == FAMILIES
    assert Counter(fields.sm for fields in names.values()) == {"sm100f": 1636, "sm103a": 60}
    assert sum(fields.gated_act == "siTuGlu" for fields in names.values()) == 570


def test_the_recovered_header_of_the_real_table(table: tuple[tuple[str, str], ...]) -> None:
    entries = [MetadataEntry(name, digest, name.rpartition("_")[2]) for name, digest in table]
    data = write_header(entries, comment="Recovered.")
    header = read_header(data, "header")
    assert [(entry.name, entry.sha256) for entry in header.entries] == list(table)
    for entry, fields in zip(header.entries, parse_all(header.by_name).values(), strict=True):
        assert check_options(entry, fields, header.place(entry)) == []


# --- the public pool: 458 MB to fetch, of which 9 MB are read ---------------------------------


@pytest.fixture(scope="module")
def pool(cubin_wheel: Path) -> Pool:
    return open_pool(cubin_wheel)


@pytest.mark.slow
def test_the_public_header_agrees_with_names_and_checksums(pool: Pool) -> None:
    header = pool.header
    assert (pool.name, len(header), header.export_version) == (POOL, 2108, "7.0.4.0.4.0")
    assert Counter(entry.sm for entry in header.entries) == {"sm100f": 2048, "sm103a": 60}
    names = parse_all(header.by_name)
    assert [str(fields) for fields in names.values()] == list(names)
    for entry in header.entries:
        options = entry.options
        assert options is not None
        assert len(options) == 127
        assert check_options(entry, names[entry.name], header.place(entry)) == []
    paths = pool.find_all(names)
    assert all(pool.checksums.get(paths[entry.name]) == entry.sha256 for entry in header.entries)
    assert len(pool.checksums) == 2126
    assert pool.cubin_count == 2108
    assert (pool.config_sha256, pool.marker) == (None, None)
    pool.verify_includes()
    digests = [sha256_bytes(pool.read(path)) for path in list(paths.values())[:20]]
    assert digests == [entry.sha256 for entry in header.entries[:20]]


@pytest.mark.slow
def test_a_written_header_holds_the_real_entries_byte_for_byte(pool: Pool) -> None:
    original = pool.files.read("include/flashinferMetaInfo.h").decode()
    written = write_header(pool.header.entries, comment="x", export_version="7.0.4.0.4.0").decode()
    inner = original.partition("#ifndef EXCLUDE_SM_100\n")[2].partition("#endif")[0]
    assert inner
    assert inner in written


@pytest.mark.slow
def test_all_pools_of_the_wheel(cubin_wheel: Path) -> None:
    pools = {pool.name: pool for pool in open_pools(cubin_wheel)}
    assert set(pools) == {
        POOL,
        "gemm-91e0ba0-2710384",
        "trtllm-gen",
        "deep-gemm",
        "sm_100a",
        "sm_103a",
        "sm_110a",
    }
    attention = pools["trtllm-gen"]
    assert len(attention.header) == len(attention.find_all(attention.header.by_name)) == 13452
    assert Counter(entry.sm for entry in attention.header.entries) == {
        "sm100f": 11248,
        "sm100a": 312,
        "sm103a": 1892,
    }
    gemm = pools["gemm-91e0ba0-2710384"]
    assert len(gemm.header) == len(gemm.find_all(gemm.header.by_name)) == 93


@pytest.mark.slow
def test_the_public_snapshot_wheel(snapshot_wheel: Path) -> None:
    snapshot = open_snapshot(snapshot_wheel)
    assert (snapshot.kind, snapshot.version) == ("files", "0.6.13")
    assert snapshot.commit == "57ba7eeb7ea3003a2d6ad5d9a057c4f952709bac"
    assert list(snapshot.licenses) == ["LICENSE"]
    assert b"Apache License" in snapshot.read(snapshot.licenses["LICENSE"])
