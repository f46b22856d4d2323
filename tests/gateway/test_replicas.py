"""Two gateways over one store: a task that one runs, and a result that one keeps, are both's."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.gateway.front import CALL, Gateway, gateway
from tests.gateway.modern import Modern
from tests.redis_servers import KINDS, redis_server
from tests.scripted_worker import until

pytestmark = pytest.mark.anyio
MANY = {"query": "q", "documents": [f"{number}" for number in range(300)], "model": "toy"}


@pytest.fixture(params=KINDS)
async def two(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[list[Gateway]]:
    """Two gateways that share a store; each has a worker of its own."""
    async with AsyncExitStack() as stack:
        uri = stack.enter_context(redis_server(request.param, tmp_path))
        yield [
            await stack.enter_async_context(
                gateway(task_after_s=0.05, results_uri=uri, max_result_tokens=400)
            )
            for _ in range(2)
        ]


async def test_a_task_is_asked_after_at_any_replica(two: list[Gateway]) -> None:
    one, other = (Modern(each.http) for each in two)
    gate = asyncio.Event()
    two[0].worker.script = [two[0].worker.hold(gate)]
    task_id = (await one.call("rerank", **CALL))["taskId"]
    assert (await other.task(task_id))["status"] == "working"
    gate.set()
    task = await other.ended(task_id)
    assert task["status"] == "completed"
    assert task["result"]["structuredContent"]["results"]
    assert await one.task(task_id) == task
    assert two[1].worker.seen == []


async def test_a_task_is_cancelled_at_any_replica(two: list[Gateway]) -> None:
    one, other = (Modern(each.http) for each in two)
    two[0].worker.always = two[0].worker.hold(asyncio.Event())
    task_id = (await one.call("rerank", **CALL))["taskId"]
    await until(lambda: len(two[0].worker.seen) == 1)
    assert (await other.result("tasks/cancel", taskId=task_id))["resultType"] == "complete"
    await until(lambda: two[0].worker.num_hung_up == 1)
    assert (await other.ended(task_id))["status"] == "cancelled"
    assert (await one.task(task_id))["status"] == "cancelled"


async def test_the_rest_of_a_result_is_read_at_any_replica(two: list[Gateway]) -> None:
    one, other = (Modern(each.http) for each in two)
    result = await one.call("rerank", **MANY, top_k=100, return_text=True)
    if result["resultType"] == "task":
        result = (await one.ended(result["taskId"]))["result"]
    uri = result["structuredContent"].get("resource")
    assert uri is not None, result["structuredContent"]
    read = await other.result("resources/read", uri=uri)
    page = json.loads(read["contents"][0]["text"])
    assert page["count"] == 300 and page["entries"][0]["index"] == 299


async def test_the_end_of_a_replica_ends_its_tasks_as_failed(tmp_path: Path) -> None:
    with redis_server("in process", tmp_path) as uri:
        settings = {"task_after_s": 0.05, "results_uri": uri}
        async with gateway(**settings) as other:
            async with gateway(**settings) as front:
                front.worker.always = front.worker.hold(asyncio.Event())
                task_id = (await Modern(front.http).call("rerank", **CALL))["taskId"]
            task = await Modern(other.http).ended(task_id)
            assert task["status"] == "failed" and "stopped" in task["error"]["message"]


async def test_where_the_store_does_not_answer_a_call_is_waited_for(tmp_path: Path) -> None:
    async with gateway(task_after_s=0.05, results_uri=f"unix://{tmp_path}/none.sock") as front:
        client, gate = Modern(front.http), asyncio.Event()
        front.worker.script = [front.worker.hold(gate)]
        call = asyncio.create_task(client.call("rerank", **CALL))
        await until(lambda: len(front.worker.seen) == 1)
        answer = await client.ask("tasks/get", {"taskId": "x"})
        assert answer["error"]["code"] == -32603
        read = await client.ask("resources/read", {"uri": "sie://results/x"})
        assert "does not answer" in read["error"]["message"]
        gate.set()
        assert (await call)["resultType"] == "complete"
