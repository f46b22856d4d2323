"""One message to its answer: late, twice, unwanted, unreadable, or back to others."""

import time

import anyio
import pytest

from sie_mcp.broker.broker import Record
from sie_mcp.broker.job_records import JobRecord
from sie_mcp.broker.messages import (
    DEADLINE,
    ID,
    REASON,
    REPLY,
    Answer,
    Call,
    error_answer,
    pack,
    unpack_answer,
)
from sie_mcp.engine.pulling.runner import Runner
from sie_mcp.errors import ModelLoading, WorkerUnavailable
from tests.broker.fakes import FakeBroker, FakeDelivery

pytestmark = pytest.mark.anyio
CALL = pack(Call("POST", "/v1/encode/m", (), b"{}"))
HEADERS = {ID: "1", REPLY: "inbox"}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Scripted:
    """Answers with one after another."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers) or [Answer(200, (), b"ok")]
        self.calls: list[Call] = []

    async def __call__(self, call: Call, left_s: float | None) -> Answer:
        self.calls.append(call)
        return self.answers.pop(0)


async def handle(delivery: FakeDelivery, run: Scripted, *, kind="calls", lane="work") -> FakeBroker:
    broker = FakeBroker()
    runner = Runner(broker, "l4", run, lambda: 30.0)
    await runner.handle(delivery, kind, lane, "m")
    return broker


async def test_an_answer_is_told_and_then_the_message_is_done_with():
    delivery = FakeDelivery(CALL, HEADERS)
    broker = await handle(delivery, Scripted())
    assert unpack_answer(broker.said[0][1]).body == b"ok"
    assert delivery.words == ["done"]


async def test_what_comes_a_second_time_is_set_aside_and_not_run():
    delivery, run = FakeDelivery(CALL, HEADERS, times=2), Scripted()
    broker = await handle(delivery, run)
    [(subject, data, headers)] = broker.put_there
    assert (subject, data, headers[ID]) == ("sie.calls.l4.alone.m", CALL, "1.alone")
    assert not run.calls
    assert delivery.words == ["done"]


async def test_what_runs_alone_runs_again_under_its_own_name():
    delivery = FakeDelivery(CALL, HEADERS | {ID: "1.alone"}, times=3)
    broker = await handle(delivery, Scripted(), lane="alone")
    assert broker.said[0][2][ID] == "1"


async def test_what_is_late_is_answered_and_not_run():
    delivery, run = FakeDelivery(CALL, HEADERS | {DEADLINE: f"{time.time() - 5}"}), Scripted()
    broker = await handle(delivery, run)
    assert unpack_answer(broker.said[0][1]).status == 504
    assert not run.calls
    assert delivery.words == ["done"]


async def test_a_worker_that_leaves_hands_it_back_without_an_answer():
    delivery = FakeDelivery(CALL, HEADERS)
    broker = await handle(delivery, Scripted(error_answer(WorkerUnavailable("leaving"))))
    assert not broker.said
    assert delivery.words == ["hand back"]


async def test_a_load_is_waited_for(monkeypatch):
    monkeypatch.setattr("sie_mcp.engine.pulling.runner.AGAIN_S", 0.0)
    run = Scripted(error_answer(ModelLoading("loading")), Answer(200, (), b"ok"))
    broker = await handle(FakeDelivery(CALL, HEADERS), run)
    assert len(run.calls) == 2
    assert unpack_answer(broker.said[0][1]).status == 200


async def test_what_cannot_be_read_is_buried_with_the_reason():
    delivery = FakeDelivery(b"\xc1", HEADERS)
    broker = await handle(delivery, Scripted())
    [(subject, data, headers)] = broker.put_there
    assert (subject, data) == ("sie.dead.l4.m", b"\xc1")
    assert "no message of this version" in headers[REASON]
    assert delivery.words == ["done"]


async def test_what_was_cancelled_before_is_not_run():
    broker, run = FakeBroker(), Scripted()
    runner = Runner(broker, "l4", run, lambda: 30.0)
    await runner.hear_cancelled(b"", {ID: "1"})
    delivery = FakeDelivery(CALL, HEADERS)
    await runner.handle(delivery, "calls", "work", "m")
    assert not run.calls
    assert delivery.words == ["done"]


async def test_what_is_cancelled_while_it_runs_ends_without_an_answer():
    broker, begun = FakeBroker(), anyio.Event()

    async def endless(call: Call, left_s: float | None) -> Answer:
        begun.set()
        await anyio.sleep_forever()
        raise AssertionError

    runner = Runner(broker, "l4", endless, lambda: 30.0)
    delivery = FakeDelivery(CALL, HEADERS)
    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(runner.handle, delivery, "calls", "work", "m")
            await begun.wait()
            await runner.hear_cancelled(b"", {ID: "1"})
    assert not broker.said
    assert delivery.words == ["done"]


@pytest.mark.parametrize("state", ["done", "cancelled", "refused"])
async def test_a_job_that_has_ended_is_not_run_again(state):
    broker, run = FakeBroker(), Scripted()
    record = JobRecord(state, "me", "l4", time.time() + 60)
    broker.records["1"] = Record(record.pack(), 1)
    await Runner(broker, "l4", run, lambda: 30.0).handle(
        FakeDelivery(CALL, {ID: "1"}), "jobs", "work", "m"
    )
    assert not run.calls
    assert broker.records["1"].revision == 1


async def test_a_jobs_answer_is_written_once():
    broker, run = FakeBroker(), Scripted(Answer(200, (), b"a"), Answer(200, (), b"b"))
    broker.records["1"] = Record(JobRecord("waiting", "me", "l4", time.time() + 60).pack(), 1)
    runner = Runner(broker, "l4", run, lambda: 30.0)
    for _ in range(2):
        await runner.handle(FakeDelivery(CALL, {ID: "1"}), "jobs", "work", "m")
    record = JobRecord.unpack(broker.records["1"].value)
    assert (record.state, unpack_answer(record.answer).body) == ("done", b"a")
    assert len(run.calls) == 1


async def test_a_bug_leaves_the_message_to_another():
    async def broken(call: Call, left_s: float | None) -> Answer:
        raise ValueError("a bug")

    delivery = FakeDelivery(CALL, HEADERS)
    await Runner(FakeBroker(), "l4", broken, lambda: 30.0).handle(delivery, "calls", "work", "m")
    assert delivery.words == []
