"""Who asks, and what becomes of callers that wait no more: headers, deadlines, cancellation."""

import asyncio
import threading
import time

import httpx2
import pytest

from sie_mcp import metrics, wire
from sie_mcp.engine.caller import NUM_CLIENTS, Caller, read_caller
from sie_mcp.engine.server import Activity, WorkerApp
from sie_mcp.errors import DeadlineExceeded, InvalidInput, RateLimited
from tests.engine.conftest import http, play, running, until
from tests.servers import serving
from tests.toy_worker import SlowGate
from tests.toys import ToyLoader, toy_vector


def encode(*texts: str) -> wire.EncodeRequest:
    return wire.EncodeRequest(items=[wire.Item(text=text) for text in texts])


def value(counter, **labels: str) -> float:
    child = counter.labels(**labels) if labels else counter
    return child._value.get()


def test_a_caller_who_says_nothing_is_interactive_and_nobody():
    assert read_caller({}) == Caller("interactive", None, None)


def test_names_of_clients_become_few_numbers():
    numbers = {read_caller({"X-SIE-Client": f"client {n}"}).client for n in range(5000)}
    assert numbers <= set(range(NUM_CLIENTS))
    assert len(numbers) > NUM_CLIENTS / 2
    name = {"X-SIE-Client": "é" * 64}
    assert read_caller(name).client == read_caller(name).client


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        ({"X-SIE-Priority": "urgent"}, "X-SIE-Priority 'urgent' is none of interactive, bulk"),
        ({"X-SIE-Client": "x" * 65}, "X-SIE-Client has 65 characters, the limit is 64"),
        ({"X-SIE-Timeout": "soon"}, "X-SIE-Timeout 'soon' is not a number of seconds"),
        ({"X-SIE-Timeout": "nan"}, "X-SIE-Timeout 'nan' is not between 0 and 86400"),
        ({"X-SIE-Timeout": "0"}, "X-SIE-Timeout '0' is not between 0 and 86400"),
    ],
)
def test_a_wrong_header_is_named_with_what_would_work(headers, message):
    with pytest.raises(InvalidInput, match=message):
        read_caller(headers)


@pytest.mark.parametrize("path", ["/v1/encode/a", "/v1/embeddings", "/v1/rerank"])
def test_every_route_reads_who_asks(tmp_path, path):
    async def scenario():
        async with running(tmp_path) as rig, http(rig) as client:
            body = {
                "/v1/encode/a": {"items": [{"text": "x"}]},
                "/v1/embeddings": {"model": "a", "input": "x"},
                "/v1/rerank": {"model": "a", "query": "q", "documents": ["x"]},
            }[path]
            wrong = {"X-SIE-Priority": "urgent"}
            answer = await client.post(path, json=body, headers=wrong)
            assert answer.status_code == 400
            right = {"X-SIE-Priority": "Bulk", "X-SIE-Client": "me", "X-SIE-Timeout": "5"}
            answer = await client.post(path, json=body, headers=right)
            assert answer.status_code == 200

    play(scenario)


def test_a_client_with_too_much_waiting_is_told_so_and_others_are_served(tmp_path):
    async def scenario():
        gate = threading.Event()
        loader = ToyLoader(forward_gate=gate)
        limits = {"max_batch_sequences": 1, "max_queue_tokens": 20}
        async with running(tmp_path, loader, **limits) as rig, http(rig) as client:
            calls = [asyncio.create_task(rig.engine.run("a", encode("x")))]
            await until(lambda: loader.num_held == 1)
            greedy = Caller(client=1)
            calls += [
                asyncio.create_task(rig.engine.run("a", encode("x"), caller=greedy))
                for _ in range(2)
            ]
            await until(lambda: rig.device.queue_tokens == 8)
            assert rig.device.waiting_tokens("a") == 8
            before = value(metrics.REFUSED, reason="rate_limit")
            with pytest.raises(RateLimited):
                await rig.engine.run("a", encode("y"), caller=greedy)
            assert value(metrics.REFUSED, reason="rate_limit") == before + 1
            other = {"X-SIE-Client": "other", "X-SIE-Priority": "bulk"}
            body = {"items": [{"text": "z"}]}
            calls.append(asyncio.create_task(client.post("/v1/encode/a", json=body, headers=other)))
            await until(lambda: rig.device.queue_tokens == 12)
            assert value(metrics.QUEUE_TOKENS, priority="bulk", device=rig.device.name) == 4
            gate.set()
            await asyncio.gather(*calls)

    play(scenario)


def test_a_deadline_of_the_caller_ends_the_request_and_frees_its_place(tmp_path):
    async def scenario():
        gate = threading.Event()
        loader = ToyLoader(forward_gate=gate)
        async with running(tmp_path, loader, max_batch_sequences=1) as rig:
            first = asyncio.create_task(rig.engine.run("a", encode("x")))
            await until(lambda: loader.num_held == 1)
            before = value(metrics.EXPIRED)
            late, timeout_s = await queued_in_time(rig, 0.05, 0.5, 5.0)
            said = rf"not done after {timeout_s:g} s \(X-SIE-Timeout\)"
            with pytest.raises(DeadlineExceeded, match=said):
                await late
            assert rig.device.queue_tokens == 0
            assert value(metrics.EXPIRED) == before + 2
            gate.set()
            await first
            assert sum(loader.adapters["a"].batches) == 1

    play(scenario)


def test_what_expires_before_the_loop_hears_of_it_is_dropped_before_it_runs(tmp_path):
    """The event loop stands still past the deadline; the device comes first."""

    async def scenario():
        gate = threading.Event()
        loader = ToyLoader(forward_gate=gate)
        async with running(tmp_path, loader, max_batch_sequences=1) as rig:
            first = asyncio.create_task(rig.engine.run("a", encode("x")))
            await until(lambda: loader.num_held == 1)
            second, timeout_s = await queued_in_time(rig, 0.2, 1.0, 5.0)
            time.sleep(timeout_s + 0.05)
            gate.set()
            for _ in range(10_000):
                if not rig.device.queue_tokens:
                    break
                time.sleep(0.001)
            with pytest.raises(DeadlineExceeded):
                await second
            await first
            assert sum(loader.adapters["a"].batches) == 1

    play(scenario)


async def queued_in_time(rig, *timeouts_s: float) -> tuple[asyncio.Task, float]:
    """Queue a request that will be late behind one that holds the device; return its deadline.

    Where the machine is busy, a short one may be over before the request is in the queue.
    """
    for timeout_s in timeouts_s:
        caller = Caller(timeout_s=timeout_s)
        late = asyncio.create_task(rig.engine.run("a", encode("y", "z"), caller=caller))
        await until(lambda: late.done() or rig.device.queue_tokens == 8)  # noqa: B023 (at once)
        if not late.done():
            return late, timeout_s
        with pytest.raises(DeadlineExceeded):
            await late
    raise AssertionError("no request came as far as the queue")


def test_hundred_callers_that_hang_up_cost_twenty_patient_ones_nothing(tmp_path):
    """Case T42: 100 requests given up after 10 ms, then 20 patient ones; 50 ms a batch."""

    async def scenario():
        gate = HeldGate(0.05)
        loader = ToyLoader(forward_gate=gate)
        async with running(tmp_path, loader, max_batch_sequences=4) as rig:
            await rig.engine.run("a", encode("warm"))
            gate.held.clear()
            app = WorkerApp(rig.engine, rig.device, max_body_bytes=100_000, activity=Activity())
            before, others = value(metrics.CANCELLED), asyncio.all_tasks()
            # The engine's own lifespan runs already.
            async with serving(_without_lifespan(app.starlette())) as url:
                await abandoned(rig, url, 100)
                # All are known to be gone before the device goes on.
                await until(lambda: not rig.device.queue_tokens)
                gate.held.set()
                num_computed = sum(loader.adapters["a"].batches) - 1
                async with httpx2.AsyncClient(base_url=url, timeout=20) as client:
                    answers = await asyncio.gather(*(ask(client, f"{n}") for n in range(20)))
            for number, answer in enumerate(answers):
                assert answer.status_code == 200
                vector = answer.json()["items"][0]["dense"]["values"]
                assert vector == toy_vector(f"{number}").tolist()
            assert num_computed <= 4
            assert value(metrics.CANCELLED) - before >= 80
            await until(lambda: not asyncio.all_tasks() - others)

    play(scenario)


class HeldGate(SlowGate):
    """A slow gate that can be held shut; open at first."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.held = threading.Event()
        self.held.set()

    def wait(self, timeout: float | None = None) -> bool:
        return self.held.wait(timeout) and super().wait(timeout)


async def ask(client: httpx2.AsyncClient, text: str) -> httpx2.Response:
    return await client.post("/v1/encode/a", json={"items": [{"text": text}]})


async def abandoned(rig, url: str, count: int) -> None:
    """Send requests and hang up on all 10 ms after the last was received, and is in the queue."""
    in_flight = metrics.REQUESTS_IN_FLIGHT._value.get
    before = in_flight()
    # All but a batch wait; a text has five tokens.
    waiting_tokens = 5 * (count - 4)
    async with httpx2.AsyncClient(base_url=url, timeout=20) as client:
        calls = [asyncio.create_task(ask(client, f"gone {n}")) for n in range(count)]
        await until(lambda: in_flight() - before == count)
        await until(lambda: rig.device.queue_tokens >= waiting_tokens)
        await asyncio.wait(calls, timeout=0.01)
        for call in calls:
            call.cancel()
        await asyncio.wait(calls)


def _without_lifespan(app):
    async def routes(scope, receive, send):
        if scope["type"] == "http":
            await app(scope, receive, send)

    return routes


def test_a_body_that_is_sure_to_be_refused_is_not_even_read(tmp_path):
    async def scenario():
        gate = threading.Event()
        loader = ToyLoader(forward_gate=gate)
        async with (
            running(tmp_path, loader, max_batch_sequences=1, max_queue_tokens=40) as rig,
            http(rig) as client,
        ):
            calls = [asyncio.create_task(rig.engine.run("a", encode("x")))]
            await until(lambda: loader.num_held == 1)
            calls.append(asyncio.create_task(rig.engine.run("a", encode("y" * 20))))
            await until(lambda: rig.device.queue_tokens > 0)
            # Neither of the two is JSON: the short one might have had room, and was read.
            long = await client.post("/v1/encode/a", content=b"{" * 800)
            assert (long.status_code, long.headers["X-SIE-Error-Code"]) == (503, "QUEUE_FULL")
            assert float(long.headers["Retry-After"]) > 0
            short = await client.post("/v1/encode/a", content=b"{" * 8)
            assert short.status_code == 400
            gate.set()
            await asyncio.gather(*calls)
            # An empty queue takes anything.
            alone = await client.post("/v1/encode/a", content=b"{" * 800)
            assert alone.status_code == 400

    play(scenario)
