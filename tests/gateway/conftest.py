"""What gateway tests share."""

from collections.abc import AsyncIterator

import pytest

from tests.gateway.front import Gateway, gateway
from tests.scripted_worker import ScriptedWorker


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def front() -> AsyncIterator[Gateway]:
    async with gateway() as made:
        yield made


@pytest.fixture
def worker() -> ScriptedWorker:
    return ScriptedWorker()
