"""A real Envoy, the endpoint picker, and real workers with toy models behind them."""

import itertools
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import httpx2
import pytest

from sie_mcp.config import Config
from sie_mcp.gateway.endpoint_picker.app import build_picker
from sie_mcp.gateway.pool.pool import Pool
from tests.chart.rendering import program
from tests.cluster.conftest import Cluster, cluster
from tests.cluster.envoy import MODES, envoy
from tests.scripted_worker import until
from tests.servers import serving
from tests.toys import toy_vector

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

MODELS = [f"org/model-{number}" for number in range(6)]
each_mode = pytest.mark.parametrize("mode", MODES)


@pytest.fixture(autouse=True)
def has_envoy() -> None:
    """Skip before anything is started: a skip among tasks leaves them and their sockets behind."""
    program("envoy")


@dataclass
class Front:
    """Envoy before workers.

    Attributes:
        pages: The picker's own pages: figures and probes.
    """

    http: httpx2.AsyncClient
    pages: httpx2.AsyncClient
    pool: Pool
    found: Cluster

    async def encode(self, model: str, text: str = "x", **headers: str) -> httpx2.Response:
        body = {"items": [{"text": text}]}
        return await self.http.post(f"/v1/encode/{model}", json=body, headers=headers)

    @property
    def loads(self) -> list[list[str]]:
        return [list(one.loader.loads) for one in self.found.workers]

    @property
    def all_loads(self) -> list[str]:
        return list(itertools.chain(*self.loads))


@asynccontextmanager
async def front(tmp_path: Path, count: int, mode: str, **settings) -> AsyncIterator[Front]:
    async with cluster(tmp_path, count) as found:
        urls = tuple(one.url for one in found.workers)
        settings = {"workers": urls, "picker_port": 0, "picker_health_port": 0, **settings}
        # The port of one that stopped is closed, which is what connections are refused by.
        app = build_picker(Config(cache_dir=tmp_path, **settings))
        async with serving(app) as pages_url:
            port = app.state.ports.picker
            async with (
                envoy(tmp_path, port, urls, mode) as url,
                httpx2.AsyncClient(base_url=url, timeout=60) as http,
                httpx2.AsyncClient(base_url=pages_url, timeout=10) as pages,
            ):
                pool = app.state.pools.pools["default"]
                await until(lambda: sum(one.is_ready for one in pool.watch.known.values()) == count)
                yield Front(http, pages, pool, found)


@each_mode
async def test_requests_go_where_their_model_is_and_stay_there(tmp_path, mode):
    async with front(tmp_path, 3, mode) as it:
        for number in range(3):
            for model in MODELS:
                answer = await it.encode(model, text=f"text {number}")
                assert answer.status_code == 200, answer.text
                (item,) = answer.json()["items"]
                assert item["dense"]["values"] == pytest.approx(toy_vector(f"text {number}"))
        # Loaded once each, and by more than one worker.
        assert sorted(it.all_loads) == sorted(MODELS)
        assert sum(bool(one) for one in it.loads) >= 2


@pytest.mark.parametrize("mode", ["buffered", "both ways"])
async def test_a_model_that_only_the_body_names_is_routed_by_it(tmp_path, mode):
    async with front(tmp_path, 3, mode) as it:
        for _ in range(2):
            for model in MODELS[:4]:
                body = {"model": model, "input": ["x"]}
                answer = await it.http.post("/v1/embeddings", json=body)
                assert answer.status_code == 200, answer.text
        assert sorted(it.all_loads) == MODELS[:4]


async def test_a_body_of_many_parts_arrives_whole(tmp_path):
    async with front(tmp_path, 2, "both ways") as it:
        text = "many words " * 60_000
        answer = await it.encode("org/model", text=text)
        assert answer.status_code == 200, answer.text
        assert answer.json()["items"][0]["dense"]["values"] == pytest.approx(toy_vector(text))


@each_mode
async def test_nothing_is_counted_any_more_when_all_have_their_answers(tmp_path, mode):
    async with front(tmp_path, 2, mode) as it:
        async with anyio.create_task_group() as group:
            for number in range(20):
                group.start_soon(it.encode, MODELS[number % 3], f"{number}")
        await until(lambda: it.pool.demand.total() == 0)
        assert set(it.pool._in_flight.values()) <= {0}


@each_mode
async def test_a_request_counts_as_its_workers_until_it_is_answered(tmp_path, mode):
    async with front(tmp_path, 1, mode) as it:
        await it.encode("org/model")
        await until(lambda: it.pool.demand.total() == 0)
        gate = it.found.workers[0].loader.adapters["org/model"].gate = threading.Event()
        async with anyio.create_task_group() as group:
            group.start_soon(it.encode, "org/model", "held")
            await until(lambda: it.pool.demand.total() == 1)
            assert it.pool.num_wanted == 1
            gate.set()
        await until(lambda: it.pool.demand.total() == 0)


async def test_a_worker_that_is_gone_is_passed_over_for_the_next(tmp_path):
    async with front(tmp_path, 3, "buffered") as it:
        await it.encode("org/model")
        (holder,) = [one for one in it.found.workers if one.loader.loads]
        # Its last account still says that it is there and has the model.
        it.pool.watch.known[holder.url].is_looking = True
        await holder.stop()
        answer = await it.encode("org/model", text="again")
        assert answer.status_code == 200, answer.text
        assert len(it.all_loads) == 2
        assert holder.url in it.pool._ejections._records


async def test_without_a_worker_the_answer_is_503_and_when_to_come_back(tmp_path):
    async with front(tmp_path, 1, "buffered", pool_hold_s=0.2) as it:
        await it.found.workers[0].stop()
        known = it.pool.watch.known[it.found.workers[0].url]
        await until(lambda: not known.is_ready)
        answer = await it.encode("org/model")
        assert answer.status_code == 503
        assert answer.headers["X-SIE-Error-Code"] == "WORKER_UNAVAILABLE"
        assert int(answer.headers["Retry-After"]) >= 1
        assert "no worker of pool default was free" in answer.json()["error"]["message"]


async def test_more_than_may_wait_is_shed_with_429(tmp_path):
    async with front(tmp_path, 1, "buffered", max_pool_waiting=1, pool_hold_s=20.0) as it:
        await it.found.workers[0].stop()
        known = it.pool.watch.known[it.found.workers[0].url]
        await until(lambda: not known.is_ready)
        async with anyio.create_task_group() as group:
            group.start_soon(it.encode, "org/model")
            await until(lambda: it.pool.num_waiting == 1)
            # A scaler sees those that wait before proxies as it sees those of gateways.
            scale = (await it.pages.get("/internal/scale")).json()
            assert scale == {"pools": {"default": 1}}
            answer = await it.encode("org/model")
            assert answer.status_code == 429
            assert answer.headers["X-SIE-Error-Code"] == "QUEUE_FULL"
            group.cancel_scope.cancel()
        # Whoever waited hung up, and waits no more.
        await until(lambda: it.pool.num_waiting == 0)


async def test_only_workers_of_the_named_subset_are_picked(tmp_path):
    async with front(tmp_path, 3, "no body") as it:
        hosts = [one.url.removeprefix("http://") for one in it.found.workers]
        for place, host in enumerate(hosts):
            for model in MODELS[:3]:
                answer = await it.encode(model, **{"x-test-subset": host})
                assert answer.status_code == 200, answer.text
            assert sorted(it.loads[place]) == MODELS[:3]
        refused = await it.encode("org/model", **{"x-test-subset": "10.9.9.9:9000"})
        assert refused.status_code == 503


async def test_what_workers_would_trust_a_gateway_with_is_not_let_through(tmp_path):
    async with front(tmp_path, 1, "buffered") as it:
        for method, path in [
            ("GET", "/metrics"),
            ("POST", "/v1/models/org%2Fmodel/load"),
            ("POST", "/v1/%6dodels/org%2Fmodel/unload"),
            ("GET", "/v2/models"),
        ]:
            answer = await it.http.request(method, path)
            assert answer.status_code == 403, path
            assert answer.headers["X-SIE-Error-Code"] == "NOT_ALLOWED"
        local = await it.encode("%2Ftmp%2Fmodel", **{"X-SIE-Local-Models": "yes"})
        assert local.status_code == 403
        listed = await it.http.get("/v1/models")
        assert listed.status_code == 200


async def test_a_destination_that_a_caller_names_counts_for_nothing(tmp_path):
    async with front(tmp_path, 2, "buffered") as it:
        first = await it.encode("org/model")
        assert first.status_code == 200
        (other,) = [one.url for one in it.found.workers if not one.loader.loads]
        named = {"x-gateway-destination-endpoint": other.removeprefix("http://")}
        assert (await it.encode("org/model", **named)).status_code == 200
        assert it.all_loads == ["org/model"]
