"""What a worker is told of who asks: a name, a priority, and how long the answer is waited for."""

import anyio
import pytest

from sie_mcp import wire
from sie_mcp.chunks import CHUNK_ITEMS
from sie_mcp.client import EngineClient
from sie_mcp.connection import FixedEndpoint
from tests.client.rig import items, numbered

pytestmark = pytest.mark.anyio


async def test_every_call_of_a_process_has_the_same_name_and_every_process_its_own(worker, client):
    await client.encode("toy", items("1"))
    await client.score("toy", wire.Item(text="2"), items("1"))
    await client.named("someone").encode("toy", items("1"))
    names = [seen.headers["x-sie-client"] for seen in worker.seen]
    assert names[0] == names[1] != EngineClient(FixedEndpoint("http://h"))._client_id
    assert names[2] == "someone"
    assert all(0 < len(name) <= 64 for name in names)


async def test_what_fits_into_one_request_is_interactive_and_more_is_bulk(worker, client):
    await client.encode("toy", numbered(CHUNK_ITEMS))
    await client.encode("toy", numbered(CHUNK_ITEMS + 1))
    priorities = [seen.headers["x-sie-priority"] for seen in worker.seen]
    assert priorities == ["interactive", "bulk", "bulk"]


async def test_the_worker_is_told_how_long_the_caller_still_waits(worker, client):
    await client.encode("toy", items("1"))
    with anyio.fail_after(5):
        await client.encode("toy", items("1"))
    own, callers = (float(seen.headers["x-sie-timeout"]) for seen in worker.seen)
    assert own == 10.0
    assert 0 < callers <= 5.0
