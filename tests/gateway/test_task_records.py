"""What a task is taken for while nobody says that it runs, and for how long it is kept."""

import pytest

from sie_mcp.gateway.task_records import LEASE_S, TaskBook
from sie_mcp.tools.stores import LocalStore

pytestmark = pytest.mark.anyio
TTL_S = 600.0


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


async def test_a_task_whose_replica_is_heard_no_more_has_failed() -> None:
    clock = Clock()
    book = TaskBook(LocalStore(clock), ttl_s=TTL_S)
    record = book.new("one", 0.0)
    await book.write(record, "owner", 0.0)
    for _ in range(5):
        await book.runs("one")
        clock.now_s += LEASE_S / 2
        task = await book.read("one", "owner")
        assert task is not None and task.status == "working"
    clock.now_s += LEASE_S
    task = await book.read("one", "owner")
    assert task is not None and task.status == "failed" and task.error is not None
    assert "call the tool again" in task.error["message"]


async def test_what_has_ended_needs_nobody_who_runs_it() -> None:
    clock = Clock()
    book = TaskBook(LocalStore(clock), ttl_s=TTL_S)
    record = book.new("one", 0.0)
    record.status, record.result = "completed", {"content": []}
    await book.write(record, "owner", 0.0)
    clock.now_s += 2 * LEASE_S
    task = await book.read("one", "owner")
    assert task is not None and task.status == "completed"


async def test_a_result_is_kept_for_the_time_that_its_task_says() -> None:
    clock = Clock()
    book = TaskBook(LocalStore(clock), ttl_s=TTL_S)
    record = book.new("one", 100.0)
    record.status = "completed"
    await book.write(record, "owner", 100.0)
    assert record.ttl_ms == 1_000 * (100 + TTL_S)
    clock.now_s = TTL_S - 1
    assert await book.read("one", "owner") is not None
    assert await book.read("one", "another") is None
    clock.now_s = TTL_S + 1
    assert await book.read("one", "owner") is None
