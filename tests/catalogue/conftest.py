"""Stub servers and an empty cache. No test here reaches a real network or a real user's cache."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from huggingface_hub import constants

from sie_mcp.catalogue.options import FetchOptions
from tests.catalogue.stub_hub import StubHub
from tests.catalogue.stub_index import StubIndex


@pytest.fixture
def index() -> Iterator[StubIndex]:
    with StubIndex() as running:
        yield running


@pytest.fixture
def hub() -> Iterator[StubHub]:
    with StubHub() as running:
        yield running


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture(autouse=True)
def user_hub_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in for the Hugging Face cache of whoever runs the tests."""
    folder = tmp_path / "user-hub-cache"
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(folder))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    return folder


@pytest.fixture
def notices() -> list[str]:
    return []


@pytest.fixture
def options(index: StubIndex, hub: StubHub, notices: list[str]) -> FetchOptions:
    return FetchOptions(
        index_url=index.index_url, hub_endpoint=hub.url, timeout_s=10, notice=notices.append
    )
