"""Models that leave the device for host memory and come back, through the engine's one door."""

import asyncio
import random
import threading

import numpy as np
import pytest
import torch
from transformers import BertModel

from sie_mcp import wire
from sie_mcp.catalogue.fetch import FetchOptions
from sie_mcp.engine.loader import CheckpointLoader
from sie_mcp.engine.registry import Registry
from sie_mcp.errors import OutOfMemory
from tests.engine.conftest import PAGE_BYTES, play, running, until
from tests.tiny import bert_config, save_model
from tests.toy_worker import CATALOGUE
from tests.toys import ToyLoader, toy_vector

SIZE = 2048


def encode(*texts: str) -> wire.EncodeRequest:
    return wire.EncodeRequest(items=[wire.Item(text=text) for text in texts])


def vectors(response: wire.EncodeResponse) -> np.ndarray:
    return np.stack([item.dense.values for item in response.items])


async def settled(rig) -> None:
    """Wait until no copy is being made."""
    await until(lambda: all(not one.users for one in rig.host.copies()))


async def check(rig, model: str, text: str = "x") -> None:
    response = await rig.engine.run(model, encode(text))
    assert (vectors(response)[0] == toy_vector(text)).all()


def states(rig) -> dict[str, str]:
    return {name: card.state for name, card in rig.residency.cards().items()}


def test_two_models_in_turn_are_read_once_and_give_the_same_bits_ever_after(tmp_path):
    """Case T36: 200 requests in turn, memory for one."""
    folders = [tmp_path / name for name in "ab"]
    for seed, folder in enumerate(folders):
        save_model(folder, BertModel(bert_config()), seed=seed)
    registry = Registry(CATALOGUE, tmp_path, FetchOptions(offline=True))
    loader = CheckpointLoader(registry, torch.device("cpu"), torch.float32)
    plans = [loader.plan(str(folder)) for folder in folders]
    size = plans[0].size_bytes
    reads = []
    loader.load, load = lambda plan: reads.append(plan.name) or load(plan), loader.load

    async def scenario():
        budget = int(1.5 * size)
        async with running(tmp_path, loader, budget=budget, host_budget=10 * size) as rig:
            first: dict[str, np.ndarray] = {}
            for turn in range(200):
                name = str(folders[turn % 2])
                found = vectors(await rig.engine.run(name, encode("alpha", "hello world")))
                assert (found == first.setdefault(name, found)).all()
                assert rig.ledger.resident_bytes == size
            await settled(rig)
            assert not (first[str(folders[0])] == first[str(folders[1])]).any()
            assert reads == [plan.name for plan in plans]
            assert rig.ledger.free_bytes == budget - size
            pages = -(-size // PAGE_BYTES)
            assert rig.host.used_bytes == 2 * pages * PAGE_BYTES
            assert states(rig) == {str(folders[0]): "host", str(folders[1]): "loaded"}

    play(scenario)


def test_host_memory_too_is_left_by_the_least_recently_used(tmp_path):
    loader = ToyLoader(sizes=dict.fromkeys("abcd", SIZE), has_weights=True)

    async def scenario():
        async with running(tmp_path, loader, budget=SIZE, host_budget=2 * SIZE) as rig:
            for name in "abc":
                await check(rig, name)
                await settled(rig)
            # c is on the device, and what is left of host memory is for those that are not.
            assert states(rig) == {"a": "host", "b": "host", "c": "loaded"}
            await check(rig, "d")
            assert states(rig) == {"b": "host", "c": "host", "d": "loaded"}
            await check(rig, "b")
            assert loader.loads == ["a", "b", "c", "d"]
            await settled(rig)
            assert rig.host.used_bytes <= 2 * SIZE
            await check(rig, "a")
            assert loader.loads == ["a", "b", "c", "d", "a"]

    play(scenario)


def test_the_listing_says_what_is_where(tmp_path):
    loader = ToyLoader(sizes=dict.fromkeys("ab", SIZE), has_weights=True)

    async def scenario():
        async with running(tmp_path, loader, budget=SIZE, host_budget=4 * SIZE) as rig:
            await check(rig, "a")
            await check(rig, "b")
            await settled(rig)
            cards = {card.name: card for card in (await rig.engine.models()).models}
            assert (cards["a"].state, cards["a"].loaded, cards["a"].outputs) == (
                "host", False, ["dense"],
            )  # fmt: skip
            assert (cards["a"].resident_bytes, cards["a"].host_bytes) == (0, SIZE)
            assert (cards["b"].resident_bytes, cards["b"].host_bytes) == (SIZE, SIZE)
            memory = (await rig.engine.models()).memory
            assert memory["resident_bytes"] == SIZE
            assert (memory["host_budget_bytes"], memory["host_bytes"]) == (4 * SIZE, 2 * SIZE)

    play(scenario)


def test_without_room_on_the_host_a_model_is_read_again(tmp_path):
    loader = ToyLoader(sizes=dict.fromkeys("ab", SIZE), has_weights=True)

    async def scenario():
        async with running(tmp_path, loader, budget=SIZE, host_budget=SIZE - 1) as rig:
            for name in "abab":
                await check(rig, name)
            assert loader.loads == ["a", "b", "a", "b"]
            assert rig.host.used_bytes == 0
            assert states(rig) == {"b": "loaded"}

    play(scenario)


def test_a_copy_that_cannot_be_made_costs_a_read_and_no_more(tmp_path, monkeypatch):
    loader = ToyLoader(sizes=dict.fromkeys("ab", SIZE), has_weights=True)

    def refuse(*_):
        raise OutOfMemory("no host memory for weights")

    async def scenario():
        async with running(tmp_path, loader, budget=SIZE, host_budget=4 * SIZE) as rig:
            with monkeypatch.context() as patch:
                patch.setattr("sie_mcp.engine.host_pages.HostPages.get", refuse)
                await check(rig, "a")
                await check(rig, "b")
                await settled(rig)
                assert states(rig) == {"b": "loaded"}
                assert rig.host.used_bytes == 0
            await check(rig, "a")
            assert states(rig) == {"a": "loaded", "b": "host"}
            await check(rig, "b")
            assert loader.loads == ["a", "b", "a"]

    play(scenario)


def test_a_swap_that_finds_no_memory_gives_everything_back(tmp_path, monkeypatch):
    loader = ToyLoader(sizes=dict.fromkeys("ab", SIZE), has_weights=True)
    tries = []

    def refuse(weights, *_):
        tries.append(weights)
        raise torch.OutOfMemoryError("CUDA out of memory")

    async def scenario():
        async with running(tmp_path, loader, budget=SIZE, host_budget=4 * SIZE) as rig:
            await check(rig, "a")
            await check(rig, "b")
            with monkeypatch.context() as patch:
                patch.setattr("sie_mcp.adapters.flat.FlatWeights.enter", refuse)
                with pytest.raises(OutOfMemory, match="no memory to bring a back now; call again"):
                    await rig.engine.run("a", encode("x"))
            # Once more after the caches were emptied.
            assert len(tries) == 2
            await settled(rig)
            assert rig.ledger.resident_bytes == 0
            assert states(rig) == {"a": "failed", "b": "host"}
            for name in "aba":
                await check(rig, name)
            assert loader.loads == ["a", "b"]

    play(scenario)


@pytest.mark.parametrize("host_models", [2, 3, 6])
def test_many_clients_of_many_models_get_their_own_numbers(tmp_path, host_models):
    sizes = {name: SIZE * (1 + number % 2) for number, name in enumerate("abcdef")}
    loader = ToyLoader(sizes=sizes, has_weights=True)

    async def scenario():
        budget = {"budget": 3 * SIZE, "host_budget": host_models * 2 * SIZE}
        async with running(tmp_path, loader, **budget) as rig:

            async def client(number: int) -> None:
                choice = random.Random(number)
                for turn in range(12):
                    model = choice.choice(sorted(sizes))
                    await check(rig, model, f"{number} {turn}")
                    assert rig.ledger.resident_bytes <= rig.ledger.budget_bytes
                    assert rig.host.used_bytes <= rig.host.budget_bytes

            await asyncio.gather(*(client(number) for number in range(12)))
            await settled(rig)
            assert all(not one.users for one in rig.ledger.residents())
            on_device = [name for name, state in states(rig).items() if state == "loaded"]
            assert rig.ledger.resident_bytes == sum(sizes[name] for name in on_device)
            held = [card.host_bytes for card in rig.residency.cards().values()]
            assert rig.host.used_bytes == sum(held)
            if host_models == 6:
                assert sorted(loader.loads) == sorted(sizes)

    play(scenario)


def test_a_swap_holds_up_no_other_model(tmp_path, monkeypatch):
    loader = ToyLoader(sizes=dict.fromkeys("abc", SIZE), has_weights=True)
    gate = threading.Event()

    async def scenario():
        async with running(tmp_path, loader, budget=2 * SIZE, host_budget=9 * SIZE) as rig:
            for name in "abc":
                await check(rig, name)
            await settled(rig)
            assert states(rig)["a"] == "host"
            enter = type(loader.adapters["a"].weights).enter

            def late(*args):
                assert gate.wait(30)
                enter(*args)

            monkeypatch.setattr("sie_mcp.adapters.flat.FlatWeights.enter", late)
            swap = asyncio.create_task(rig.engine.run("a", encode("x")))
            await until(lambda: states(rig)["a"] == "loading")
            loaded = next(name for name, state in states(rig).items() if state == "loaded")
            for _ in range(5):
                await check(rig, loaded)
            assert not swap.done()
            gate.set()
            assert (vectors(await swap)[0] == toy_vector("x")).all()

    play(scenario)


def test_a_model_stays_until_the_batch_of_a_cancelled_request_has_run(tmp_path):
    gate = threading.Event()
    loader = ToyLoader(sizes=dict.fromkeys("ab", SIZE), has_weights=True, forward_gate=gate)

    async def scenario():
        async with running(tmp_path, loader, budget=SIZE, host_budget=4 * SIZE) as rig:
            cancelled = asyncio.create_task(rig.engine.run("a", encode("x")))
            await until(lambda: "a" in loader.adapters and rig.device.is_busy)
            cancelled.cancel()
            other = asyncio.create_task(rig.engine.run("b", encode("y")))
            await until(lambda: "b" in rig.residency.cards())
            await asyncio.sleep(0.05)
            # A client that leaves twice is as gone as one that left once.
            cancelled.cancel()
            await asyncio.sleep(0.05)
            assert not cancelled.done()
            assert loader.adapters["a"].weights.is_here
            assert not rig.residency.cards()["b"].loaded
            gate.set()
            with pytest.raises(asyncio.CancelledError):
                await cancelled
            assert (vectors(await other)[0] == toy_vector("y")).all()
            assert loader.adapters["a"].batches == [1]

    play(scenario)


def test_a_copy_that_is_on_its_way_to_the_device_is_not_dropped(tmp_path, monkeypatch):
    loader = ToyLoader(sizes=dict.fromkeys("ab", SIZE), has_weights=True)
    gate = threading.Event()

    async def scenario():
        async with running(tmp_path, loader, budget=SIZE, host_budget=4 * SIZE) as rig:
            await check(rig, "a")
            await check(rig, "b")
            await settled(rig)
            # A device with other work would wait for the copy before the request is in its queue.
            await until(lambda: not rig.device.is_busy)
            weights = loader.adapters["a"].weights
            monkeypatch.setattr(weights, "arrived", lambda: gate.wait(30))
            swap = asyncio.create_task(rig.engine.run("a", encode("x")))
            await until(lambda: states(rig).get("a") == "loaded")
            assert rig.host.get("a").users == 1
            await swap
            unload = asyncio.create_task(rig.residency.unload("a", "all"))
            rig.residency.swaps.forget("a")
            assert rig.host.get("a") is not None
            gate.set()
            await unload
            assert states(rig) == {"b": "host"}
            assert rig.host.get("a") is None

    play(scenario)
