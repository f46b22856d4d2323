"""One set of checkpoints, a worker and a gateway for each test."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from sie_mcp.catalogue.entries import Catalogue
from tests.dialects.rig import both, save_all


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def catalogue(folder: Path) -> Catalogue:
    return save_all(folder)


@pytest.fixture
async def clients(folder: Path, catalogue: Catalogue) -> AsyncIterator[list[httpx2.AsyncClient]]:
    """The worker itself, and the gateway in front of it."""
    async with both(folder, catalogue) as made:
        yield made
