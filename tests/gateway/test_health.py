"""`/health` of a gateway: what SIE's SDK looks for, in counts alone."""

import pytest

from sie_mcp.gateway.console.looks import SeenPool, SeenWorker
from sie_mcp.gateway.health import health_of
from sie_mcp.wire_memory import DeviceMemory, HostMemory, MemoryAccount, ModelMemory
from tests.gateway.front import gateway

pytestmark = pytest.mark.anyio


def account(device: str, *models: str) -> MemoryAccount:
    held = [ModelMemory(name=one, device=device, state="loaded", size_bytes=1) for one in models]
    coming = ModelMemory(name="coming", device=device, state="loading", size_bytes=1)
    zeros = dict.fromkeys(
        ("budget_bytes", "reserved_bytes", "resident_bytes", "free_bytes", "pinned_bytes"), 0
    )
    host = HostMemory(budget_bytes=0, resident_bytes=0)
    made = DeviceMemory(device=device, host=host, queue_tokens=0, models=[*held, coming], **zeros)
    return MemoryAccount(devices=[made])


def test_workers_gpus_and_models_are_counted():
    pools = [
        SeenPool("a", [SeenWorker("10.0.0.1", True, account("cuda:0", "one", "two"))]),
        SeenPool(
            "b",
            [
                SeenWorker("10.0.0.2", True, account("cpu", "two")),
                SeenWorker("10.0.0.3", False, None),
            ],
        ),
    ]
    body = health_of(pools, is_ready=True)
    assert (body["type"], body["status"]) == ("gateway", "healthy")
    assert body["cluster"] == {"worker_count": 2, "gpu_count": 1, "models_loaded": 2}
    assert [one["healthy"] for one in body["workers"]] == [True, True, False]
    assert body["live_gpu_types"] == ["cuda"]
    assert "10.0.0" not in str(body)
    assert "one" not in str(body["workers"])


async def test_a_gateway_counts_the_worker_that_it_has(front):
    body = (await front.http.get("/health")).json()
    assert body["type"] == "gateway"
    # The stand-in knows nothing of memory, which a worker that answers always does.
    assert len(body["workers"]) == 1


async def test_a_gateway_whose_worker_is_gone_is_healthy_itself():
    async with gateway(worker_url="http://127.0.0.1:9") as front:
        answer = await front.http.get("/health")
        assert answer.status_code == 200
        assert answer.json()["cluster"]["worker_count"] == 0
