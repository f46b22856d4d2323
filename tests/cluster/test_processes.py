"""Processes of a cluster that die, leave, stand still and come back: nobody's request fails."""

import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import anyio
import httpx2
import pytest

from tests.cluster.conftest import WAIT_S, until
from tests.cluster.processes import NUM_MODELS, NUM_WORKERS, Fleet, Traffic

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory) -> Iterator[Fleet]:
    with Fleet(tmp_path_factory.mktemp("fleet")) as found:
        yield found


@asynccontextmanager
async def asking(fleet: Fleet, count: int) -> AsyncIterator[tuple[httpx2.AsyncClient, Traffic]]:
    """Have traffic beside the block, once a third of it is through; hold it to be all answered."""
    found = Traffic()
    async with httpx2.AsyncClient(base_url=fleet.url, timeout=120) as http:
        await fleet.whole(http)
        async with anyio.create_task_group() as group:
            group.start_soon(fleet.traffic, http, found, count)
            await until(lambda: found.num_answers >= count // 3)
            yield http, found
        assert found.failures == []
        assert found.num_answers == count


async def test_a_model_is_loaded_once_and_asked_for_where_it_is(fleet):
    async with asking(fleet, 240) as (_, found):
        pass
    assert len(found.asked) == NUM_MODELS
    assert await fleet.num_loads() <= 1.2 * NUM_MODELS


async def test_a_worker_that_is_killed_is_missed_by_nobody_and_its_successor_is_welcome(fleet):
    async with asking(fleet, 240) as (http, found):
        for one in fleet.workers[:2]:
            one.send(signal.SIGKILL)
        await fleet.sees(http, NUM_WORKERS - 2)
        at = found.num_answers
        fleet.start(fleet.workers[0])
        await fleet.sees(http, NUM_WORKERS - 1)
        assert found.num_answers >= at


async def test_a_worker_that_is_told_to_leave_leaves_with_its_work_done(fleet):
    async with asking(fleet, 240) as (http, _):
        fleet.workers[2].send(signal.SIGTERM)
        await until(lambda: not fleet.workers[2].is_there)
        await fleet.sees(http, NUM_WORKERS - 1)


async def test_a_worker_that_stands_still_holds_up_nobody_but_its_own(fleet):
    async with asking(fleet, 360) as (http, found):
        still = fleet.workers[3]
        still.send(signal.SIGSTOP)
        try:
            await fleet.sees(http, NUM_WORKERS - 1)
            at = found.num_answers
            await until(lambda: found.num_answers >= min(at + 40, 300))
        finally:
            still.send(signal.SIGCONT)


async def test_a_cluster_without_workers_holds_a_request_until_a_scaler_has_started_one(fleet):
    """How long that takes is measured by evals/cluster_e2e.py."""
    found = Traffic()
    async with httpx2.AsyncClient(base_url=fleet.url, timeout=120) as http:
        for one in fleet.workers:
            if one.is_there:
                one.send(signal.SIGKILL)
        await fleet.sees(http, 0)
        async with anyio.create_task_group() as group:
            group.start_soon(fleet.traffic, http, found, 1)
            with anyio.fail_after(WAIT_S):
                while not (await http.get("/internal/scale")).json()["pools"]["default"]:
                    await anyio.sleep(0.05)
            assert found.num_answers == 0
            fleet.start(fleet.workers[0])
    assert (found.num_answers, found.failures) == (1, [])
