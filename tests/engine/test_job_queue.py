import asyncio

import numpy as np
import pytest

from sie_mcp.adapters.adapter import Sequence
from sie_mcp.engine.job_queue import JobQueue, Sizes
from sie_mcp.engine.jobs import Job
from sie_mcp.engine.scheduler import Scheduler
from sie_mcp.engine.tickets import Terms
from sie_mcp.errors import WorkerLost, WorkerUnavailable
from tests.engine.conftest import play, until
from tests.toys import ToyAdapter


@pytest.fixture
def queue() -> JobQueue:
    scheduler = Scheduler(
        max_batch_tokens=4, max_batch_sequences=8, max_queue_tokens=100, max_age_s=10.0
    )
    return JobQueue(scheduler, "a device")


def job(*lengths: int) -> Job:
    loop = asyncio.get_running_loop()
    sequences = [Sequence(np.zeros(length, np.int64)) for length in lengths]
    return Job(ToyAdapter("m"), sequences, loop.create_future(), loop)


def take(queue: JobQueue):
    return queue.take(lambda: Sizes({}, None), has_running=False, patience_s=0.0)


def test_the_first_reason_stands_and_nothing_is_taken_or_given_after_it(queue):
    async def scenario():
        assert take(queue) == []
        assert queue.fail("one reason")
        assert not queue.fail("another")
        assert queue.failure == "one reason"
        assert take(queue) is None
        with pytest.raises(WorkerUnavailable):
            await queue.run("m", job(1), Terms())

    play(scenario)


def test_of_a_lost_device_only_what_ran_can_have_been_the_reason(queue):
    async def scenario():
        runs, waits = job(4), job(3)
        asked = [asyncio.create_task(queue.run("m", one, Terms())) for one in (runs, waits)]
        await until(lambda: queue.tokens == 7)
        assert [place.job for place in take(queue)] == [runs]
        assert (queue.is_busy, queue.tokens) == (True, 3)
        queue.fail("lost")
        queue.abandon("call again")
        found = await asyncio.gather(*asked, return_exceptions=True)
        assert [type(error) for error in found] == [WorkerLost, WorkerUnavailable]
        assert queue.tokens == 0

    play(scenario)


def test_what_is_known_of_sizes_is_asked_as_the_batch_is_made(queue):
    async def scenario():
        asked = asyncio.create_task(queue.run("m", job(1, 1, 1), Terms()))
        await until(lambda: queue.tokens == 3)
        batch = queue.take(lambda: Sizes({"m": 2}, None), has_running=False, patience_s=0.0)
        assert len(batch) == 2
        queue.left(batch)
        rest = queue.take(lambda: Sizes({}, {"m": 1}), has_running=False, patience_s=0.0)
        queue.left(rest)
        for place in [*batch, *rest]:
            place.settle({})
        assert await asked >= 0.0

    play(scenario)
