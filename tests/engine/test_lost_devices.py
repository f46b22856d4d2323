"""A device lost for good, and a device thread that dies: the worker gives up, and says so."""

import asyncio
import threading

import pytest
import torch

from sie_mcp.errors import WorkerLost, WorkerUnavailable
from tests.engine.conftest import http, out_of_memory_steps, play, running, until
from tests.engine.test_faults import encode
from tests.toys import ToyLoader

ITEMS = {"items": [{"text": "x"}]}
LOST = [
    torch.AcceleratorError("CUDA error: device-side assert triggered\nCUDA kernel errors might"),
    RuntimeError("CUDA error: an illegal memory access was encountered"),
    RuntimeError("Triton Error [CUDA]: an illegal memory access was encountered"),
    torch.AcceleratorError("CUDA error: unspecified launch failure"),
    torch.AcceleratorError("CUDA error: uncorrectable ECC error encountered"),
]


@pytest.mark.parametrize("error", LOST, ids=lambda one: str(one)[12:40])
def test_a_lost_device_is_given_up_at_once_without_a_second_try(tmp_path, error):
    async def scenario():
        loader = ToyLoader()
        async with running(tmp_path, loader) as rig, http(rig) as client:
            await rig.engine.run("a", encode("x"))
            loader.adapters["a"].error = error
            answer = await client.post("/v1/encode/a", json={"items": [{"text": "x"}] * 8})
            assert answer.status_code == 503
            assert answer.headers["x-sie-error-code"] == "WORKER_LOST"
            assert float(answer.headers["retry-after"]) > 0
            # The whole batch once: halves would fail as it did.
            assert loader.adapters["a"].batches == [1, 8]
            assert (await client.get("/readyz")).status_code == 503
            assert (await client.get("/healthz")).status_code == 503
            after = await client.post("/v1/encode/a", json=ITEMS)
            assert after.headers["x-sie-error-code"] == "WORKER_UNAVAILABLE"
            assert "DeviceLost" in rig.device.failure

    play(scenario)


def test_other_errors_of_a_library_do_not_lose_the_device(tmp_path):
    async def scenario():
        loader = ToyLoader()
        async with running(tmp_path, loader) as rig:
            await rig.engine.run("a", encode("x"))
            loader.adapters["a"].error = RuntimeError("CUDA error: invalid configuration argument")
            response = await rig.engine.run("a", encode("x"))
            assert response.items[0].error.code == "INFERENCE_ERROR"
            assert rig.device.failure is None

    play(scenario)


def test_what_waits_behind_a_lost_device_may_be_sent_again_without_blame(tmp_path):
    async def scenario():
        loader = ToyLoader(forward_gate=threading.Event())
        async with running(tmp_path, loader, max_batch_sequences=1) as rig:
            first = asyncio.create_task(rig.engine.run("a", encode("x")))
            await until(lambda: loader.num_held == 1)
            waiting = [asyncio.create_task(rig.engine.run("a", encode("y"))) for _ in range(3)]
            await until(lambda: rig.device.queue_tokens == 12)
            loader.adapters["a"].error = LOST[0]
            loader.forward_gate.set()
            results = await asyncio.gather(first, *waiting, return_exceptions=True)
            assert [type(one) for one in results] == [WorkerLost, *[WorkerUnavailable] * 3]
            assert rig.device.queue_tokens == 0

    play(scenario)


def test_a_batch_without_memory_fails_alone_and_a_dead_thread_takes_readiness_down(tmp_path):
    """Case T40: of requests one by one, the third has no memory and the sixth ends the thread."""

    async def scenario():
        loader = ToyLoader()
        async with running(tmp_path, loader) as rig, http(rig) as client:
            failed = out_of_memory_steps("fail")
            seen = []
            for number in range(1, 21):
                if loader.adapters:
                    loader.adapters["a"].error = {3: MemoryError(), 6: SystemExit(1)}.get(number)
                answer = await client.post("/v1/encode/a", json=ITEMS)
                error = answer.status_code == 200 and answer.json()["items"][0].get("error")
                seen.append(error["code"] if error else answer.headers.get("x-sie-error-code"))
                ready = await client.get("/readyz")
                assert ready.status_code == (200 if number < 6 else 503)
            assert seen[:6] == [None, None, "RESOURCE_EXHAUSTED", None, None, "WORKER_LOST"]
            assert set(seen[6:]) == {"WORKER_UNAVAILABLE"}
            assert out_of_memory_steps("fail") == failed + 1
            assert rig.device.queue_tokens == 0
            assert not rig.device.is_alive

    play(scenario)
