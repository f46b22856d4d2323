"""The engine through its one door: faults of items, memory and callers, and wrong requests."""

import asyncio
import threading

import numpy as np
import pytest
import torch

from sie_mcp import wire
from sie_mcp.errors import (
    InvalidInput,
    ModelNotFound,
    QueueFull,
    WorkerUnavailable,
)
from tests.engine.conftest import http, play, running, until
from tests.toys import ToyLoader, toy_vector


def encode(*texts: str) -> wire.EncodeRequest:
    return wire.EncodeRequest(items=[wire.Item(text=text) for text in texts])


def vectors(response: wire.EncodeResponse) -> list[np.ndarray]:
    return [item.dense.values for item in response.items]


def test_only_the_poisoned_text_of_a_batch_fails(tmp_path):
    async def scenario():
        async with running(tmp_path) as rig:
            texts = ["one", "two", "poison three", "four"]
            response = await rig.engine.run("a", encode(*texts))
            codes = [item.error.code if item.error else None for item in response.items]
            assert codes == [None, None, "INFERENCE_ERROR", None]
            assert (vectors(await rig.engine.run("a", encode("x")))[0] == toy_vector("x")).all()

    play(scenario)


def test_a_poisoned_client_of_a_batch_fails_and_those_beside_it_do_not(tmp_path):
    """Case T30: three clients in one batch, which runs again without the one at fault."""

    async def scenario():
        loader = ToyLoader(forward_gate=threading.Event())
        async with running(tmp_path, loader) as rig, http(rig) as client:

            def send(text: str) -> asyncio.Task:
                body = {"model": "a", "input": [text]}
                return asyncio.create_task(client.post("/v1/embeddings", json=body))

            first = send("first")
            await until(lambda: loader.num_held == 1)
            calls = [send(text) for text in ("fine", "poison", "fine too")]
            await until(lambda: rig.device.queue_tokens == 13)
            loader.forward_gate.set()
            a, b, c = await asyncio.gather(*calls)
            assert loader.adapters["a"].batches[:2] == [1, 3]
            for answer, text in ((a, "fine"), (c, "fine too"), (await first, "first")):
                assert answer.json()["data"][0]["embedding"] == toy_vector(text).tolist()
            assert b.status_code == 500
            assert b.json()["error"]["code"] == "INFERENCE_ERROR"
            assert "input[0]" in b.json()["error"]["message"]
            assert (await client.get("/healthz")).status_code == 200

    play(scenario)


def test_out_of_memory_evicts_then_halves_then_fails_one_item_only(tmp_path):
    async def scenario():
        async with running(tmp_path) as rig:
            await rig.engine.run("idle", encode("x"))
            await rig.engine.run("a", encode("x"))
            rig.loader.adapters["a"].error = torch.OutOfMemoryError("CUDA out of memory")
            response = await rig.engine.run("a", encode("x", "y"))
            assert [item.error.code for item in response.items] == ["RESOURCE_EXHAUSTED"] * 2
            assert not rig.residency.cards().get("idle", wire.ModelCard(name="idle")).loaded
            rig.loader.adapters["a"].error = None
            assert (await rig.engine.run("a", encode("x"))).items[0].error is None

    play(scenario)


def test_cancelling_a_request_drops_what_has_not_run(tmp_path):
    async def scenario():
        gate = threading.Event()
        loader = ToyLoader(forward_gate=gate)
        async with running(tmp_path, loader, max_batch_sequences=1) as rig:
            running_first = asyncio.create_task(rig.engine.run("a", encode("x")))
            await until(lambda: loader.num_held == 1)
            waiting = asyncio.create_task(rig.engine.run("a", encode("y", "z")))
            await until(lambda: rig.device.queue_tokens > 0)
            waiting.cancel()
            await asyncio.wait({waiting})
            assert rig.device.queue_tokens == 0
            gate.set()
            await running_first
            assert sum(loader.adapters["a"].batches) == 1

    play(scenario)


def test_a_full_queue_refuses_at_once_and_says_when(tmp_path):
    async def scenario():
        gate = threading.Event()
        loader = ToyLoader(forward_gate=gate)
        async with running(tmp_path, loader, max_batch_sequences=1, max_queue_tokens=10) as rig:
            calls = [asyncio.create_task(rig.engine.run("a", encode("x")))]
            await until(lambda: loader.num_held == 1)
            calls += [asyncio.create_task(rig.engine.run("a", encode("x"))) for _ in range(2)]
            await until(lambda: rig.device.queue_tokens == 8)
            with pytest.raises(QueueFull) as caught:
                await rig.engine.run("a", encode("y"))
            assert caught.value.retry_after_s
            gate.set()
            await asyncio.gather(*calls)

    play(scenario)


def test_what_there_is_no_room_for_is_not_tokenised(tmp_path):
    async def scenario():
        gate = threading.Event()
        loader = ToyLoader(forward_gate=gate)
        async with running(tmp_path, loader, max_batch_sequences=1, max_queue_tokens=10) as rig:
            calls = [asyncio.create_task(rig.engine.run("a", encode("x")))]
            await until(lambda: loader.num_held == 1)
            adapter = loader.adapters["a"]
            prepared: list[wire.Request] = []
            prepare = adapter.prepare
            adapter.prepare = lambda request: prepared.append(request) or prepare(request)
            calls += [asyncio.create_task(rig.engine.run("a", encode("x" * 16))) for _ in range(9)]
            await until(lambda: sum(call.done() for call in calls) == 7)
            # Both that there is room for have been tokenised, too.
            await until(lambda: rig.device.queue_tokens == 8)
            assert len(prepared) == 2
            gate.set()
            answers = await asyncio.gather(*calls, return_exceptions=True)
            assert [isinstance(one, QueueFull) for one in answers].count(True) == 7

    play(scenario)


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (encode("ok", " "), r"items\[1\].text is empty"),
        (encode("ok", ""), r"items\[1\].text is empty"),
        (encode("x" * 10_001), r"items\[0\].text has 10,001 characters, the limit is 10,000"),
        (encode(*["x"] * 201), "201 items are over the limit of 200"),
        (wire.EncodeRequest(items=[wire.Item()]), r"items\[0\] has no text"),
        (
            wire.ScoreRequest(query=wire.Item(text=" "), items=[wire.Item(text="x")]),
            "query.text is empty",
        ),
        (wire.ExtractRequest(items=[wire.Item(text="x")]), "a can encode and score, not extract"),
    ],
)
def test_a_wrong_request_is_refused_with_what_would_work(tmp_path, request_, message):
    async def scenario():
        async with running(tmp_path) as rig:
            with pytest.raises(InvalidInput, match=message):
                await rig.engine.run("a", request_)

    play(scenario)


def test_an_unknown_model_is_not_found_and_leaves_no_trace(tmp_path):
    async def scenario():
        async with running(tmp_path) as rig:
            with pytest.raises(ModelNotFound):
                await rig.engine.run("missing", encode("x"))
            assert "missing" not in rig.residency.cards()

    play(scenario)


def test_auto_is_the_default_of_the_primitive(tmp_path):
    async def scenario():
        async with running(tmp_path) as rig:
            assert (await rig.engine.run("auto", encode("x"))).model == "toy"

    play(scenario)


def test_stopping_answers_everything_that_waits(tmp_path):
    async def scenario():
        gate = threading.Event()
        loader = ToyLoader(forward_gate=gate)
        async with running(tmp_path, loader, max_batch_sequences=1) as rig:
            calls = [asyncio.create_task(rig.engine.run("a", encode("0")))]
            await until(lambda: loader.num_held == 1)
            calls += [asyncio.create_task(rig.engine.run("a", encode(f"{n}"))) for n in (1, 2)]
            await until(lambda: rig.device.queue_tokens == 8)
            stopping = asyncio.get_running_loop().run_in_executor(None, rig.device.stop)
            await until(lambda: rig.device._queue._is_stopping)
            gate.set()
            await stopping
            results = await asyncio.gather(*calls, return_exceptions=True)
            assert results[0].items[0].error is None
            assert [type(result) for result in results[1:]] == [WorkerUnavailable] * 2

    play(scenario)
