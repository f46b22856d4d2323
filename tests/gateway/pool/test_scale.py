"""What a scaler reads: one count a pool, of requests that run or wait."""

import anyio
import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from sie_mcp.connection import Want
from sie_mcp.gateway.pool.scale import SCALE_PATH, ScaleRoute
from tests.gateway.pool.test_pools import make

pytestmark = pytest.mark.anyio


def counts(pools) -> dict[str, int]:
    app = Starlette(routes=ScaleRoute(pools.pools).routes())
    return TestClient(app).get(SCALE_PATH).json()["pools"]


async def test_every_pool_is_named_before_anybody_asks_for_it():
    assert counts(make()) == {"main": 0, "spot": 0}


async def test_what_runs_and_what_waits_is_wanted():
    pools = make("m1")
    await pools.address(Want("cold"))
    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(pools.address, Want("cold", pool="spot"))
        await anyio.wait_all_tasks_blocked()
        assert counts(pools) == {"main": 1, "spot": 3}
        group.cancel_scope.cancel()


async def test_a_pool_stays_wanted_for_a_while_after_its_last_request():
    pools = make("m1")
    address = await pools.address(Want("cold"))
    pools.done(address, Want("cold"))
    assert counts(pools)["main"] == 1


async def test_nobody_keeps_an_old_answer():
    app = Starlette(routes=ScaleRoute(make().pools).routes())
    assert TestClient(app).get(SCALE_PATH).headers["cache-control"] == "no-store"
