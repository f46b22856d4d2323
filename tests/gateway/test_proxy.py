"""`/v1` of a gateway: handed on as it is, streamed, cancelled, limited."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from sie_mcp import retry
from sie_mcp.connection import Connections
from sie_mcp.errors import QueueFull, WorkerLost, WorkerUnavailable
from sie_mcp.gateway import deadline, proxy
from sie_mcp.gateway.proxy import SMALL_BYTES
from tests.fragile_worker import FragileWorker
from tests.gateway.front import ITEMS, gateway
from tests.scripted_worker import answers, fails_with, until

pytestmark = pytest.mark.anyio


async def test_a_request_and_its_answer_are_handed_on_as_they_are(front):
    front.worker.script = [answers(b"\x00\xff", 418, x_custom="1", content_type="image/x")]
    answer = await front.http.post(
        "/v1/encode/toy?a=1&b=%20", content=b'{"items": []}', headers={"X-SIE-Load-Wait": "3"}
    )
    assert (answer.status_code, answer.content) == (418, b"\x00\xff")
    assert answer.headers["x-custom"] == "1"
    assert answer.headers["content-type"] == "image/x"
    (seen,) = front.worker.seen
    assert seen.headers["x-sie-load-wait"] == "3"
    assert seen.body == {"items": []}


@pytest.mark.parametrize(
    ("path", "model"),
    [
        ("org/name", "org/name"),
        ("/abs/path", "/abs/path"),
        ("a%3Fb%23c", "a?b#c"),
        ("a%252Fb", "a%2Fb"),
        ("%C3%A4", "ä"),
        ("%2E%2E/%2E%2E/readyz", "../../readyz"),
    ],
)
async def test_a_models_name_survives_the_hand_over(front, path, model):
    assert (await front.http.post(f"/v1/encode/{path}", json=ITEMS)).status_code == 200
    assert front.worker.seen[0].model == model


async def test_headers_of_one_connection_stay_there(front):
    headers = {"Connection": "keep-alive, X-Private", "X-Private": "1", "TE": "trailers"}
    await front.http.post("/v1/encode/toy", json=ITEMS, headers=headers)
    (seen,) = front.worker.seen
    assert not {"x-private", "te"} & set(seen.headers)
    assert seen.headers["host"] != front.url.removeprefix("http://")


async def test_a_workers_error_arrives_with_its_headers(front):
    front.worker.script = [fails_with(QueueFull("the queue is full"), retry_after="7")]
    answer = await front.http.post("/v1/encode/toy", json=ITEMS)
    assert answer.status_code == 503
    assert answer.json()["error"] == {"code": "QUEUE_FULL", "message": "the queue is full"}
    assert answer.headers["x-sie-error-code"] == "QUEUE_FULL"
    assert answer.headers["retry-after"] == "7"


async def test_an_answer_is_streamed(front):
    """The first part arrives while the worker still holds the second."""
    gate = asyncio.Event()

    async def parts() -> AsyncIterator[bytes]:
        yield b"first"
        await gate.wait()
        yield b"second"

    async def stream(_: Request) -> Response:
        return StreamingResponse(parts())

    front.worker.script = [stream]
    async with front.http.stream("POST", "/v1/encode/toy", json=ITEMS) as answer:
        received = answer.aiter_raw()
        assert await anext(received) == b"first"
        gate.set()
        assert await anext(received) == b"second"


@pytest.mark.parametrize("size", [10, 2 * SMALL_BYTES])
async def test_an_answers_length_is_handed_on_where_it_is_known(front, size):
    front.worker.script = [answers(bytes(size))]
    answer = await front.http.post("/v1/encode/toy", json=ITEMS)
    assert answer.headers["content-length"] == str(size)
    assert answer.content == bytes(size)


async def test_the_workers_work_ends_when_the_caller_hangs_up(front):
    front.worker.always = front.worker.hold(asyncio.Event())
    call = asyncio.create_task(front.http.post("/v1/encode/toy", json=ITEMS))
    await until(lambda: len(front.worker.seen) == 1)
    call.cancel()
    await until(lambda: front.worker.num_hung_up == 1)


@pytest.mark.parametrize("is_chunked", [False, True])
async def test_a_body_over_the_limit_is_refused_with_the_limit(is_chunked):
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield b"x" * 1_000

    async with gateway(max_body_bytes=2_000) as front:
        content = pieces() if is_chunked else b"x" * 3_000
        answer = await front.http.post("/v1/encode/toy", content=content)
        assert answer.status_code == 413
        assert answer.json()["error"]["code"] == "BODY_TOO_LARGE"
        assert "2,000 bytes (max_body_bytes)" in answer.json()["error"]["message"]
        assert front.worker.seen == []


async def test_no_worker_is_a_typed_answer_with_a_time_to_retry():
    async with gateway(worker_url="http://127.0.0.1:9") as front:
        answer = await front.http.post("/v1/encode/toy", json=ITEMS)
        assert answer.status_code == 503
        assert answer.json()["error"]["code"] == "WORKER_UNAVAILABLE"
        assert answer.headers["x-sie-error-code"] == "WORKER_UNAVAILABLE"
        assert int(answer.headers["retry-after"]) >= 1


@pytest.mark.parametrize(
    ("settings", "headers", "says"),
    [
        ({}, {"X-SIE-Timeout": "0.05"}, "0.05 s (X-SIE-Timeout)"),
        ({"request_timeout_s": 0.05}, {}, "0.05 s (request_timeout_s)"),
        ({"request_timeout_s": 0.05}, {"X-SIE-Timeout": "9"}, "0.05 s (request_timeout_s)"),
    ],
)
async def test_no_request_waits_for_a_worker_longer_than_its_deadline(
    monkeypatch, settings, headers, says
):
    monkeypatch.setattr(deadline, "GRACE_S", 0.01)
    # An answer that is slow to come on a busy machine is given up with other words.
    monkeypatch.setattr(proxy, "Connections", lambda **_: Connections(timeout_s=60))
    leaving = fails_with(WorkerUnavailable("leaving"))
    async with gateway(**settings) as front:
        front.worker.always = leaving
        answer = await front.http.post("/v1/encode/toy", json=ITEMS, headers=headers)
    assert answer.status_code == 504
    assert answer.headers["x-sie-error-code"] == "DEADLINE_EXCEEDED"
    assert says in answer.json()["error"]["message"]


async def test_a_deadline_that_cannot_be_read_is_the_workers_to_refuse(front):
    for said in ("soon", "-1", "nan"):
        answer = await front.http.post(
            "/v1/encode/toy", json=ITEMS, headers={"X-SIE-Timeout": said}
        )
        assert answer.status_code == 200
        assert front.worker.seen[-1].headers["x-sie-timeout"] == said


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
async def test_other_methods_are_not_handed_on(front, method):
    assert (await front.http.request(method, "/v1/models")).status_code in (404, 405)
    assert front.worker.seen == []


MOVES = ["load", "unload", "pin", "unpin"]


@pytest.mark.parametrize("path", [*MOVES, "%6Coad", "x/load", "%2Fx/unload"])
async def test_models_are_not_moved_through_a_gateway(front, path):
    answer = await front.http.post(f"/v1/models/toy/{path}")
    assert answer.status_code == 403
    assert answer.json()["error"]["code"] == "NOT_ALLOWED"
    assert "SIE_MCP_ALLOW_MODEL_CONTROL=true" in answer.json()["error"]["message"]
    assert front.worker.seen == []
    assert (await front.http.get("/v1/models/toy")).status_code == 200


@pytest.mark.parametrize("verb", MOVES)
async def test_models_are_moved_through_a_gateway_that_is_set_to_it(verb):
    async with gateway(allow_model_control=True) as front:
        await front.http.post(f"/v1/models/toy/{verb}", json={"wait_s": 1})
        (seen,) = front.worker.seen
        assert (seen.path, seen.body) == (f"/v1/models/toy/{verb}", {"wait_s": 1})


async def test_a_request_that_ends_workers_is_refused_and_those_beside_it_are_answered():
    async with FragileWorker() as worker, gateway(worker_url=worker.url) as front:

        def send(text: str) -> asyncio.Task:
            body = {"items": [{"text": text}]}
            return asyncio.create_task(front.http.post("/v1/encode/toy", json=body))

        beside = [send(str(number)) for number in range(5)]
        await until(lambda: len(worker.in_hand) == 5)
        poison = send("poison")
        await until(lambda: worker.num_ends == 1)
        worker.gate.set()
        for number, answer in enumerate(await asyncio.gather(*beside)):
            assert answer.status_code == 200
            assert answer.json()["items"][0]["dense"]["values"][0] == number
        refusal = await poison
        assert refusal.status_code == 500
        assert refusal.json()["error"]["code"] == "INFERENCE_ERROR"
        assert worker.num_ends == 2
        assert worker.most_in_hand == 1


@pytest.mark.parametrize("error", [WorkerLost("gone"), WorkerUnavailable("leaving")])
async def test_a_worker_that_says_that_it_goes_is_asked_again_later(error, monkeypatch):
    monkeypatch.setattr(retry, "RESTART_PAUSE_S", 0.001)
    async with FragileWorker() as worker, gateway(worker_url=worker.url) as front:
        worker.gate.set()
        worker.refusals = [error]
        assert (await front.http.post("/v1/encode/toy", json=ITEMS)).status_code == 200
