"""A gateway before real workers: affinity, workers that die, leave, join; and what nobody loses."""

import itertools
import random
import threading
from collections import Counter
from functools import partial

import anyio
import httpx2
import numpy as np
import pytest

from sie_mcp import wire
from sie_mcp.config import Config
from sie_mcp.connection import Address
from sie_mcp.gateway.app import build_app
from sie_mcp.gateway.pool.members import ListedMembers
from tests.cluster.conftest import WAIT_S, Cluster, cluster, until
from tests.servers import serving
from tests.toys import toy_vector

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

MODELS = [f"org/model-{n}" for n in range(12)]
WEIGHTS = list(itertools.accumulate(1 / (place + 1) for place in range(len(MODELS))))


async def traffic(
    cluster: Cluster,
    requests: int,
    *,
    clients: int = 16,
    seed: int = 0,
    done: Counter | None = None,
) -> Counter:
    """Ask for models by Zipf's law and check every answer; return requests by model.

    What was answered is counted in `done` meanwhile.
    """
    rng = random.Random(seed)
    asked = rng.choices(MODELS, cum_weights=WEIGHTS, k=requests)
    todo = iter(enumerate(asked))

    async def call() -> None:
        for number, model in todo:
            text = f"text {seed} {number}"
            answer = await cluster.client.encode(model, [wire.Item(text=text)])
            assert answer.model == model
            assert np.array_equal(answer.items[0].dense.values, toy_vector(text))
            if done is not None:
                done[model] += 1

    async with anyio.create_task_group() as group:
        for _ in range(clients):
            group.start_soon(call)
    return Counter(asked)


async def test_a_model_is_loaded_once_and_asked_for_where_it_is(tmp_path):
    async with cluster(tmp_path, 6) as found:
        asked = await traffic(found, 600)
        assert found.num_loads <= 1.2 * len(asked)
        # And the work is spread.
        assert sum(bool(worker.loader.loads) for worker in found.workers) >= 3


async def test_workers_that_die_under_load_lose_nobodys_request(tmp_path):
    async with cluster(tmp_path, 4, models_each=8) as found:
        await traffic(found, 100)
        done: Counter[str] = Counter()
        async with anyio.create_task_group() as group:
            group.start_soon(partial(traffic, found, 400, done=done))
            await until(lambda: done.total() >= 40)
            await found.workers[0].stop()
            await until(lambda: done.total() >= 120)
            await found.workers[1].stop()
        before = found.num_loads
        await traffic(found, 200, seed=1)
        # What they had was loaded by the others, once each.
        assert found.num_loads - before <= len(MODELS)


async def test_a_worker_that_drains_is_given_nothing_new(tmp_path):
    async with cluster(tmp_path, 3, models_each=8) as found:
        await traffic(found, 60)
        leaving = found.workers[0]
        done: Counter[str] = Counter()
        async with anyio.create_task_group() as group:
            group.start_soon(partial(traffic, found, 300, done=done))
            await until(lambda: done.total() >= 60)
            leaving.activity.is_draining = True
        pool = found.pools.pools["default"]
        await until(lambda: not pool.watch.known[leaving.url].is_ready)
        was = leaving.activity.last_s
        await traffic(found, 60, seed=2)
        assert leaving.activity.last_s == was


async def test_a_worker_that_joins_takes_its_share(tmp_path):
    async with cluster(tmp_path, 3, models_each=8) as found:
        pool = found.pools.pools["default"]
        urls = [worker.url for worker in found.workers]
        pool.watch._members = ListedMembers(urls[:2])
        await until(lambda: len(pool.watch.known) == 2)
        await traffic(found, 60)
        assert not found.workers[2].loader.loads
        pool.watch._members = ListedMembers(urls)
        known = pool.watch.known
        await until(lambda: urls[2] in known and known[urls[2]].is_ready)
        for number in range(200):
            await found.client.encode(f"org/new-{number}", [wire.Item(text="x")])
            if found.workers[2].loader.loads:
                break
        assert found.workers[2].loader.loads


async def test_a_slow_worker_holds_up_its_own_models_only(tmp_path):
    async with cluster(tmp_path, 3, slots=2) as found:
        await traffic(found, 100)
        slow = found.workers[0]
        held = set(slow.loader.adapters)
        others = {name for one in found.workers[1:] for name in one.loader.adapters} - held
        gates = []
        for adapter in slow.loader.adapters.values():
            adapter.gate = threading.Event()
            gates.append(adapter.gate)
        async with anyio.create_task_group() as group:
            for model in held:
                group.start_soon(found.client.encode, model, [wire.Item(text="slow")])
            with anyio.fail_after(WAIT_S):
                for model in others:
                    await found.client.encode(model, [wire.Item(text="fast")])
            for gate in gates:
                gate.set()


async def test_a_pool_that_sleeps_answers_when_it_wakes(tmp_path):
    async with cluster(tmp_path, 1) as found:
        pool = found.pools.pools["default"]
        url = found.workers[0].url
        pool.watch._members = ListedMembers([])
        await until(lambda: not pool.watch.known)
        heard: list[str] = []

        async def progress(done: int, total: int, message: str) -> None:
            heard.append(message)
            pool.watch._members = ListedMembers([url])

        with anyio.fail_after(WAIT_S):
            answer = await found.client.encode(MODELS[0], [wire.Item(text="x")], progress=progress)
        assert answer.items[0].dense is not None
        assert heard
        assert heard[0].startswith("the worker is starting")


async def test_addresses_are_those_of_the_workers(tmp_path):
    async with cluster(tmp_path, 2) as found:
        known = found.pools.pools["default"].watch.known
        assert {one.address for one in known.values()} == {
            Address(worker.url) for worker in found.workers
        }


async def test_a_gateway_over_http_routes_by_model_and_tells_a_scaler(tmp_path):
    async with cluster(tmp_path, 3) as found:
        workers = tuple(worker.url for worker in found.workers)
        app = build_app(Config(workers=workers, cache_dir=tmp_path), files_allowed=False)
        async with serving(app) as url, httpx2.AsyncClient(base_url=url, timeout=WAIT_S) as http:
            held = []
            for number in range(9):
                body = {"items": [{"text": f"{number}"}]}
                answer = await http.post(f"/v1/encode/{MODELS[number % 3]}", json=body)
                assert answer.status_code == 200
                assert answer.headers["X-SIE-Model"] == MODELS[number % 3]
                held.append(found.num_loads)
            assert held[-1] == 3
            scale = (await http.get("/internal/scale")).json()
            assert scale == {"pools": {"default": 1}}
            listed = (await http.get("/v1/models")).json()
            assert {"toy"} <= {model["name"] for model in listed["models"]}
            wrong = await http.post(
                "/v1/encode/m", json={"items": []}, headers={"X-SIE-Pool": "h100"}
            )
            assert (wrong.status_code, wrong.headers["X-SIE-Error-Code"]) == (400, "INVALID_INPUT")
