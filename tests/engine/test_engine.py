"""The engine through its one door: order, limits, single flight, eviction, faults, cancellation."""

import asyncio
import random
import threading
import time

import numpy as np
import pytest

from sie_mcp import wire
from sie_mcp.engine.loads import Loads
from sie_mcp.errors import (
    DownloadFailed,
    ModelLoadFailed,
    ModelLoading,
    ModelTooLarge,
)
from tests.engine.conftest import play, running, until
from tests.toy_worker import SlowGate
from tests.toys import ToyLoader, toy_vector


def encode(*texts: str) -> wire.EncodeRequest:
    return wire.EncodeRequest(items=[wire.Item(text=text) for text in texts])


def vectors(response: wire.EncodeResponse) -> list[np.ndarray]:
    return [item.dense.values for item in response.items]


def test_every_text_gets_its_own_vector_in_order_whatever_runs_beside_it(tmp_path):
    """Case T46: 32 callers, 1,024 lists of 1 to 100 texts; a vector tells its text."""

    async def scenario():
        async with running(tmp_path) as rig:
            random_lists = random.Random(3)

            async def caller(number: int) -> None:
                for turn in range(32):
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
    tmp_path, toy_loader, monkeypatch
):
    """Case T44."""
    waiting = []
    join = Loads.join

    async def counted(loads: Loads, name: str, wait_s: float) -> None:
        waiting.append(name)
        await join(loads, name, wait_s)

    monkeypatch.setattr(Loads, "join", counted)

    async def scenario():
        toy_loader.gate.clear()
        toy_loader.errors["a"] = [ModelLoadFailed("model.safetensors is cut short")]
        async with running(tmp_path, toy_loader) as rig:
            calls = [asyncio.create_task(rig.engine.run("a", encode("x"))) for _ in range(50)]
            await until(lambda: len(waiting) == len(calls))
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
            # One that took long to load, as on a busy machine, stays a little longer than others.
            residents = rig.ledger.residents()
            await until(lambda: all(one.may_leave_s() <= time.monotonic() for one in residents))
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
            await until(lambda: loader.num_held == 1)
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
