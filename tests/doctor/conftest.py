"""Settings of a machine that nobody else uses."""

import pytest

from sie_mcp.config import Config
from sie_mcp.doctor import pools


@pytest.fixture
def config(tmp_path):
    return Config(cache_dir=tmp_path / "cache", runtime_dir=tmp_path / "run", offline=True)


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """Workers that are there are found on a busy machine too."""
    monkeypatch.setattr(pools, "LIMIT_S", 30.0)


@pytest.fixture
def anyio_backend():
    return "asyncio"
