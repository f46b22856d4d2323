"""A network that is cut between a gateway and one of its workers: no request is lost by it."""

import itertools
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import numpy as np
import pytest

from sie_mcp import wire
from sie_mcp.client import EngineClient
from sie_mcp.connection import Connections
from sie_mcp.gateway.pool import watch
from sie_mcp.gateway.pool.keys import ranked
from sie_mcp.gateway.pool.plan import Plan, PoolPlan
from sie_mcp.gateway.pool.pools import Pools
from tests.cluster.conftest import Cluster, cluster, until
from tests.cluster.network import Cable, cables
from tests.toys import toy_vector

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]


@asynccontextmanager
async def by_cable(found: Cluster) -> AsyncIterator[tuple[Pools, EngineClient, list[Cable]]]:
    """Run a second gateway, which reaches the workers by cables."""
    async with cables(*(one.url for one in found.workers)) as laid:
        plan = Plan(pools={"default": PoolPlan(workers=[one.url for one in laid], slots=8)})
        pools = Pools(plan, Connections(timeout_s=60.0), hold_s=60.0)
        client = EngineClient(pools, load_wait_s=60.0, timeout_s=60.0)
        known = pools.pools["default"].watch.known
        async with pools.running():
            await until(lambda: sum(one.is_ready for one in known.values()) == len(laid))
            yield pools, client, laid
            await client.aclose()


def owned_by(cable: Cable, laid: list[Cable]) -> str:
    """Return a model that should be behind a cable."""
    urls = tuple(sorted(one.url for one in laid))
    names = (f"org/model-{number}" for number in itertools.count())
    return next(name for name in names if ranked(name, urls)[0] == cable.url)


async def ask(client: EngineClient, model: str, text: str) -> None:
    answer = await client.encode(model, [wire.Item(text=text)])
    assert np.array_equal(answer.items[0].dense.values, toy_vector(text))


@pytest.mark.parametrize("way", ["cut", "drop"])
async def test_what_is_behind_a_network_that_breaks_is_answered_by_others(
    tmp_path, monkeypatch, way
):
    async with cluster(tmp_path, 2) as found, by_cable(found) as (pools, client, laid):
        model = owned_by(laid[0], laid)
        await ask(client, model, "first")
        first, second = found.workers
        assert (first.loader.loads, second.loader.loads) == ([model], [])
        first.loader.adapters[model].gate = gate = threading.Event()
        async with anyio.create_task_group() as group:
            for number in range(6):
                group.start_soon(ask, client, model, f"text {number}")
            await until(lambda: first.activity.in_flight == 6)
            # Not before: where the machine is slow, a worker that is well may be so late. And no
            # look that has longer is under way.
            looked_at = pools.pools["default"].watch.known[laid[0].url]
            await until(lambda: not looked_at.is_looking)
            monkeypatch.setattr(watch, "LOOK_TIMEOUT_S", 0.3)
            monkeypatch.setattr(watch, "SILENT_S", 0.5)
            getattr(laid[0], way)()
            if way == "drop":
                gate.set()  # Alive, it may have them again.
        gate.set()
        if way == "cut":
            assert second.loader.loads == [model]
            known = pools.pools["default"].watch.known
            assert not known[laid[0].url].is_ready
            laid[0].mend()
            await until(lambda: known[laid[0].url].is_ready)
        await ask(client, model, "last")


async def test_a_worker_that_is_silent_for_a_moment_keeps_its_models_and_requests(
    tmp_path, monkeypatch
):
    async with cluster(tmp_path, 2) as found, by_cable(found) as (pools, client, laid):
        model = owned_by(laid[0], laid)
        await ask(client, model, "first")
        watched = pools.pools["default"].watch
        known, looks = watched.known[laid[0].url], watched._look_once

        async def one_look(one: watch.Known) -> None:
            """Look; mend the cable before it is looked again."""
            await looks(one)
            if one is known and one.num_missed:
                monkeypatch.setattr(watch, "LOOK_TIMEOUT_S", 60.0)
                laid[0].mend()

        monkeypatch.setattr(watched, "_look_once", one_look)
        # No look that has longer is under way.
        await until(lambda: not known.is_looking)
        monkeypatch.setattr(watch, "LOOK_TIMEOUT_S", 0.2)
        laid[0].cut()
        async with anyio.create_task_group() as group:
            group.start_soon(ask, client, model, "meanwhile")
            await until(lambda: watch.LOOK_TIMEOUT_S == 60.0)
            assert known.is_ready
        await until(lambda: known.num_missed == 0)
        assert [one.loader.loads for one in found.workers] == [[model], []]
