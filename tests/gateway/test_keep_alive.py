"""Connections between gateway and worker: kept for the next burst, and let go of in time."""

import asyncio

import pytest
from starlette.requests import Request

from sie_mcp.config import Config
from sie_mcp.connection import CLIENT_KEEP_ALIVE_S, SERVER_KEEP_ALIVE_S
from tests.gateway.front import ITEMS, gateway
from tests.scripted_worker import until

pytestmark = pytest.mark.anyio
BURST = 40


def test_clients_let_go_of_a_connection_before_any_server_closes_it():
    (least_s,) = [one.ge for one in Config.model_fields["keep_alive_s"].metadata]
    assert min(least_s, SERVER_KEEP_ALIVE_S) > CLIENT_KEEP_ALIVE_S
    assert Config().keep_alive_s >= SERVER_KEEP_ALIVE_S


async def test_a_second_burst_finds_the_connections_of_the_first():
    ports: set[int] = set()

    async with gateway() as front:

        async def burst(gate: asyncio.Event) -> None:
            held = front.worker.hold(gate)

            async def step(request: Request) -> None:
                assert request.client is not None
                ports.add(request.client.port)
                await held(request)

            front.worker.always = step
            before = len(front.worker.seen)
            calls = [
                asyncio.create_task(front.http.post("/v1/encode/toy", json=ITEMS))
                for _ in range(BURST)
            ]
            await until(lambda: len(front.worker.seen) == before + BURST)
            gate.set()
            assert {answer.status_code for answer in await asyncio.gather(*calls)} == {200}

        await burst(asyncio.Event())
        assert len(ports) == BURST
        await burst(asyncio.Event())
        assert len(ports) == BURST
