"""Callers at a door: those that hang up, that send much or oddly, and those that look after it."""

import asyncio
import threading

import httpx2
import pytest
from prometheus_client import CONTENT_TYPE_LATEST

from sie_mcp import connection, metrics
from tests.doors.both import ENCODE, body, both, read
from tests.engine.conftest import play, until
from tests.toys import ToyLoader, toy_vector


@pytest.mark.parametrize(
    ("path", "given"),
    [(ENCODE, body("x")), ("/v1/rerank", {"query": "q", "documents": ["x"]})],
    ids=["joined", "handed on"],
)
def test_a_caller_that_hangs_up_ends_its_work(tmp_path, path, given):
    async def scenario():
        loader = ToyLoader()
        loader.gate.clear()
        async with both(tmp_path, loader) as asked:
            calling = asyncio.create_task(asked.door.post(path, json=given))
            await until(lambda: asked.activity.in_flight == 1)
            calling.cancel()
            await until(lambda: asked.activity.in_flight == 0)
            loader.gate.set()
            assert (await asked.door.post(ENCODE, json=body("y"))).status_code == 200

    play(scenario)


def test_work_that_is_shared_goes_on_for_who_is_left(tmp_path):
    async def scenario():
        loader = ToyLoader(forward_gate=threading.Event())
        async with both(tmp_path, loader) as asked:
            waiting = [
                asyncio.create_task(asked.door.post(ENCODE, json=body(str(number))))
                for number in range(12)
            ]
            before = metrics.REQUESTS_IN_FLIGHT._value.get()
            await until(lambda: metrics.REQUESTS_IN_FLIGHT._value.get() - before == 12)
            for one in waiting[::2]:
                one.cancel()
            loader.forward_gate.set()
            left = await asyncio.gather(*waiting[1::2])
            for number, answer in zip(range(1, 12, 2), left, strict=True):
                values = answer.json()["items"][0]["dense"]["values"]
                assert values == toy_vector(str(number)).tolist()

    play(scenario)


def test_a_caller_that_goes_while_it_sends_is_nothing_to_others(tmp_path):
    async def scenario():
        async with both(tmp_path) as asked:
            host, port = asked.door_url.removeprefix("http://").split(":")
            for head in (
                b"POST /v1/encode/a HTTP/1.1\r\nhost: x\r\ncontent-length: 90\r\n\r\n{",
                b"POST /v1/rerank HTTP/1.1\r\nhost: x\r\ncontent-length: 90\r\n\r\n{",
                b"POST /v1/rerank HTTP/1.1\r\nhost: x\r\ncontent-length: 300000\r\n\r\n{",
                b"POST /v1/rerank HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n1\r\n{",
            ):
                _, writer = await asyncio.open_connection(host, int(port))
                writer.write(head)
                await writer.drain()
                writer.close()
                await writer.wait_closed()
            assert (await asked.door.post(ENCODE, json=body("y"))).status_code == 200
            await until(lambda: asked.activity.in_flight == 0)

    play(scenario)


def test_requests_sent_one_behind_the_other_are_answered_in_turn(tmp_path):
    async def scenario():
        async with both(tmp_path) as asked:
            host, port = asked.door_url.removeprefix("http://").split(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            text = b'{"items":[{"text":"x"}]}'
            one = b"POST /v1/encode/a HTTP/1.1\r\nhost: x\r\ncontent-length: 24\r\n"
            last = b"connection: close\r\n\r\n"
            writer.write((one + b"\r\n" + text) * 3 + one + last + text)
            told = await reader.read()
            assert told.count(b"HTTP/1.1 200 OK") == 4
            writer.close()

    play(scenario)


def test_probes_are_answered_however_many_calls_are_open(tmp_path, monkeypatch):
    monkeypatch.setattr(connection, "MAX_CONNECTIONS", 1)

    async def scenario():
        loader = ToyLoader()
        loader.gate.clear()
        async with both(tmp_path, loader) as asked:
            held = asyncio.create_task(
                asked.door.post("/v1/rerank", json={"query": "q", "documents": ["x"]})
            )
            await until(lambda: asked.activity.in_flight == 1)
            for path in ("/healthz", "/readyz", "/health", "/metrics"):
                assert (await asked.door.get(path)).status_code == 200
            loader.gate.set()
            assert (await held).status_code == 200

    play(scenario)


def test_a_worker_that_cannot_be_reached_is_503_with_a_time(tmp_path):
    async def scenario():
        async with both(tmp_path) as asked:
            asked.uds.unlink()
            for path, given in ((ENCODE, body("x")), ("/v1/rerank", {})):
                answer = await read(asked.door, "POST", path, json=given)
                assert answer.status == 503
                assert answer.headers["x-sie-error-code"] == "WORKER_UNAVAILABLE"
                assert float(answer.headers["retry-after"]) > 0

    play(scenario)


def test_a_head_that_is_too_large_is_refused_at_the_door(tmp_path):
    async def scenario():
        async with both(tmp_path) as asked:
            answer = await asked.door.post(ENCODE, json=body("x"), headers={"x": "y" * 70_000})
            assert answer.status_code == 400
            assert (await asked.door.post(ENCODE, json=body("x"))).status_code == 200

    play(scenario)


def test_many_connections_at_once_are_all_answered(tmp_path):
    async def scenario():
        limits = httpx2.Limits(max_connections=300, max_keepalive_connections=300)
        async with (
            both(tmp_path) as asked,
            httpx2.AsyncClient(base_url=asked.door_url, timeout=30, limits=limits) as many,
        ):
            answers = await asyncio.gather(
                *(many.post(ENCODE, json=body(str(number))) for number in range(300))
            )
            assert {one.status_code for one in answers} == {200}

    play(scenario)


def test_figures_are_the_worker_s(tmp_path):
    async def scenario():
        async with both(tmp_path) as asked:
            answer = await asked.door.get("/metrics")
            assert answer.headers["content-type"] == CONTENT_TYPE_LATEST
            assert "sie_requests_in_flight" in answer.text

    play(scenario)
