"""Jobs by themselves: what ends one ends no other, and the last thing written is how it ended."""

from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
from mcp import MCPError
from mcp.types import CallToolResult

from sie_mcp.errors import StoreUnavailable
from sie_mcp.gateway.jobs import Job, Jobs
from sie_mcp.gateway.task_records import TaskBook
from sie_mcp.tools.stores import LocalStore

pytestmark = pytest.mark.anyio
ANSWER = CallToolResult(content=[])


class FlakyStore(LocalStore):
    """A store that is away now and then."""

    is_away = False

    async def put(self, key: str, value: bytes, ttl_s: float) -> None:
        if self.is_away:
            raise StoreUnavailable("away")
        await super().put(key, value, ttl_s)


@pytest.fixture
async def store() -> FlakyStore:
    return FlakyStore()


@pytest.fixture
async def jobs(store: FlakyStore) -> AsyncIterator[Jobs]:
    yield Jobs(TaskBook(store, ttl_s=60), max_tasks=2, ttl_s=60, beat_s=0.01)


async def read(store: FlakyStore, job: Job) -> Any:
    return await TaskBook(store, ttl_s=60).read(job.task_id, job.owner)


async def test_a_bug_in_one_job_ends_no_other(
    jobs: Jobs, store: FlakyStore, caplog: pytest.LogCaptureFixture
) -> None:
    gate = anyio.Event()

    async def broken() -> None:
        await gate.wait()
        raise RuntimeError("secret")

    async def fine() -> CallToolResult:
        await gate.wait()
        return ANSWER

    async with anyio.create_task_group() as background:
        bad, good = Job(""), Job("")
        background.start_soon(jobs.run, bad, broken)
        background.start_soon(jobs.run, good, fine)
        for job in (bad, good):
            assert await jobs.make_task(job, background) is not None
        assert not jobs.have_room
        gate.set()
    assert "ended unexpectedly" in caplog.text
    failed, completed = await read(store, bad), await read(store, good)
    assert failed.status == "failed" and "secret" not in failed.model_dump_json()
    assert completed.status == "completed" and completed.result["content"] == []
    with pytest.raises(MCPError):
        bad.answer()


async def test_a_job_that_ends_while_it_is_made_a_task_is_none(
    jobs: Jobs, store: FlakyStore
) -> None:
    async def quick() -> CallToolResult:
        return ANSWER

    async with anyio.create_task_group() as background:
        job = Job("")
        await jobs.run(job, quick)
        assert await jobs.make_task(job, background) is None
    assert job.answer() is ANSWER
    assert await read(store, job) is None
    assert jobs.have_room


async def test_a_store_that_is_away_for_a_while_loses_no_task(
    jobs: Jobs, store: FlakyStore, caplog: pytest.LogCaptureFixture
) -> None:
    gate = anyio.Event()

    async def slow() -> CallToolResult:
        await gate.wait()
        return ANSWER

    async with anyio.create_task_group() as background:
        job = Job("")
        background.start_soon(jobs.run, job, slow)
        assert await jobs.make_task(job, background) is not None
        store.is_away = True
        with anyio.fail_after(30):
            while "is not written" not in caplog.text:
                await anyio.sleep(0.005)
        store.is_away = False
        job.message = "half"
        with anyio.fail_after(30):
            while (await read(store, job)).status_message != "half":
                await anyio.sleep(0.005)
        store.is_away = True
        gate.set()
        with anyio.fail_after(30):
            while "is not written yet" not in caplog.text:
                await anyio.sleep(0.005)
        store.is_away = False
        with anyio.fail_after(30):
            while (await read(store, job)).status != "completed":
                await anyio.sleep(0.005)


async def test_what_has_ended_is_not_cancelled_any_more(jobs: Jobs, store: FlakyStore) -> None:
    gate = anyio.Event()

    async def slow() -> CallToolResult:
        await gate.wait()
        return ANSWER

    async with anyio.create_task_group() as background:
        job = Job("")
        background.start_soon(jobs.run, job, slow)
        assert await jobs.make_task(job, background) is not None
        gate.set()
        await job.done.wait()
        await jobs.cancel(job.task_id)
    assert (await read(store, job)).status == "completed"
