"""News of tasks: who hears them, what they say, when they end."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from sie_mcp.gateway import task_notices
from tests.gateway.front import CALL, gateway
from tests.gateway.modern import TASKS, Modern, modern

pytestmark = pytest.mark.anyio
LISTEN = "subscriptions/listen"
AT_ONCE = {"task_after_s": 0.05}
LIMIT_S = 20


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_notices, "LOOK_EVERY_S", 0.01)
    monkeypatch.setattr(task_notices, "MAX_LISTENERS", 2)


async def started(front: Any, client: Modern, gate: asyncio.Event) -> str:
    front.worker.script.append(front.worker.hold(gate))
    created = await client.call("rerank", **CALL)
    assert created["resultType"] == "task"
    return str(created["taskId"])


@asynccontextmanager
async def listening(client: Modern, *task_ids: Any) -> AsyncIterator[AsyncIterator[dict[str, Any]]]:
    """Open a stream; yield its messages."""
    post = client.post(LISTEN, {"notifications": {"taskIds": list(task_ids)}})
    async with client.http.stream("POST", "/mcp", **post) as answer:

        async def messages() -> AsyncIterator[dict[str, Any]]:
            async for line in answer.aiter_lines():
                if line.startswith("data:"):
                    yield json.loads(line.removeprefix("data:"))

        yield messages()


async def test_a_listener_hears_how_its_task_stands_and_how_it_ends():
    gate = asyncio.Event()
    async with gateway(**AT_ONCE) as front:
        client = Modern(front.http)
        task_id = await started(front, client, gate)
        with anyio.fail_after(LIMIT_S):
            async with listening(client, task_id, "nobody's") as messages:
                ack = await anext(messages)
                assert ack["method"] == "notifications/subscriptions/acknowledged"
                assert ack["params"]["notifications"] == {"taskIds": [task_id]}
                first = await anext(messages)
                assert first["method"] == "notifications/tasks"
                assert first["params"]["status"] == "working"
                gate.set()
                rest = [one async for one in messages]
        *_, last, result = rest
        told = last["params"]
        asked = await client.task(task_id)
        meta = told.pop("_meta")
        assert meta == ack["params"]["_meta"] == result["result"]["_meta"]
        assert told["status"] == "completed" and "resultType" not in told
        assert told == {name: asked[name] for name in told}
        assert set(asked) - set(told) <= {"resultType", "_meta"}


async def test_who_does_not_know_tasks_is_told_what_is_missing():
    async with gateway(**AT_ONCE) as front:
        answer = await Modern(front.http, knows_tasks=False).ask(
            LISTEN, {"notifications": {"taskIds": ["x"]}}
        )
        assert answer["error"]["code"] == -32021
        assert TASKS in answer["error"]["data"]["requiredCapabilities"]["extensions"]


@pytest.mark.parametrize("task_ids", [[], [1], "x", ["x"] * 33])
async def test_a_wish_that_is_none_is_refused(front, task_ids):
    answer = await Modern(front.http).ask(LISTEN, {"notifications": {"taskIds": task_ids}})
    assert "1 to 32 task ids" in answer["error"]["message"]


async def test_of_lists_that_never_change_nobody_can_hear(front):
    answer = await Modern(front.http).ask(LISTEN, {"notifications": {"toolsListChanged": True}})
    assert answer["error"]["code"] == -32601
    discovered = await Modern(front.http).result("server/discover")
    assert discovered["capabilities"]["tools"]["listChanged"] is False


async def test_a_task_of_nobody_ends_the_stream_at_once(front):
    with anyio.fail_after(LIMIT_S):
        async with listening(Modern(front.http), "nobody's") as messages:
            ack, result = [one async for one in messages]
    assert ack["params"]["notifications"] == {"taskIds": []}
    assert result["result"]["resultType"] == "complete"


async def test_so_many_may_listen_and_one_who_hangs_up_makes_room():
    gate = asyncio.Event()
    async with gateway(**AT_ONCE) as front, modern(front.url) as other:
        client = Modern(front.http)
        task_id = await started(front, client, gate)
        async with listening(other, task_id) as first:
            await anext(first)
            async with listening(client, task_id) as second:
                await anext(second)
                answer = await client.ask(LISTEN, {"notifications": {"taskIds": [task_id]}})
                assert "too many listen" in answer["error"]["message"]
        gate.set()
        messages: list[dict[str, Any]] = []
        with anyio.fail_after(LIMIT_S):
            # That they are gone is noticed within a quarter of a second.
            while not messages:
                async with listening(client, task_id) as third:
                    messages = [one async for one in third]
        assert messages[-1]["result"]["resultType"] == "complete"
