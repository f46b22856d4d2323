"""The client of the engine when something fails: typed errors, retries, loads, lost workers."""

import re
from functools import partial

import anyio
import httpx2
import pytest

from sie_mcp import wire
from sie_mcp.client import EngineClient
from sie_mcp.connection import Address, FixedEndpoint, connection_error
from sie_mcp.errors import (
    BodyTooLarge,
    DeadlineExceeded,
    InferenceError,
    InvalidInput,
    ModelLoading,
    ModelNotFound,
    OutOfMemory,
    QueueFull,
    SieError,
    WorkerLost,
    WorkerUnavailable,
    error_classes,
)
from sie_mcp.retry import LOAD_PAUSE_S, Patience
from tests.client.rig import Endpoints, News, SlowEndpoint, dying_worker, numbered
from tests.scripted_worker import answers, fails_with, until

pytestmark = pytest.mark.anyio


# Errors.


@pytest.mark.parametrize("media_type", ["application/json", "application/msgpack"])
@pytest.mark.parametrize(
    "code", sorted(code for code, cls in error_classes().items() if not cls.retryable)
)
async def test_every_error_comes_back_as_its_own_type_at_once(client, worker, code, media_type):
    cls = error_classes()[code]
    worker.script = [fails_with(cls("what is wrong"), media_type=media_type)]
    with pytest.raises(cls, match="what is wrong") as raised:
        await client.encode("toy", numbered(1))
    assert type(raised.value) is cls
    assert len(worker.seen) == 1


@pytest.mark.parametrize(
    ("status", "cls", "num_sent"),
    [
        (404, InvalidInput, 1),
        (413, BodyTooLarge, 1),
        (500, SieError, 1),
        (502, WorkerUnavailable, 3),
        (504, DeadlineExceeded, 1),
    ],
)
async def test_an_ingress_that_knows_nothing_of_us_gives_a_typed_error(
    client, worker, status, cls, num_sent
):
    worker.always = answers("<html>", status, content_type="text/html", retry_after="0.1")
    with pytest.raises(cls, match=f"status {status}") as raised:
        await client.encode("toy", numbered(1))
    assert type(raised.value) is cls
    assert len(worker.seen) == num_sent


@pytest.mark.parametrize("retry_after", [None, "Wed, 21 Oct 2026 07:28:00 GMT", "-3", "1"], ids=str)
async def test_any_retry_after_can_be_read(client, worker, retry_after):
    worker.always = fails_with(ModelLoading("loading toy"), retry_after=retry_after)
    with pytest.raises(ModelLoading) as raised:
        await client.encode("toy", numbered(1))
    assert raised.value.retry_after_s in (0.0, 1.0)


@pytest.mark.parametrize(
    ("content", "content_type"),
    [
        (b"hello", "text/plain"),
        (b"{", "application/json"),
        (b"\xc1", "application/msgpack"),
        (b'{"models": 3}', "application/json"),
        (b"[]", "application/json"),
    ],
)
async def test_an_answer_that_is_not_a_workers_is_a_typed_error(
    client, worker, content, content_type
):
    worker.script = [answers(content, content_type=content_type)]
    with pytest.raises(SieError, match="is it a sie-mcp worker of this version"):
        await client.models()


@pytest.mark.parametrize("indices", [[0], [0, 0], [0, 2], [0, 1, 2]])
async def test_an_answer_must_have_one_entry_an_item(client, worker, indices):
    scores = [wire.Score(item_id="", index=one, score=0.0, rank=0) for one in indices]
    body = wire.ScoreResponse(model="toy", scores=scores, score_type="logit")
    worker.script = [answers(body.model_dump_json(), content_type="application/json")]
    with pytest.raises(InferenceError, match="for 2 items"):
        await client.score("toy", wire.Item(text="q"), numbered(2))


# Retries.


@pytest.mark.parametrize("cls", [QueueFull, OutOfMemory, WorkerUnavailable])
async def test_what_may_pass_is_tried_again(client, worker, cls):
    worker.script = [fails_with(cls("not now"), retry_after="0.01")] * 2
    assert len((await client.encode("toy", numbered(1))).items) == 1
    assert len(worker.seen) == 3


async def test_a_passed_deadline_is_not_tried_again(client, worker):
    worker.always = fails_with(DeadlineExceeded("too late"), retry_after="0.01")
    with pytest.raises(DeadlineExceeded):
        await client.encode("toy", numbered(1))
    assert len(worker.seen) == 1


async def test_pauses_double_up_to_a_limit_and_each_kind_has_its_own_tries():
    patience = Patience(load_wait_s=20.0)
    full = QueueFull("full", retry_after_s=1.0)
    assert [patience.pause_s(full) for _ in range(3)] == [1.0, 2.0, 4.0]
    # Polls of a load do not use up the tries of anything else.
    assert patience.pause_s(ModelLoading("loading")) == LOAD_PAUSE_S
    assert patience.pause_s(WorkerUnavailable("gone", retry_after_s=0.5)) == 0.5
    assert [patience.pause_s(full) for _ in range(3)] == [5.0, 5.0, None]


async def test_a_worker_that_was_lost_is_waited_for_once(monkeypatch):
    now_s = 0.0
    monkeypatch.setattr("sie_mcp.retry.anyio.current_time", lambda: now_s)
    patience = Patience(load_wait_s=30.0)
    assert patience.pause_s(WorkerLost("gone", retry_after_s=0.1)) == 0.1
    gone = WorkerUnavailable("cannot be reached", retry_after_s=1.0)
    while (pause_s := patience.pause_s(gone)) is not None:
        now_s += pause_s
    assert 30.0 <= now_s < 35.0


async def test_a_load_is_waited_for_and_told_of(url, worker, monkeypatch):
    monkeypatch.setattr("sie_mcp.client.sending.NEWS_EVERY_S", 60.0)
    worker.script = [fails_with(ModelLoading("loading toy: 40 %"))] * 3
    news, client = News(), EngineClient(FixedEndpoint(url), load_wait_s=60.0)
    answer = await client.encode("toy", numbered(1), progress=news)
    await client.aclose()
    assert len(answer.items) == 1
    told = [message for _, _, message in news.heard]
    assert len(told) == 3
    assert all(re.fullmatch(r"loading toy: 40 % \(\d+ s\)", one) for one in told)
    waits = [float(seen.headers["x-sie-load-wait"]) for seen in worker.seen]
    assert all(0 < wait <= 60.0 for wait in waits)
    assert waits == sorted(waits, reverse=True)
    assert waits[-1] < waits[0]


async def test_a_load_that_lasts_longer_than_the_wait_is_said(client, worker):
    worker.always = fails_with(ModelLoading("loading toy"), retry_after="2")
    with anyio.fail_after(30), pytest.raises(ModelLoading, match="loading toy") as raised:
        await client.encode("toy", numbered(1))
    assert raised.value.retry_after_s == 2.0


async def test_a_worker_that_starts_slowly_is_joined_by_the_next_call(worker, monkeypatch):
    monkeypatch.setattr("sie_mcp.finding.NEWS_EVERY_S", 0.02)
    async with worker.running() as url:
        endpoint, news = SlowEndpoint(url), News()
        engine = EngineClient(endpoint, load_wait_s=60.0)
        async with anyio.create_task_group() as group:
            group.start_soon(partial(engine.encode, "toy", numbered(1), progress=news))
            await until(lambda: len(news.heard) >= 2)
            group.cancel_scope.cancel()
        await engine.aclose()
        engine = EngineClient(endpoint, load_wait_s=0.3)
        with pytest.raises(ModelLoading, match="the worker is starting"):
            await engine.encode("toy", numbered(1))
        assert worker.seen == []
        endpoint.gate.set()
        assert len((await engine.encode("toy", numbered(1))).items) == 1
        await engine.aclose()


# Connections.


async def test_nobody_at_the_address_is_said_with_the_address():
    endpoint = Endpoints("http://127.0.0.1:9")
    engine = EngineClient(endpoint)
    with pytest.raises(WorkerUnavailable, match=r"the worker at http://127.0.0.1:9 cannot be"):
        await engine.models()
    assert endpoint.lost_urls == ["http://127.0.0.1:9"] * 3
    await engine.aclose()


async def test_a_call_survives_the_death_of_its_worker(worker):
    """The first worker dies in mid-call; the call is repeated on the next one."""
    async with dying_worker() as dead_url, worker.running() as url:
        endpoint = Endpoints(dead_url, url)
        engine = EngineClient(endpoint)
        answer = await engine.encode("toy", numbered(300))
        assert [item.dense.values[0] for item in answer.items] == [float(n) for n in range(300)]
        assert endpoint.lost_urls == [dead_url]
        await engine.aclose()


async def test_a_request_that_kills_every_worker_is_given_up():
    async with dying_worker() as url:
        endpoint = Endpoints(url)
        engine = EngineClient(endpoint)
        with pytest.raises(InferenceError, match="ended 2 times while it ran this request"):
            await engine.encode("toy", numbered(1))
        assert len(endpoint.lost_urls) == 2
        await engine.aclose()


@pytest.mark.parametrize(
    ("error", "cls"),
    [
        (httpx2.ConnectError("refused"), WorkerUnavailable),
        (httpx2.ConnectTimeout("late"), WorkerUnavailable),
        (httpx2.RemoteProtocolError("closed"), WorkerLost),
        (httpx2.ReadError("reset"), WorkerLost),
        (httpx2.ReadTimeout("late"), DeadlineExceeded),
        (httpx2.WriteTimeout("late"), DeadlineExceeded),
        (httpx2.PoolTimeout("late"), QueueFull),
    ],
)
def test_a_silent_worker_is_busy_and_a_broken_one_lost(error, cls):
    assert type(connection_error(error, Address("http://w"))) is cls


async def test_an_unknown_model_is_not_found(client, worker):
    worker.script = [fails_with(ModelNotFound("no model 'x'; known: toy"))]
    with pytest.raises(ModelNotFound, match="known: toy"):
        await client.model("x")
