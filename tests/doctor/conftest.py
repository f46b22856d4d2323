"""Settings of a machine that nobody else uses."""

import pytest

from sie_mcp.config import Config


@pytest.fixture
def config(tmp_path):
    return Config(cache_dir=tmp_path / "cache", runtime_dir=tmp_path / "run", offline=True)


@pytest.fixture
def anyio_backend():
    return "asyncio"
