"""A worker on a port with doors, as processes: they come, are replaced, and end with it."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import anyio
import httpx2
import psutil
import pytest
from fakeredis import TcpFakeServer

from evals.ports import free_port
from sie_mcp.access.keys import new_key
from tests.e2e.conftest import ROOT, environment, is_alive, serving
from tests.toys import toy_vector

pytestmark = pytest.mark.anyio
WORKER = [sys.executable, "-m", "tests.toy_worker"]
LIMIT_S = 30.0


def settings(folder: Path, **others: str) -> dict[str, str]:
    """Return an environment with two doors, whose temporary folder is the test's own."""
    temporary = folder / "t"
    temporary.mkdir(exist_ok=True)
    own = environment(folder, http_processes="2", **others)
    return own | {"TMPDIR": str(temporary)}


def doors_of(child: subprocess.Popen[bytes]) -> set[int]:
    return {one.pid for one in psutil.Process(child.pid).children()}


def wait_for(condition: Callable[[], bool]) -> None:
    limit = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.01)


def encode(http: httpx2.Client, text: str) -> httpx2.Response:
    return http.post("/v1/encode/toy", json={"items": [{"text": text}]})


def test_a_door_that_is_killed_is_replaced_and_none_outlives_its_worker(folder):
    with serving(WORKER, settings(folder), folder / "log") as (url, child):
        wait_for(lambda: len(doors_of(child)) == 2)
        first = doors_of(child)
        os.kill(min(first), signal.SIGKILL)
        wait_for(lambda: len(doors_of(child)) == 2 and doors_of(child) != first)
        # Each request on a connection of its own: any of the two may take it.
        for number in range(8):
            with httpx2.Client(base_url=url, timeout=LIMIT_S) as http:
                answer = encode(http, str(number))
            values = answer.json()["items"][0]["dense"]["values"]
            assert values == toy_vector(str(number)).tolist()
        last = doors_of(child)
        child.kill()
        child.wait(LIMIT_S)
        wait_for(lambda: not any(is_alive(one) for one in last))
        with pytest.raises(httpx2.ConnectError):
            httpx2.get(url)
        assert list((folder / "t").iterdir()) == []


class Load:
    """Callers that ask one thing after another until they are told to stop."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.is_over = False
        self.num_good = 0
        self.num_refused = 0
        self.wrong: list[object] = []

    async def call(self, number: int, path: str) -> None:
        count = 0
        async with httpx2.AsyncClient(base_url=self._url, timeout=LIMIT_S) as http:
            while not self.is_over:
                count += 1
                text = f"{number} {count}"
                body = {"items": [{"text": text}]}
                if path.startswith("/v1/score"):
                    body |= {"query": {"text": "q"}}
                try:
                    answer = await http.post(path, json=body)
                except httpx2.ConnectError:
                    return
                except (httpx2.RemoteProtocolError, httpx2.ReadError, httpx2.WriteError) as error:
                    # An idle connection was closed just as it was used: nothing was read of it.
                    if count == 1:
                        self.wrong.append(error)
                    return
                self._look(answer, text, path)

    def _look(self, answer: httpx2.Response, text: str, path: str) -> None:
        expected = toy_vector(text)
        if answer.status_code == 503 and float(answer.headers["retry-after"]) > 0:
            self.num_refused += 1
        elif answer.status_code != 200:
            self.wrong.append(answer.text)
        elif path.startswith("/v1/score"):
            found = answer.json()["scores"][0]["score"]
            self.num_good += 1
            if abs(found - float(expected[0])) > 1e-6 * max(1.0, float(expected[0])):
                self.wrong.append((text, found))
        elif answer.json()["items"][0]["dense"]["values"] == expected.tolist():
            self.num_good += 1
        else:
            self.wrong.append(text)


async def test_a_worker_that_leaves_under_load_gives_no_wrong_answer_and_leaves_nothing(folder):
    command = [*WORKER, "--forward-s", "0.02"]
    with serving(command, settings(folder), folder / "log") as (url, child):
        load = Load(url)
        with anyio.fail_after(LIMIT_S):
            async with anyio.create_task_group() as group:
                for number in range(16):
                    for path in ("/v1/encode/toy", "/v1/score/toy"):
                        group.start_soon(load.call, number, path)
                while load.num_good < 100:
                    await asyncio.sleep(0.01)
                doors = doors_of(child)
                child.send_signal(signal.SIGTERM)
                while child.poll() is None:
                    await asyncio.sleep(0.01)
                load.is_over = True
        assert load.wrong == []
        assert child.returncode == 0, (folder / "log").read_text()
        assert len(doors) == 2
        assert not any(is_alive(one) for one in doors)
        assert list((folder / "t").iterdir()) == []
        assert "Traceback" not in (folder / "log").read_text()


def test_a_port_that_is_taken_is_said_and_leaves_nothing(folder):
    port = free_port()
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))
        other.listen()
        child = subprocess.Popen(
            [*WORKER, "--port", str(port)],
            env=settings(folder),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=ROOT,
        )
        told, _ = child.communicate(timeout=LIMIT_S)
    assert child.returncode not in (0, None)
    assert b"address already in use" in told.lower()
    assert list((folder / "t").iterdir()) == []


def test_keys_are_asked_for_at_doors_and_counted_together(folder):
    key, entry = new_key("ci")
    (folder / "keys.toml").write_text(f"{entry}requests_per_minute = 3\n")
    redis = TcpFakeServer(("127.0.0.1", 0), server_type="redis")
    threading.Thread(target=redis.serve_forever, daemon=True).start()
    store = f"redis://127.0.0.1:{redis.server_address[1]}/0"
    env = settings(
        folder, auth="api-key", api_keys_file=str(folder / "keys.toml"), limit_storage=store
    )
    try:
        with serving(WORKER, env, folder / "log") as (url, child):
            wait_for(lambda: len(doors_of(child)) == 2)
            codes = []
            for _ in range(8):
                with httpx2.Client(base_url=url, timeout=LIMIT_S) as http:
                    assert encode(http, "x").status_code == 401
                    http.headers["Authorization"] = f"Bearer {key}"
                    codes.append(encode(http, "x").status_code)
                    assert http.get("/healthz").status_code == 200
    finally:
        redis.shutdown()
        redis.server_close()
    # At the turn of a minute there is room again.
    assert codes[:3] == [200] * 3
    assert 2 <= codes.count(429) <= 5


def test_what_a_leaving_worker_cannot_finish_is_refused_by_its_doors(folder):
    held = folder / "held"
    held.touch()
    command = [*WORKER, "--held-by", str(held)]
    env = settings(folder, graceful_timeout_s="2")
    with (
        serving(command, env, folder / "log") as (url, child),
        httpx2.Client(base_url=url, timeout=LIMIT_S) as http,
        ThreadPoolExecutor(2) as callers,
    ):
        pair = {"query": {"text": "q"}, "items": [{"text": "y"}]}
        told = [
            callers.submit(encode, http, "x"),
            callers.submit(http.post, "/v1/score/toy", json=pair),
        ]
        wait_for(lambda: in_flight(http) == 2)
        doors = doors_of(child)
        child.send_signal(signal.SIGTERM)
        for one in told:
            answer = one.result(LIMIT_S)
            assert (answer.status_code, float(answer.headers["retry-after"]) > 0) == (503, True)
        held.unlink()
        assert child.wait(LIMIT_S) == 0, (folder / "log").read_text()
        assert not any(is_alive(one) for one in doors)
        assert list((folder / "t").iterdir()) == []


def in_flight(http: httpx2.Client) -> float:
    lines = http.get("/metrics").text.splitlines()
    return next(float(one.split()[1]) for one in lines if one.startswith("sie_requests_in_flight "))
