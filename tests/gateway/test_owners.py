"""What is kept for somebody who is authenticated is theirs alone: tasks, and rests of results."""

import asyncio
from pathlib import Path

import pytest

from sie_mcp.config import Config
from sie_mcp.gateway.app import build_app
from sie_mcp.gateway.task_records import LEASE_S, MAX_ID_CHARS, TaskBook, new_id
from sie_mcp.tools.stores import LocalStore
from tests.access.conftest import KeyFile
from tests.gateway.front import CALL
from tests.gateway.modern import Modern, modern
from tests.scripted_worker import ScriptedWorker, until
from tests.servers import serving

pytestmark = pytest.mark.anyio
UNKNOWN = -32602
MANY = {"query": "q", "documents": [f"{number}" for number in range(300)], "model": "toy"}


def bearing(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


async def refused(client: Modern, key: str, method: str, **params: object) -> None:
    answer = await client.ask(method, params, bearing(key))
    assert answer["error"]["code"] == UNKNOWN


async def turned_away(client: Modern, method: str, **params: object) -> None:
    """Without a key nobody gets as far as to ask."""
    answer = await client.http.post("/mcp", **client.post(method, params))
    assert answer.status_code == 401


async def test_a_task_and_a_result_are_found_by_their_owner_only(
    worker: ScriptedWorker, tmp_path: Path
) -> None:
    keys = KeyFile(tmp_path / "keys.toml")
    alice, bob = bearing(keys.add("alice")), keys.add("bob")
    async with worker.running() as worker_url:
        config = Config(
            worker_url=worker_url,
            task_after_s=0.05,
            max_result_tokens=400,
            auth="api-key",
            api_keys_file=keys.path,
        )
        app = build_app(config, files_allowed=False)
        async with serving(app) as url, modern(url) as client:
            worker.always = worker.hold(asyncio.Event())
            params = {"name": "rerank", "arguments": CALL}
            created = (await client.ask("tools/call", params, alice))["result"]
            await until(lambda: len(worker.seen) == 1)
            task_id = created["taskId"]
            for method, more in {"get": {}, "cancel": {}, "update": {"inputResponses": {}}}.items():
                await refused(client, bob, f"tasks/{method}", taskId=task_id, **more)
                await turned_away(client, f"tasks/{method}", taskId=task_id, **more)
            assert worker.num_hung_up == 0
            answer = await client.ask("tasks/cancel", {"taskId": task_id}, alice)
            assert answer["result"]["resultType"] == "complete"
            await until(lambda: worker.num_hung_up == 1)

            worker.always = None
            arguments = {**MANY, "top_k": 100, "return_text": True}
            params = {"name": "rerank", "arguments": arguments}
            result = (await client.ask("tools/call", params, alice))["result"]
            if result["resultType"] == "task":
                asked = {"taskId": result["taskId"]}
                while "result" not in (
                    task := (await client.ask("tasks/get", asked, alice))["result"]
                ):
                    await asyncio.sleep(0.01)
                result = task["result"]
            uri = result["structuredContent"]["resource"]
            await refused(client, bob, "resources/read", uri=uri)
            await turned_away(client, "resources/read", uri=uri)
            read = await client.ask("resources/read", {"uri": uri}, alice)
            assert read["result"]["contents"]


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


async def test_a_task_of_which_nobody_says_that_it_runs_has_failed() -> None:
    clock = Clock()
    book = TaskBook(LocalStore(clock), ttl_s=3_600)
    record = book.new(new_id(), 0.0)
    await book.runs(record.task_id)
    await book.write(record, "alice", 0.0)
    clock.now_s = LEASE_S - 1
    assert (await book.read(record.task_id, "alice") or record).status == "working"
    await book.runs(record.task_id)
    clock.now_s = 2 * LEASE_S - 2
    assert (await book.read(record.task_id, "alice") or record).status == "working"
    clock.now_s = 2 * LEASE_S
    lost = await book.read(record.task_id, "alice")
    assert lost is not None and lost.status == "failed"
    assert lost.error is not None and "has ended" in lost.error["message"]


async def test_an_ended_task_is_kept_for_its_time_and_not_longer() -> None:
    clock = Clock()
    book = TaskBook(LocalStore(clock), ttl_s=60)
    record = book.new(new_id(), 0.0)
    record.status, record.result = "completed", {"content": []}
    clock.now_s = 100.0
    await book.write(record, "", 100.0)
    assert record.ttl_ms == 160_000
    clock.now_s = 159.9
    assert await book.read(record.task_id, "") is not None
    clock.now_s = 160.0
    assert await book.read(record.task_id, "") is None


async def test_ids_cannot_be_guessed_and_too_long_ones_are_not_looked_for() -> None:
    ids = {new_id() for _ in range(1_000)}
    assert len(ids) == 1_000 and all(len(one) == 32 for one in ids)
    assert await TaskBook(LocalStore(), ttl_s=1).read("x" * (MAX_ID_CHARS + 1), "") is None
