"""Requests whose worker ends under them: once more, alone, and never a third time."""

import asyncio

import anyio
import pytest

from evals.ports import free_port
from sie_mcp import retry
from sie_mcp.client import EngineClient
from sie_mcp.connection import FixedEndpoint
from sie_mcp.errors import InferenceError, WorkerLost, WorkerUnavailable
from tests.client.rig import items
from tests.fragile_worker import FragileWorker
from tests.scripted_worker import until

pytestmark = pytest.mark.anyio


async def test_a_request_that_ends_workers_is_refused_and_those_beside_it_are_answered():
    async with FragileWorker() as worker:
        client = EngineClient(FixedEndpoint(worker.url))
        beside = [
            asyncio.create_task(client.encode("toy", items(str(number)))) for number in range(6)
        ]
        await until(lambda: len(worker.in_hand) == 6)
        poison = asyncio.create_task(client.encode("toy", items("poison")))
        await until(lambda: worker.num_ends == 1)
        worker.gate.set()
        with anyio.fail_after(20):
            results = await asyncio.gather(*beside)
            with pytest.raises(InferenceError, match="ended 2 times while it ran this request"):
                await poison
        assert [one.items[0].dense.values[0] for one in results] == [0, 1, 2, 3, 4, 5]
        assert worker.num_ends == 2
        # Whoever was lost came back one by one.
        assert worker.most_in_hand == 1
        await client.aclose()


async def test_what_was_lost_is_tried_once_more_without_the_caller_seeing_it():
    async with FragileWorker() as worker:
        client = EngineClient(FixedEndpoint(worker.url))
        call = asyncio.create_task(client.encode("toy", items("3")))
        await until(lambda: len(worker.in_hand) == 1)
        worker.end()
        worker.gate.set()
        assert (await call).items[0].dense.values[0] == 3
        await client.aclose()


@pytest.mark.parametrize(("error", "num_tried"), [(WorkerLost, 2), (WorkerUnavailable, 6)])
async def test_a_worker_that_says_itself_that_it_is_lost_is_believed(error, num_tried, monkeypatch):
    monkeypatch.setattr(retry, "RESTART_PAUSE_S", 0.001)
    async with FragileWorker() as worker:
        worker.gate.set()
        worker.refusals = [error("gone", retry_after_s=0.001) for _ in range(num_tried - 1)]
        client = EngineClient(FixedEndpoint(worker.url))
        assert (await client.encode("toy", items("3"))).items[0].dense.values[0] == 3
        worker.refusals = [WorkerLost("gone") for _ in range(2)]
        with pytest.raises(InferenceError):
            await client.encode("toy", items("3"))
        await client.aclose()


async def test_a_restart_is_waited_for_as_long_as_a_load(monkeypatch):
    """The worker is away for much longer than three tries take."""
    monkeypatch.setattr(retry, "RESTART_PAUSE_S", 0.005)
    # Nobody is given this port while no worker has it.
    first = FragileWorker(free_port())
    async with first:
        client = EngineClient(FixedEndpoint(first.url), load_wait_s=20.0)
        sent = Counted(client._sender._once)
        call = asyncio.create_task(client.encode("toy", items("3")))
        await until(lambda: len(first.in_hand) == 1)
        client._sender._once = sent
    await until(lambda: sent.count > 8)
    async with FragileWorker(first.port) as second:
        second.gate.set()
        assert (await call).items[0].dense.values[0] == 3
    await client.aclose()


class Counted:
    """A function, and how often it was called."""

    def __init__(self, function):
        self._function = function
        self.count = 0

    async def __call__(self, *args):
        self.count += 1
        return await self._function(*args)


async def test_a_worker_that_stays_away_is_given_up_in_time(monkeypatch):
    monkeypatch.setattr(retry, "RESTART_PAUSE_S", 0.005)
    async with FragileWorker() as worker:
        client = EngineClient(FixedEndpoint(worker.url), load_wait_s=0.2)
        call = asyncio.create_task(client.encode("toy", items("3")))
        await until(lambda: len(worker.in_hand) == 1)
    with anyio.fail_after(30), pytest.raises(WorkerUnavailable, match="cannot be reached"):
        await call
    await client.aclose()
