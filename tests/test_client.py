"""The client of the engine, over a real socket: lists, order, errors, retries, cancellation."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request
from starlette.responses import Response

from sie_mcp import wire
from sie_mcp.chunks import CHUNK_CHARS, CHUNK_ITEMS, chunks
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
    WorkerUnavailable,
    error_classes,
)
from sie_mcp.retry import LOAD_PAUSE_S, Patience
from tests.scripted_worker import ScriptedWorker, answers, fails_with, until, vector_of

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def worker() -> ScriptedWorker:
    return ScriptedWorker()


@pytest.fixture
async def client(worker: ScriptedWorker) -> AsyncIterator[EngineClient]:
    async with worker.running() as url:
        engine = EngineClient(FixedEndpoint(url), load_wait_s=0.3, timeout_s=10.0)
        yield engine
        await engine.aclose()


class Endpoints:
    """An endpoint that gives one address after another, the last for ever."""

    def __init__(self, *urls: str) -> None:
        self._urls = list(urls)
        self.lost_urls: list[str] = []

    async def address(self) -> Address:
        return Address(self._urls.pop(0) if len(self._urls) > 1 else self._urls[0])

    async def lost(self, address: Address) -> None:
        self.lost_urls.append(address.base_url)


class SlowEndpoint:
    """An endpoint whose worker starts when the gate opens."""

    def __init__(self, url: str) -> None:
        self.gate = asyncio.Event()
        self._url = url

    async def address(self) -> Address:
        await self.gate.wait()
        return Address(self._url)

    async def lost(self, address: Address) -> None:
        raise AssertionError("nothing is lost here")


class News:
    """Progress that was reported."""

    def __init__(self) -> None:
        self.heard: list[tuple[int, int, str]] = []

    async def __call__(self, done: int, total: int, message: str) -> None:
        self.heard.append((done, total, message))


def items(*texts: str) -> list[wire.Item]:
    return [wire.Item(text=text) for text in texts]


def numbered(count: int) -> list[wire.Item]:
    return items(*[str(number) for number in range(count)])


# Lists.


async def test_a_long_list_is_sent_in_chunks_and_answered_in_order(client, worker):
    answer = await client.encode("toy", numbered(300))
    assert sorted(len(seen.texts) for seen in worker.seen) == [300 - 2 * CHUNK_ITEMS, 128, 128]
    vectors = [item.dense.values.tolist() for item in answer.items]
    assert vectors == [vector_of(str(number)) for number in range(300)]
    assert answer.usage.input_tokens == 300


async def test_order_does_not_depend_on_which_chunk_is_answered_first(client, worker):
    gate = asyncio.Event()
    worker.script = [worker.hold(gate)]
    async with anyio.create_task_group() as group:

        async def call() -> None:
            answer = await client.extract("toy", numbered(300))
            texts = [item.entities[0].text for item in answer.items]
            assert texts == [str(number) for number in range(300)]

        group.start_soon(call)
        await until(lambda: len(worker.seen) == 3)
        gate.set()


async def test_scores_of_all_chunks_are_ranked_together(client):
    scored = [wire.Item(id=f"my-{n}" if n % 2 else None, text=str(n % 150)) for n in range(300)]
    answer = await client.score("toy", wire.Item(text="q"), scored)
    assert [score.rank for score in answer.scores] == list(range(300))
    # The highest first, ties by place.
    expected = sorted(range(300), key=lambda n: (-(n % 150), n))
    assert [score.index for score in answer.scores] == expected
    for score in answer.scores:
        assert score.item_id == (scored[score.index].id or f"item-{score.index}")


async def test_an_item_without_a_score_ranks_last(client, worker):
    error = wire.ItemError(code="INFERENCE_ERROR", message="no")
    scores = [
        wire.Score(item_id="item-0", index=0, score=None, rank=1, error=error),
        wire.Score(item_id="item-1", index=1, score=-5.0, rank=0),
    ]
    body = wire.ScoreResponse(model="toy", scores=scores, score_type="logit")
    worker.script = [answers(body.model_dump_json(), content_type="application/json")]
    answer = await client.score("toy", wire.Item(text="q"), numbered(2))
    assert [score.index for score in answer.scores] == [1, 0]
    assert answer.scores[1].error == error


async def test_progress_counts_items_and_a_short_last_chunk_exactly(client):
    news = News()
    await client.encode("toy", numbered(300), progress=news)
    done = [done for done, _, _ in news.heard]
    assert done == sorted(done)
    assert done[-1] == 300
    assert {total for _, total, _ in news.heard} == {300}


async def test_a_list_of_one_chunk_reports_no_progress(client):
    news = News()
    await client.encode("toy", numbered(CHUNK_ITEMS), progress=news)
    assert news.heard == []


@pytest.mark.parametrize("primitive", ["encode", "extract", "score"])
async def test_an_empty_list_is_refused_before_anything_is_sent(client, worker, primitive):
    with pytest.raises(InvalidInput, match="items is empty; send at least one"):
        if primitive == "score":
            await client.score("toy", wire.Item(text="q"), [])
        else:
            await (client.encode if primitive == "encode" else client.extract)("toy", [])
    assert worker.seen == []


@given(sizes=st.lists(st.integers(0, CHUNK_CHARS + 5), min_size=1, max_size=400))
def test_chunks_hold_every_item_once_and_keep_both_limits(sizes):
    # Real texts of this size would be slow, and only their length counts.
    sized = [wire.Item.model_construct(text=range(size)) for size in sizes]
    cut = chunks(sized)
    assert [item for chunk in cut for item in chunk] == sized
    for chunk in cut:
        assert 1 <= len(chunk) <= CHUNK_ITEMS
        assert len(chunk) == 1 or sum(len(item.text) for item in chunk) <= CHUNK_CHARS


async def test_the_first_failure_ends_the_other_chunks(client, worker):
    gate = asyncio.Event()
    hold = worker.hold(gate)

    async def fail_last(request: Request) -> Response | None:
        if len(worker.seen) < 3:
            return await hold(request)
        return await fails_with(InvalidInput("items[3].text is empty"))(request)

    worker.always = fail_last
    with pytest.raises(InvalidInput, match=r"items\[3\]"):
        await client.encode("toy", numbered(300))
    await until(lambda: worker.num_hung_up == 2)


# Names.


@pytest.mark.parametrize(
    "name",
    ["org/name", "/abs/path", "a b", "a?b#c", "100%", "a%2Fb", "ä/ü", "x/../y", "..", "c:\\d"],
)
async def test_a_model_keeps_its_name_on_its_way(client, worker, name):
    await client.encode(name, numbered(1))
    assert worker.seen[0].model == name
    assert worker.seen[0].path.startswith("/v1/encode/")


async def test_a_relative_path_is_relative_to_this_process(client, worker, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    await client.encode("./models/mine", numbered(1))
    assert worker.seen[0].model == str(tmp_path / "models" / "mine")


async def test_models_are_listed_and_described(client):
    assert [card.name for card in (await client.models()).models] == ["toy"]
    assert (await client.model("toy")).labels == ["name"]


async def test_a_worker_is_reached_over_a_unix_socket(worker, tmp_path_factory):
    socket = Path(tmp_path_factory.mktemp("s")) / "w"

    class Local:
        async def address(self) -> Address:
            return Address("http://worker", uds=str(socket))

        async def lost(self, address: Address) -> None:
            raise AssertionError("nothing is lost here")

    async with worker.running(uds=socket):
        engine = EngineClient(Local())
        assert len((await engine.encode("toy", numbered(2))).items) == 2
        await engine.aclose()


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


async def test_a_load_is_waited_for_and_told_of(client, worker):
    worker.script = [fails_with(ModelLoading("loading toy: 40 %"))] * 3
    news = News()
    answer = await client.encode("toy", numbered(1), progress=news)
    assert len(answer.items) == 1
    assert [message for _, _, message in news.heard] == ["loading toy: 40 % (0 s)"] * 3
    waits = [float(seen.headers["x-sie-load-wait"]) for seen in worker.seen]
    assert all(0 < wait <= 0.3 for wait in waits)
    assert waits == sorted(waits, reverse=True)


async def test_a_load_that_lasts_longer_than_the_wait_is_said(client, worker):
    worker.always = fails_with(ModelLoading("loading toy"), retry_after="2")
    with anyio.fail_after(5), pytest.raises(ModelLoading, match="loading toy") as raised:
        await client.encode("toy", numbered(1))
    assert raised.value.retry_after_s == 2.0


async def test_a_worker_that_starts_slowly_is_joined_by_the_next_call(worker, monkeypatch):
    monkeypatch.setattr("sie_mcp.client.NEWS_EVERY_S", 0.02)
    async with worker.running() as url:
        endpoint, news = SlowEndpoint(url), News()
        engine = EngineClient(endpoint, load_wait_s=0.1)
        with pytest.raises(ModelLoading, match="the worker is starting"):
            await engine.encode("toy", numbered(1), progress=news)
        assert len(news.heard) >= 2
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
        with pytest.raises(WorkerUnavailable, match="stopped answering"):
            await engine.models()
        assert len(endpoint.lost_urls) == 3
        await engine.aclose()


@pytest.mark.parametrize(
    ("error", "cls"),
    [
        (httpx2.ConnectError("refused"), WorkerUnavailable),
        (httpx2.ConnectTimeout("late"), WorkerUnavailable),
        (httpx2.RemoteProtocolError("closed"), WorkerUnavailable),
        (httpx2.ReadError("reset"), WorkerUnavailable),
        (httpx2.ReadTimeout("late"), DeadlineExceeded),
        (httpx2.WriteTimeout("late"), DeadlineExceeded),
        (httpx2.PoolTimeout("late"), QueueFull),
    ],
)
def test_a_silent_worker_is_busy_and_a_broken_one_lost(error, cls):
    assert type(connection_error(error, Address("http://w"))) is cls


async def test_a_cancelled_call_hangs_up(client, worker):
    worker.always = worker.hold(asyncio.Event())
    async with anyio.create_task_group() as group:
        group.start_soon(client.encode, "toy", numbered(300))
        await until(lambda: len(worker.seen) == 3)
        group.cancel_scope.cancel()
    await until(lambda: worker.num_hung_up == 3)
    worker.always = None
    assert (await client.models()).models


async def test_an_unknown_model_is_not_found(client, worker):
    worker.script = [fails_with(ModelNotFound("no model 'x'; known: toy"))]
    with pytest.raises(ModelNotFound, match="known: toy"):
        await client.model("x")


class dying_worker:  # noqa: N801 (reads as a context manager)
    """A worker that dies when it has read the beginning of a request."""

    async def __aenter__(self) -> str:
        async def die(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readline()
            writer.transport.abort()

        self._server = await asyncio.start_server(die, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()
        return f"http://{host}:{port}"

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await self._server.wait_closed()
