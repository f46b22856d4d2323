"""Requests by a real broker: pulled by owners, answered once, and lost by nobody's death."""

import anyio
import numpy as np
import pytest

pytest.importorskip("nats")

from sie_mcp import metrics, wire
from sie_mcp.gateway.pool.keys import ranked
from tests.cluster.conftest import WAIT_S, until
from tests.cluster.queueing import app_client, broker, program, queue, result_of
from tests.toys import toy_vector

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]


def items(*texts: str) -> list[wire.Item]:
    return [wire.Item(text=text) for text in texts]


async def ask(client, model: str, text: str) -> None:
    """Ask once, and check the answer."""
    answer = await client.encode(model, items(text))
    assert answer.model == model
    assert np.array_equal(answer.items[0].dense.values, toy_vector(text))


async def ask_all(client, models: list[str], count: int) -> None:
    async with anyio.create_task_group() as group:
        for number in range(count):
            group.start_soon(ask, client, models[number % len(models)], f"text {number}")


async def submit_and_read(http, model: str, number: int, answers: list[str]) -> None:
    """Have a job run, and read its result."""
    text = f"text {number}"
    body = {"items": [{"text": text}]}
    told = await http.post(f"/v1/encode/{model}", json=body, headers={"Prefer": "respond-async"})
    assert told.status_code == 202
    answer = (await result_of(http, told.headers["Location"])).json()
    assert answer["items"][0]["dense"]["values"] == toy_vector(text).tolist()
    answers.append(text)


async def test_only_owners_pull_and_every_model_is_loaded_once(tmp_path):
    models = [f"org/model-{n}" for n in range(8)]
    async with queue(tmp_path, count=3) as found, found.gateway() as (endpoint, client):
        for _ in range(3):
            await ask_all(client, models, 24)
        loads = [model for one in found.workers for model in one.loader.loads]
        assert sorted(loads) == models
        assert sum(bool(one.loader.loads) for one in found.workers) >= 2
        # Nothing waits: a scaler may send the workers home.
        await until(lambda: endpoint.pools["default"].num_wanted == 0)


async def test_direct_and_queued_requests_share_owners_and_workers(tmp_path):
    async with queue(tmp_path, count=2) as found:
        async with found.gateway(queue_for="bulk") as (_, client):
            before = metrics.QUEUE_CALLS.labels("default", "answered")._value.get()
            await ask(client, "org/m", "alone")
            assert metrics.QUEUE_CALLS.labels("default", "answered")._value.get() == before
            many = await client.encode("org/m", items(*(f"{n}" for n in range(300))))
            assert metrics.QUEUE_CALLS.labels("default", "answered")._value.get() > before
            assert np.array_equal(many.items[299].dense.values, toy_vector("299"))
        assert [one.loader.loads for one in found.workers].count(["org/m"]) == 1


async def test_the_console_shows_pools_whose_workers_pull(tmp_path):
    async with queue(tmp_path, count=1) as found, app_client(found) as http:
        with anyio.fail_after(WAIT_S):
            while True:
                [pool] = (await http.get("/console/state")).json()["pools"]
                if pool["workers"] and pool["workers"][0]["is_ready"]:
                    break
        assert pool["name"] == "default"
        assert pool["waiting"] is not None


async def test_a_worker_that_is_killed_loses_nothing_and_nothing_is_answered_twice(tmp_path):
    held = tmp_path / "held"
    options = ("--forward-s", "0.3", "--held-by", str(held))
    async with queue(tmp_path, count=1) as found, program(found, *options) as victim:
        urls = (victim.url, found.workers[0].url)
        model = next(f"org/m{n}" for n in range(99) if ranked(f"org/m{n}", urls)[0] == victim.url)
        async with found.gateway(*urls, queue_for="bulk") as (endpoint, _):
            known = endpoint.pools["default"].watch.known
            answers: list[str] = []
            async with app_client(found, *urls) as http, anyio.create_task_group() as group:
                for number in range(40):
                    group.start_soon(submit_and_read, http, model, number, answers)
                await until(lambda: len(answers) >= 3)
                held.touch()
                await until(lambda: bool(known[victim.url].resident))
                assert not found.workers[0].loader.loads
                victim.kill()
        assert sorted(answers) == sorted(f"text {number}" for number in range(40))
        assert found.workers[0].loader.loads == [model]
        async with broker(found) as onlooker:
            assert await onlooker.backlog("default") == {}
