"""The engine through its one door: order, limits, single flight, eviction, faults, cancellation."""

import asyncio
import random
import threading

import numpy as np
import pytest
import torch

from sie_mcp import wire
from sie_mcp.errors import (
    DownloadFailed,
    InvalidInput,
    ModelLoadFailed,
    ModelLoading,
    ModelNotFound,
    ModelTooLarge,
    QueueFull,
)
from tests.engine.conftest import play, running, until
from tests.toy_worker import SlowGate
from tests.toys import ToyLoader, toy_vector


def encode(*texts: str) -> wire.EncodeRequest:
    return wire.EncodeRequest(items=[wire.Item(text=text) for text in texts])


def vectors(response: wire.EncodeResponse) -> list[np.ndarray]:
    return [item.dense.values for item in response.items]


def test_every_text_gets_its_own_vector_in_order_whatever_runs_beside_it(tmp_path):
    """Case T46: 32 callers, lists of 1 to 100 distinct texts, vectors that tell their text."""

    async def scenario():
        async with running(tmp_path) as rig:
            random_lists = random.Random(3)

            async def caller(number: int) -> None:
                for turn in range(6):
                    count = random_lists.randint(1, 100)
                    texts = [f"text {number} {turn} {place}" for place in range(count)]
                    model = random_lists.choice(["a", "b", "c"])
                    response = await rig.engine.run(model, encode(*texts))
                    assert len(response.items) == count
                    for text, vector in zip(texts, vectors(response), strict=True):
                        assert (vector == toy_vector(text)).all()

            await asyncio.gather(*(caller(number) for number in range(32)))

    play(scenario)


def test_fifty_first_callers_cause_one_load(tmp_path, toy_loader):
    """Case T44."""

    async def scenario():
        toy_loader.gate.clear()
        async with running(tmp_path, toy_loader) as rig:
            calls = [asyncio.create_task(rig.engine.run("a", encode("x"))) for _ in range(50)]
            await until(lambda: rig.residency.cards().get("a") is not None)
            assert rig.residency.cards()["a"].state == "loading"
            toy_loader.gate.set()
            responses = await asyncio.gather(*calls)
            assert toy_loader.loads == ["a"]
            assert all((vectors(one)[0] == toy_vector("x")).all() for one in responses)

    play(scenario)


def test_a_failed_load_gives_all_callers_the_same_error_and_the_next_request_tries_again(
    tmp_path, toy_loader
):
    """Case T44."""

    async def scenario():
        toy_loader.gate.clear()
        toy_loader.errors["a"] = [ModelLoadFailed("model.safetensors is cut short")]
        async with running(tmp_path, toy_loader) as rig:
            calls = [asyncio.create_task(rig.engine.run("a", encode("x"))) for _ in range(50)]
            await until(lambda: "a" in rig.residency.cards())
            toy_loader.gate.set()
            results = await asyncio.gather(*calls, return_exceptions=True)
            assert {str(one) for one in results} == {"model.safetensors is cut short"}
            assert all(isinstance(one, ModelLoadFailed) for one in results)
            card = rig.residency.cards()["a"]
            assert (card.state, card.last_error.attempts) == ("failed", 1)
            response = await rig.engine.run("a", encode("x"))
            assert response.items[0].dense is not None
            assert toy_loader.loads == ["a", "a"]
            assert rig.residency.cards()["a"].state == "loaded"

    play(scenario)


def test_repeated_failures_are_answered_from_memory_for_a_while(tmp_path, toy_loader):
    async def scenario():
        toy_loader.errors["a"] = [DownloadFailed("no network")] * 3
        async with running(tmp_path, toy_loader) as rig:
            for _ in range(2):
                with pytest.raises(DownloadFailed):
                    await rig.engine.run("a", encode("x"))
            with pytest.raises(DownloadFailed, match="tried 2 times, next in"):
                await rig.engine.run("a", encode("x"))
            assert toy_loader.loads == ["a", "a"]

    play(scenario)


def test_a_caller_that_waits_no_longer_is_told_so_and_the_load_goes_on(tmp_path, toy_loader):
    async def scenario():
        toy_loader.gate.clear()
        async with running(tmp_path, toy_loader) as rig:
            with pytest.raises(ModelLoading) as caught:
                await rig.engine.run("a", encode("x"), load_wait_s=0.05)
            assert caught.value.retry_after_s
            toy_loader.gate.set()
            await rig.engine.run("a", encode("x"))
            assert toy_loader.loads == ["a"]

    play(scenario)


def test_a_load_holds_up_no_other_model(tmp_path, toy_loader):
    async def scenario():
        async with running(tmp_path, toy_loader) as rig:
            await rig.engine.run("fast", encode("x"))
            toy_loader.gate.clear()
            slow = asyncio.create_task(rig.engine.run("slow", encode("x")))
            await until(lambda: "slow" in rig.residency.cards())
            await rig.engine.run("fast", encode("y"))
            assert not slow.done()
            toy_loader.gate.set()
            await slow

    play(scenario)


def test_the_least_recently_used_model_leaves_and_no_more_than_needed(tmp_path):
    async def scenario():
        loader = ToyLoader(sizes={"a": 40, "b": 30, "c": 30, "d": 35})
        async with running(tmp_path, loader, budget=100) as rig:
            for name in ("a", "b", "c"):
                await rig.engine.run(name, encode("x"))
            await rig.engine.run("a", encode("x"))
            await rig.engine.run("d", encode("x"))
            loaded = {name for name, card in rig.residency.cards().items() if card.loaded}
            # b and c are older than a, and it takes both: 35 do not fit into 30.
            assert loaded == {"a", "d"}

    play(scenario)


def test_a_model_larger_than_the_budget_evicts_nobody(tmp_path):
    async def scenario():
        loader = ToyLoader(sizes={"small": 50, "huge": 101})
        async with running(tmp_path, loader, budget=100) as rig:
            await rig.engine.run("small", encode("x"))
            with pytest.raises(ModelTooLarge, match="101 bytes, the budget is 100"):
                await rig.engine.run("huge", encode("x"))
            assert rig.residency.cards()["small"].loaded

    play(scenario)


def test_a_model_in_use_is_waited_for_not_evicted(tmp_path):
    async def scenario():
        gate = threading.Event()
        loader = ToyLoader(sizes={"a": 80, "b": 80}, forward_gate=gate)
        async with running(tmp_path, loader, budget=100) as rig:
            first = asyncio.create_task(rig.engine.run("a", encode("x")))
            await until(lambda: "a" in loader.adapters)
            second = asyncio.create_task(rig.engine.run("b", encode("y")))
            await asyncio.sleep(0.1)
            assert rig.residency.cards()["a"].loaded
            assert not second.done()
            gate.set()
            assert (vectors(await first)[0] == toy_vector("x")).all()
            assert (vectors(await second)[0] == toy_vector("y")).all()
            assert not rig.residency.cards().get("a", wire.ModelCard(name="a")).loaded

    play(scenario)


def test_two_models_in_turn_on_memory_for_one_are_served_without_a_swap_each(tmp_path):
    """Case T43, on the CPU: 2 clients, 50 calls each, memory for one model."""

    async def scenario():
        loader = ToyLoader(sizes={"a": 80, "b": 80}, gate=SlowGate(0.03))
        async with running(tmp_path, loader, budget=100) as rig:

            async def client(model: str) -> None:
                for turn in range(50):
                    response = await rig.engine.run(model, encode(f"{model} {turn}"))
                    assert (vectors(response)[0] == toy_vector(f"{model} {turn}")).all()

            await asyncio.gather(client("a"), client("b"))
            assert len(loader.loads) < 50

    play(scenario)


def test_only_the_poisoned_text_of_a_batch_fails(tmp_path):
    async def scenario():
        async with running(tmp_path) as rig:
            texts = ["one", "two", "poison three", "four"]
            response = await rig.engine.run("a", encode(*texts))
            codes = [item.error.code if item.error else None for item in response.items]
            assert codes == [None, None, "INFERENCE_ERROR", None]
            assert (vectors(await rig.engine.run("a", encode("x")))[0] == toy_vector("x")).all()

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
            await until(lambda: "a" in loader.adapters and not rig.device.queue_tokens)
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
            await until(lambda: bool(loader.adapters) and not rig.device.queue_tokens)
            calls += [asyncio.create_task(rig.engine.run("a", encode("x"))) for _ in range(2)]
            await until(lambda: rig.device.queue_tokens == 8)
            with pytest.raises(QueueFull) as caught:
                await rig.engine.run("a", encode("y"))
            assert caught.value.retry_after_s
            gate.set()
            await asyncio.gather(*calls)

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
            await until(lambda: bool(loader.adapters) and not rig.device.queue_tokens)
            calls += [asyncio.create_task(rig.engine.run("a", encode(f"{n}"))) for n in (1, 2)]
            await until(lambda: rig.device.queue_tokens == 8)
            stopping = asyncio.get_running_loop().run_in_executor(None, rig.device.stop)
            await asyncio.sleep(0.05)
            gate.set()
            await stopping
            results = await asyncio.gather(*calls)
            codes = [item.error.code if item.error else "ok" for r in results for item in r.items]
            assert codes == ["ok", "WORKER_UNAVAILABLE", "WORKER_UNAVAILABLE"]

    play(scenario)
