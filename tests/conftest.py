"""Fixtures for the real artifacts. Unit tests never fetch, compile or need a GPU."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests import public, published
from tests.published import CURRENT, PREVIOUS, cache_folder

__all__ = ["cache_folder", "fetch"]

FETCHING = {"published_wheel", "previous_wheel", "cubin_wheel", "snapshot_wheel"}


def fetch(requirement: str, sha256: str, platform: str = published.PLATFORM) -> Path:
    """A pinned wheel out of the cache or from the index; the test skips where neither has it."""
    try:
        return published.fetch(requirement, sha256, platform)
    except published.NotFetchedError as error:
        pytest.skip(f"cannot fetch {requirement}: {error}")


def _published(version: str) -> Path:
    return fetch(f"tokenspeed-situ=={version}", published.SHA256[version])


@pytest.fixture(scope="session")
def published_wheel() -> Path:
    """The published wheel post20260727 (marker ``network``)."""
    return _published(CURRENT)


@pytest.fixture(scope="session")
def previous_wheel() -> Path:
    """The release before, post20260726 (marker ``network``)."""
    return _published(PREVIOUS)


@pytest.fixture(scope="session")
def cubin_wheel() -> Path:
    """The wheel flashinfer-cubin 0.6.13 with the public pools (marker ``network``)."""
    try:
        return public.cubin_wheel()
    except published.NotFetchedError as error:
        pytest.skip(f"no flashinfer-cubin: {error}")


@pytest.fixture(scope="session")
def snapshot_wheel() -> Path:
    """The wheel flashinfer-python 0.6.13 with the runner's sources (marker ``network``)."""
    return fetch(*public.SNAPSHOT_WHEEL, "any")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test that uses a published wheel needs the network; absent tools skip with the reason."""
    for item in items:
        if FETCHING & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.network)
        for marker, programs in (("nvcc", ("nvcc",)), ("gcc", ("cc", "c++"))):
            missing = [name for name in programs if shutil.which(name) is None]
            if item.get_closest_marker(marker) and missing:
                item.add_marker(pytest.mark.skip(reason=f"{', '.join(missing)} not on the PATH"))
        if item.get_closest_marker("gpu") and not Path("/dev/nvidiactl").exists():
            item.add_marker(pytest.mark.skip(reason="no NVIDIA GPU on this host"))
