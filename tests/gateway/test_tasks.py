"""The Tasks extension: what becomes a task, how it is asked after, ended, and for how long kept."""

import asyncio
import json

import anyio
import pytest
from mcp import Client
from starlette.requests import Request
from starlette.responses import Response

from sie_mcp.errors import ModelLoading
from sie_mcp.gateway import tasks
from tests.gateway.front import CALL, gateway
from tests.gateway.modern import TASKS, Modern
from tests.scripted_worker import fails_with, until

pytestmark = pytest.mark.anyio
AT_ONCE = {"task_after_s": 0.05}
UNKNOWN, UNDECLARED, MISMATCH = -32602, -32021, -32020


async def started(front, client: Modern, gate: asyncio.Event | None = None) -> str:
    """Call a tool whose work waits for the gate; return the id of its task."""
    front.worker.script.append(front.worker.hold(gate or asyncio.Event()))
    before = len(front.worker.seen)
    created = await client.call("rerank", **CALL)
    await until(lambda: len(front.worker.seen) > before)
    assert created["resultType"] == "task"
    return created["taskId"]


async def test_a_long_call_is_answered_with_a_task_and_the_task_with_its_result():
    gate = asyncio.Event()
    async with gateway(**AT_ONCE, task_ttl_s=60) as front:
        client = Modern(front.http)
        front.worker.script = [front.worker.hold(gate)]
        created = await client.call("rerank", **CALL)
        assert created["resultType"] == "task" and created["status"] == "working"
        assert not {"result", "error", "inputRequests", "task"} & set(created)
        assert created["ttlMs"] >= 60_000 and created["pollIntervalMs"] == 2_000
        task = await client.task(created["taskId"])
        assert task["resultType"] == "complete" and task["status"] == "working"
        assert "result" not in task
        gate.set()
        task = await client.ended(created["taskId"])
        assert task["status"] == "completed"
        (block,) = task["result"]["content"]
        assert json.loads(block["text"]) == task["result"]["structuredContent"]
        assert task["result"]["structuredContent"]["results"][0]["index"] == 1
        assert task["ttlMs"] >= created["ttlMs"]
        # And once more: a result is read as often as one likes.
        assert (await client.task(created["taskId"]))["result"] == task["result"]


async def test_a_call_that_is_soon_done_is_answered_at_once(front):
    result = await Modern(front.http).call("rerank", **CALL)
    assert result["resultType"] == "complete"
    assert result["structuredContent"]["results"]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_who_does_not_declare_tasks_waits(mode):
    gate = asyncio.Event()
    async with (
        gateway(**AT_ONCE) as front,
        Client(f"{front.url}/mcp", mode=mode) as client,
        anyio.create_task_group() as group,
    ):
        front.worker.script = [front.worker.hold(gate)]
        answers = []

        async def call() -> None:
            answers.append(await client.call_tool("rerank", CALL))

        group.start_soon(call)
        await until(lambda: len(front.worker.seen) == 1)
        # Another call with tasks has become one meanwhile.
        await started(front, Modern(front.http))
        assert not answers
        gate.set()
        await until(lambda: bool(answers))
        assert answers[0].structured_content["results"]


async def test_the_extension_is_announced_and_its_methods_are_for_those_who_declare_it():
    async with gateway(**AT_ONCE) as front:
        client, other = Modern(front.http), Modern(front.http, knows_tasks=False)
        discovered = await client.result("server/discover")
        assert discovered["capabilities"]["extensions"][TASKS] == {}
        task_id = await started(front, client)
        for method, more in (("get", {}), ("update", {"inputResponses": {}}), ("cancel", {})):
            answer = await other.ask(f"tasks/{method}", {"taskId": task_id, **more})
            assert answer["error"]["code"] == UNDECLARED
            assert TASKS in answer["error"]["data"]["requiredCapabilities"]["extensions"]
        assert (await client.task(task_id))["status"] == "working"


async def test_a_task_that_is_cancelled_leaves_the_worker():
    async with gateway(**AT_ONCE) as front:
        client = Modern(front.http)
        task_id = await started(front, client)
        ack = await client.result("tasks/cancel", taskId=task_id)
        assert ack["resultType"] == "complete" and not {"taskId", "status"} & set(ack)
        await until(lambda: front.worker.num_hung_up == 1)
        task = await client.ended(task_id)
        assert task["status"] == "cancelled" and "result" not in task
        # What has ended is acknowledged again, and stays as it is.
        assert (await client.result("tasks/cancel", taskId=task_id))["resultType"] == "complete"
        assert (await client.task(task_id))["status"] == "cancelled"


async def test_an_error_of_the_tool_completes_its_task():
    async with gateway(**AT_ONCE) as front:
        client = Modern(front.http)
        gate = asyncio.Event()
        held, fails = front.worker.hold(gate), fails_with(ModelLoading("loading toy"))

        async def fails_late(request: Request) -> Response | None:
            await held(request)
            return await fails(request)

        front.worker.always = fails_late
        created = await client.call("rerank", **CALL)
        gate.set()
        task = await client.ended(created["taskId"])
        assert task["status"] == "completed" and task["result"]["isError"] is True
        assert "loading toy" in task["result"]["content"][0]["text"]


async def test_the_message_of_a_task_says_how_far_it_is():
    async with gateway(**AT_ONCE, load_wait_s=30) as front:
        client = Modern(front.http)
        front.worker.always = fails_with(ModelLoading("loading toy: 40 %"))
        created = await client.call("rerank", **CALL)
        with anyio.fail_after(30):
            message = ""
            while "40 %" not in message:
                message = (await client.task(created["taskId"])).get("statusMessage", "")
                await anyio.sleep(0.01)


@pytest.mark.parametrize(
    "task_id",
    ["", "nothing", "x" * 5_000, "../../etc"],
)
@pytest.mark.parametrize("method", ["tasks/get", "tasks/cancel", "tasks/update"])
async def test_an_unknown_task_is_an_error_that_says_what_to_do(front, task_id, method):
    answer = await Modern(front.http).ask(
        method, {"taskId": task_id, "inputResponses": {}}, {"Mcp-Name": task_id[:100] or "x"}
    )
    assert answer["error"]["code"] in (UNKNOWN, MISMATCH)
    if len(task_id) in range(1, 100):
        assert "call the tool again" in answer["error"]["message"]


async def test_a_header_that_names_another_task_is_refused():
    async with gateway(**AT_ONCE) as front:
        client = Modern(front.http)
        task_id = await started(front, client)
        answer = await client.ask("tasks/get", {"taskId": task_id}, {"Mcp-Name": "other"})
        assert answer["error"]["code"] == MISMATCH


@pytest.mark.parametrize("method", ["tasks/list", "tasks/result"])
async def test_methods_of_older_drafts_are_not_there(front, method):
    answer = await Modern(front.http).ask(method, {"taskId": "x"})
    assert answer["error"]["code"] == -32601


async def test_beyond_the_limit_calls_are_waited_for():
    gate = asyncio.Event()
    async with gateway(**AT_ONCE, max_tasks=1) as front:
        client = Modern(front.http)
        await started(front, client)
        front.worker.script = [front.worker.hold(gate)]
        answers = []

        async def call() -> None:
            answers.append(await client.call("rerank", **CALL))

        async with anyio.create_task_group() as group:
            group.start_soon(call)
            await until(lambda: len(front.worker.seen) == 2)
            assert not answers
            gate.set()
        assert answers[0]["resultType"] == "complete"


async def test_without_tasks_the_extension_is_not_offered():
    async with gateway(max_tasks=0) as front:
        client = Modern(front.http)
        discovered = await client.result("server/discover")
        assert TASKS not in discovered["capabilities"].get("extensions", {})
        assert (await client.ask("tasks/get", {"taskId": "x"}))["error"]["code"] == -32601


async def test_a_task_outlives_the_connection_that_began_it_but_a_call_does_not(monkeypatch):
    gate = asyncio.Event()
    async with gateway(**AT_ONCE) as front:
        client = Modern(front.http)
        task_id = await started(front, client, gate)
        # From now on no call lasts long enough to become a task.
        wait = tasks._wait
        monkeypatch.setattr(tasks, "_wait", lambda job, _: wait(job, 60.0))
        front.worker.always = front.worker.hold(asyncio.Event())
        call = asyncio.create_task(client.call("rerank", **CALL))
        await until(lambda: len(front.worker.seen) == 2)
        call.cancel()
        await until(lambda: front.worker.num_hung_up == 1)
        gate.set()
        assert (await client.ended(task_id))["status"] == "completed"
        assert front.worker.num_hung_up == 1


async def test_a_task_has_a_deadline_of_its_own():
    async with gateway(**AT_ONCE, tool_timeout_s=0.1, task_timeout_s=1.0) as front:
        client = Modern(front.http)
        front.worker.always = front.worker.hold(asyncio.Event())
        created = await client.call("rerank", **CALL)
        task = await client.ended(created["taskId"])
        assert task["result"]["isError"] is True
        assert "was not done after 1 s" in task["result"]["content"][0]["text"]
