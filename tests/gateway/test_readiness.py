"""`/readyz` of a gateway: not ready where its only worker is gone, ready where one may be woken."""

import pytest

from sie_mcp import metrics
from sie_mcp.connection import Connections, FixedEndpoint
from sie_mcp.gateway import readiness
from sie_mcp.gateway.readiness import LOST_AFTER_S, OneAddress
from tests.gateway.front import gateway
from tests.scripted_worker import ScriptedWorker

pytestmark = pytest.mark.anyio
DEAD = "http://127.0.0.1:9"


def ready_workers(pool: str) -> float | None:
    return metrics.REGISTRY.get_sample_value("sie_pool_workers", {"pool": pool, "state": "ready"})


async def test_a_gateway_whose_only_worker_never_answered_is_not_ready():
    async with gateway(worker_url=DEAD) as front:
        answer = await front.http.get("/readyz")
        assert answer.status_code == 503
        assert answer.json() == {
            "status": "no worker",
            "pools": {"worker": {"known": 1, "ready": 0}},
        }
        assert ready_workers("worker") == 0
        assert (await front.http.get("/healthz")).status_code == 200
        assert (
            'sie_pool_workers{pool="worker",state="ready"} 0.0'
            in (await front.http.get("/metrics")).text
        )


async def test_the_first_probe_waits_for_the_first_look():
    async with gateway() as front:
        answer = await front.http.get("/readyz")
        assert answer.status_code == 200
        assert answer.json() == {"status": "ready", "pools": {"worker": {"known": 1, "ready": 1}}}
        assert ready_workers("worker") == 1


@pytest.mark.parametrize(
    "settings",
    [
        {"workers": (DEAD, "http://127.0.0.1:10")},
        {"workers": ("dns://localhost:9",)},
    ],
)
async def test_pools_may_sleep_and_say_what_there_is(settings):
    async with gateway(worker_url=None, **settings) as front:
        answer = await front.http.get("/readyz")
        assert answer.status_code == 200
        assert answer.json()["status"] == "ready"
        assert answer.json()["pools"]["default"]["ready"] == 0


async def test_a_local_worker_is_started_by_who_asks(tmp_path):
    async with gateway(worker_url=None, runtime_dir=tmp_path / "run") as front:
        answer = await front.http.get("/readyz")
        assert (answer.status_code, answer.json()) == (200, {"status": "ready", "pools": {}})


async def test_a_worker_that_restarts_has_as_long_as_requests_wait_for_it():
    now_s = 100.0
    worker = ScriptedWorker()
    async with worker.running() as url:
        made = OneAddress(FixedEndpoint(url), Connections(timeout_s=5), clock=lambda: now_s)
        await made.look()
        assert not await made.is_lost()
    now_s += LOST_AFTER_S - 1
    await made.look()
    assert made.counts() == {"worker": {"known": 1, "ready": 0}}
    assert ready_workers("worker") == 0
    assert not await made.is_lost()
    now_s += 2
    assert await made.is_lost()
    await made.aclose()


async def test_a_worker_that_is_not_there_is_told_of_once(caplog):
    made = OneAddress(FixedEndpoint(DEAD), Connections(timeout_s=5))
    for _ in range(3):
        await made.look()
    assert caplog.text.count("does not answer") == 1
    await made.aclose()


async def test_it_is_back_at_the_first_look_that_finds_it(caplog):
    caplog.set_level("INFO")
    worker = ScriptedWorker()
    async with worker.running() as url:
        made = OneAddress(FixedEndpoint(url), Connections(timeout_s=5))
        for _ in range(3):
            await made.look()
        assert not await made.is_lost()
        assert caplog.text.count(" answers") == 1
        await made.aclose()


@pytest.mark.parametrize(
    ("status", "state", "is_lost"),
    [(503, "preloading", False), (503, "draining", True), (404, "nothing", True)],
)
async def test_what_a_worker_says_of_itself_counts(status, state, is_lost):
    worker = ScriptedWorker()
    worker.ready = (status, state)
    async with worker.running() as url:
        made = OneAddress(FixedEndpoint(url), Connections(timeout_s=5))
        await made.look()
        assert await made.is_lost() == is_lost
        await made.aclose()


async def test_a_look_that_does_not_end_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(readiness, "FIRST_LOOK_S", 0.01)
    made = OneAddress(FixedEndpoint(DEAD), Connections(timeout_s=5))
    assert await made.is_lost()
    await made.aclose()
