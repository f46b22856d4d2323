"""Limits of a caller: refused at both doors in the form each understands; shared by replicas."""

import asyncio
import threading

import httpx2
import pytest
from fakeredis import TcpFakeServer
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from sie_mcp.access.account import admit
from sie_mcp.access.principal import CallerLimits, Principal
from sie_mcp.access.rates import Rates
from sie_mcp.errors import RateLimited
from tests.access.test_both_doors import bearing, call
from tests.gateway.front import CALL, ITEMS, gateway
from tests.gateway.in_memory import text_of
from tests.scripted_worker import until

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("one_minute")]


async def test_requests_over_the_limit_are_429_with_a_time(key_file):
    key, other = key_file.add("ci", requests_per_minute=3), key_file.add("other")
    async with gateway(auth="api-key", api_keys_file=key_file.path) as front:
        codes = []
        for _ in range(5):
            answer = await front.http.post("/v1/encode/toy", json=ITEMS, headers=bearing(key))
            codes.append(answer.status_code)
        assert codes == [200, 200, 200, 429, 429]
        assert answer.headers["x-sie-error-code"] == "RATE_LIMIT"
        assert 1 <= int(answer.headers["retry-after"]) <= 60
        answer = await front.http.post("/v1/encode/toy", json=ITEMS, headers=bearing(other))
        assert answer.status_code == 200
        assert len(front.worker.seen) == 4


async def test_an_agent_reads_when_it_may_call_again(key_file):
    key = key_file.add("ci", requests_per_minute=2)
    async with (
        gateway(auth="api-key", api_keys_file=key_file.path) as front,
        httpx2.AsyncClient(headers=bearing(key)) as http,
        Client(streamable_http_client(f"{front.url}/mcp", http_client=http)) as client,
    ):
        # Lists cost nothing.
        for _ in range(3):
            await client.list_tools()
        for _ in range(2):
            assert not (await client.call_tool("rerank", CALL)).is_error
        result = await client.call_tool("rerank", CALL)
        assert result.is_error
        assert "your limit is 2 requests a minute" in text_of(result)
        assert "nothing is wrong with your call: repeat it in" in text_of(result)


async def test_tokens_are_limited_whoever_sends_them(key_file):
    keys = [key_file.add(name, tokens_per_minute=1_000) for name in ("one", "two")]
    long = "x" * 3_000
    async with gateway(auth="api-key", api_keys_file=key_file.path) as front:
        body = {"items": [{"text": long}]}
        codes = [
            (
                await front.http.post("/v1/encode/toy", json=body, headers=bearing(keys[0]))
            ).status_code
            for _ in range(3)
        ]
        assert codes == [200, 429, 429]
        async with (
            httpx2.AsyncClient(headers=bearing(keys[1])) as http,
            Client(streamable_http_client(f"{front.url}/mcp", http_client=http)) as client,
        ):
            given = CALL | {"documents": [long, "y"]}
            assert not (await client.call_tool("rerank", given)).is_error
            assert "1,000 tokens a minute" in text_of(await client.call_tool("rerank", given))


async def test_a_caller_has_so_many_calls_at_once(key_file):
    key = key_file.add("ci", max_concurrent=1)
    gate = asyncio.Event()
    async with gateway(auth="api-key", api_keys_file=key_file.path) as front:
        for first, second in ((call_v1, call_mcp), (call_mcp, call_v1)):
            gate.clear()
            front.worker.script = [front.worker.hold(gate)]
            before = len(front.worker.seen)
            running = asyncio.create_task(first(front, key))
            await until(lambda: len(front.worker.seen) == before + 1)  # noqa: B023 (at once)
            assert "1 calls at once" in await second(front, key)
            gate.set()
            assert "at once" not in await running
            assert "at once" not in await second(front, key)


async def call_v1(front, key: str) -> str:
    return (await front.http.post("/v1/encode/toy", json=ITEMS, headers=bearing(key))).text


async def call_mcp(front, key: str) -> str:
    return (await call(front, key)).text


async def test_without_keys_an_address_is_a_caller():
    async with gateway(requests_per_minute=1) as front:
        headers = {"X-SIE-Client": "somebody"}
        assert (await front.http.post("/v1/encode/toy", json=ITEMS)).status_code == 200
        again = await front.http.post("/v1/encode/toy", json=ITEMS, headers=headers)
        assert again.status_code == 429


@pytest.fixture
def redis():
    server = TcpFakeServer(("127.0.0.1", 0), server_type="redis")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"redis://127.0.0.1:{server.server_address[1]}/0"
    server.shutdown()
    server.server_close()
    thread.join(5)


async def test_replicas_count_together(redis, key_file):
    key = key_file.add("ci", requests_per_minute=3)
    settings = {"auth": "api-key", "api_keys_file": key_file.path, "limit_storage": redis}
    async with gateway(**settings) as one, gateway(**settings) as two:
        codes = [
            (await front.http.get("/v1/models", headers=bearing(key))).status_code
            for front in (one, two, one, two, one)
        ]
    assert codes == [200, 200, 200, 429, 429]


async def test_a_store_that_is_gone_lets_each_replica_count_alone(key_file, caplog):
    key = key_file.add("ci", requests_per_minute=2)
    settings = {"auth": "api-key", "api_keys_file": key_file.path}
    async with gateway(**settings, limit_storage="redis://127.0.0.1:1/0") as front:
        codes = [
            (await front.http.get("/v1/models", headers=bearing(key))).status_code for _ in range(4)
        ]
    assert codes == [200, 200, 429, 429]
    assert caplog.text.count("each replica counts for itself") == 1


async def test_a_request_over_a_whole_minutes_tokens_is_let_in_once():
    rates, caller = Rates(), Principal("a", limits=CallerLimits(tokens_per_minute=10))
    await rates.count_tokens(caller, 1_000)
    with pytest.raises(RateLimited):
        await rates.count_tokens(caller, 1)


async def test_a_long_list_waits_for_its_turn_and_a_single_request_does_not():
    class Full:
        num_asked = 0

        async def admit(self, model: str, num_bytes: int) -> None:
            self.num_asked += 1
            if self.num_asked == 1:
                raise RateLimited("full", retry_after_s=0.01)

    account = Full()
    await admit(account, "toy", 1, wait_s=5.0)
    assert account.num_asked == 2
    with pytest.raises(RateLimited):
        await admit(Full(), "toy", 1, wait_s=0.0)
