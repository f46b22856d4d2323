"""Sending by the broker: one answer a request, nothing left behind, and again after a restart."""

import anyio
import pytest

from sie_mcp.broker.messages import BODY, ID, REPLY, Answer, Call, pack
from sie_mcp.broker.settling import settle
from sie_mcp.errors import BrokerUnavailable, DeadlineExceeded
from sie_mcp.gateway.queued.sender import Sender
from tests.broker.fakes import FakeBroker

pytestmark = pytest.mark.anyio
CALL = Call("POST", "/v1/encode/m", (), b"{}")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def sent(broker: FakeBroker, count: int = 1):
    """Wait until so many were put, and return the headers of the last."""
    with anyio.fail_after(30):
        while len(broker.put_there) < count:
            await anyio.sleep(0)
    return broker.put_there[-1][2]


async def test_the_first_of_two_answers_is_the_answer():
    broker = FakeBroker()
    sender = Sender(broker)
    await sender.start()
    answers = []

    async def call() -> None:
        answers.append(await sender.call("l4", "m", CALL, 60.0))

    async with anyio.create_task_group() as group:
        group.start_soon(call)
        headers = await sent(broker)
        assert headers[REPLY] == "inbox"
        for body in (b"first", b"second"):
            await settle(broker, "calls", headers, Answer(200, (), body))
    assert [one.body for one in answers] == [b"first"]
    assert not broker.removed


async def test_a_late_answer_to_nobody_is_dropped():
    broker = FakeBroker()
    sender = Sender(broker)
    await sender.start()
    await settle(broker, "calls", {ID: "gone", REPLY: "inbox"}, Answer(200, (), b""))


async def test_what_is_not_answered_in_time_is_taken_back(monkeypatch):
    monkeypatch.setattr("sie_mcp.gateway.queued.sender.GRACE_S", 0.01)
    broker = FakeBroker(inline_bytes=1)
    sender = Sender(broker)
    await sender.start()
    with pytest.raises(DeadlineExceeded, match="no worker of pool l4"):
        await sender.call("l4", "m", CALL, 0.01)
    assert len(broker.removed) == 1
    assert broker.said[-1][0] == "sie.cancel.l4"
    assert not broker.bodies


async def test_what_waits_is_sent_again_when_the_broker_is_back_under_the_same_name():
    broker = FakeBroker()
    sender = Sender(broker)
    await sender.start()
    async with anyio.create_task_group() as group:
        group.start_soon(sender.call, "l4", "m", CALL, 60.0)
        await sent(broker)
        await sender.start()
        first, second = broker.put_there
        assert first == second
        await settle(broker, "calls", first[2], Answer(200, (), b""))


async def test_large_bodies_lie_beside_the_messages_and_are_gone_afterwards():
    broker = FakeBroker(inline_bytes=10)
    sender = Sender(broker)
    await sender.start()
    answers = []

    async def call() -> None:
        answers.append(await sender.call("l4", "m", CALL, 60.0))

    async with anyio.create_task_group() as group:
        group.start_soon(call)
        headers = await sent(broker)
        assert broker.bodies[headers[BODY]] == pack(CALL)
        await settle(broker, "calls", headers, Answer(200, (), b"x" * 50))
    assert answers[0].body == b"x" * 50


async def test_nothing_is_sent_before_there_is_a_broker():
    with pytest.raises(BrokerUnavailable):
        await Sender(FakeBroker()).call("l4", "m", CALL, 1.0)
