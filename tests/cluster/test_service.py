"""A pool of a Service before an emulated API of Kubernetes, and workers that come and go by it."""

import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import httpx2
import pytest

from sie_mcp import wire
from sie_mcp.client import EngineClient
from sie_mcp.connection import Connections
from sie_mcp.gateway.pool.kubernetes_api import ApiServer
from sie_mcp.gateway.pool.plan import Plan, PoolPlan
from sie_mcp.gateway.pool.pools import Pools
from tests.cluster.conftest import cluster
from tests.gateway.pool.slices import PATH, endpoint, slice_of
from tests.scripted_worker import until

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

FETCHED = Path(__file__).parents[2] / ".k8s" / "venv"


@asynccontextmanager
async def emulated_api() -> AsyncIterator[httpx2.AsyncClient]:
    """Run the emulator; yield a client of it."""
    if not list(FETCHED.glob("lib/*/site-packages/kmock")):
        pytest.skip("kmock is not here; `make chart` fetches it")
    command = [str(FETCHED / "bin" / "python"), str(Path(__file__).with_name("emulated_api.py"))]
    running = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        with anyio.fail_after(60):
            url = (await anyio.to_thread.run_sync(running.stdout.readline)).strip()
        async with httpx2.AsyncClient(base_url=url, timeout=10) as client:
            yield client
    finally:
        running.communicate(timeout=20)


async def test_workers_of_a_service_come_and_go_as_the_api_says(tmp_path):
    async with emulated_api() as api, cluster(tmp_path, 2) as found:
        (tmp_path / "token").write_text("t")
        urls = [one.url for one in found.workers]
        ports = [int(url.rpartition(":")[2]) for url in urls]
        slices = [
            slice_of(
                endpoint("127.0.0.1", f"zone-{number}"),
                name=f"l4-{number}",
                ports=[{"name": "http", "port": port, "protocol": "TCP"}],
            )
            for number, port in enumerate(ports)
        ]
        assert (await api.post(PATH, json=slices[0])).is_success
        plan = Plan(pools={"default": PoolPlan(service="models/l4")})
        server = ApiServer(str(api.base_url).rstrip("/"), tmp_path)
        pools = Pools(plan, Connections(timeout_s=10.0), hold_s=30.0, api=server)
        client = EngineClient(pools, load_wait_s=30.0, timeout_s=30.0)
        known = pools.pools["default"].watch.known
        async with pools.running():
            await client.encode("org/model", [wire.Item(text="x")])
            assert [one.loader.loads for one in found.workers] == [["org/model"], []]
            assert known[urls[0]].address.zone == "zone-0"
            assert (await api.post(PATH, json=slices[1])).is_success
            await until(lambda: set(known) == set(urls))
            gone = {"endpoints": [endpoint("127.0.0.1", ready=False, serving=False)]}
            merge = {"Content-Type": "application/merge-patch+json"}
            patched = await api.request("PATCH", f"{PATH}/l4-0", json=gone, headers=merge)
            assert patched.is_success
            await until(lambda: set(known) == {urls[1]})
            await client.encode("org/model", [wire.Item(text="x")])
            assert found.workers[1].loader.loads == ["org/model"]
        await client.aclose()
