import asyncio

import numpy as np
import pytest

from sie_mcp import metrics
from sie_mcp.adapters.adapter import Sequence
from sie_mcp.engine.job_queue import JobQueue, Sizes
from sie_mcp.engine.jobs import Job, parts_of
from sie_mcp.engine.scheduler import Scheduler
from sie_mcp.engine.tickets import Terms
from sie_mcp.errors import QueueFull, WorkerLost, WorkerUnavailable
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
        assert [part.job for part in take(queue)] == [runs]
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
        for part in [*batch, *rest]:
            part.settle([{}])
        assert await asked >= 0.0

    play(scenario)


def cuts(lengths: list[int], most_tokens: int, most: int) -> list[tuple[int, int]]:
    async def scenario():
        parts = parts_of(job(*lengths), lengths, most_tokens, most)
        return [(part.start, part.end) for part in parts]

    return asyncio.run(scenario())


def test_short_sequences_side_by_side_share_a_place():
    assert cuts([2, 2, 2, 9, 1, 1], 4, 10) == [(0, 2), (2, 3), (3, 4), (4, 6)]
    assert cuts([1] * 5, 100, 2) == [(0, 2), (2, 4), (4, 5)]
    assert cuts([3, 3], 0, 0) == [(0, 1), (1, 2)]


def wide_queue(**settings: int) -> JobQueue:
    limits = {"max_batch_tokens": 128, "max_batch_sequences": 64, "max_queue_sequences": 100}
    scheduler = Scheduler(max_queue_tokens=1_000, max_age_s=10.0, **(limits | settings))
    return JobQueue(scheduler, "a device")


def test_what_waits_is_counted_in_sequences_and_so_are_the_limits():
    async def scenario():
        queue = wide_queue()
        asked = asyncio.create_task(queue.run("m", job(*[1] * 100), Terms()))
        await until(lambda: queue.tokens == 100)
        with pytest.raises(QueueFull, match="100 sequences are waiting"):
            await queue.run("m", job(1), Terms())
        (first, *_) = batch = take(queue)
        assert first.end - first.start == 2  # Of 1/32 of 64 sequences.
        assert sum(part.end - part.start for part in batch) == 64
        before = metrics.CANCELLED._value.get()
        asked.cancel()
        queue.left(batch)
        await asyncio.gather(asked, return_exceptions=True)
        assert metrics.CANCELLED._value.get() - before == 36
        assert queue.tokens == 0

    play(scenario)


def test_a_budget_that_was_learned_holds_for_the_parts_of_what_comes_later():
    async def scenario():
        queue = wide_queue()
        queue.take(lambda: Sizes({"m": 32}, None), has_running=False, patience_s=0.0)
        asked = asyncio.create_task(queue.run("m", job(*[1] * 4), Terms()))
        await until(lambda: queue.tokens == 4)
        batch = take(queue)
        assert [(part.start, part.end) for part in batch] == [(0, 1), (1, 2), (2, 3), (3, 4)]
        queue.left(batch)
        for part in batch:
            part.settle([{}])
        await asked

    play(scenario)
