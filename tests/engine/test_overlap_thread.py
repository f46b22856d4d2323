"""Batches that overlap on the device thread: what fails, is given up or leaves, as before."""

import asyncio
import threading

import numpy as np
import pytest

from sie_mcp import wire
from sie_mcp.adapters.fast_paths import FastAdapter
from sie_mcp.engine import device
from sie_mcp.errors import WorkerLost
from tests.engine.conftest import out_of_memory_steps, play, running, until
from tests.engine.test_out_of_memory import check, encode, fits
from tests.toys import POISON, ToyLoader

TEXTS = [f"{number} " + "w " * 20 for number in range(40)]
SMALL = {"max_batch_sequences": 4}


class OverlapLoader(ToyLoader):
    """Toy models whose batches overlap."""

    def load(self, plan):
        return FastAdapter(super().load(plan), frozenset({"overlap"}))


@pytest.fixture(autouse=True)
def begun(monkeypatch):
    """Count the batches that were begun before the last one was waited for."""
    counts = {"ahead": 0, "open": 0}
    start, finish = device.DeviceThread._start, device.DeviceThread._finish

    def counted_start(self, places):
        running = start(self, places)
        counts["ahead"] += counts["open"] > 0
        counts["open"] += running.overlaps
        return running

    def counted_finish(self, running):
        counts["open"] -= running.overlaps
        finish(self, running)

    monkeypatch.setattr(device, "OVERLAP_TOKENS", 1)
    monkeypatch.setattr(device.DeviceThread, "_start", counted_start)
    monkeypatch.setattr(device.DeviceThread, "_finish", counted_finish)
    return counts


def test_each_text_has_its_own_vector(tmp_path, begun):
    async def scenario():
        async with running(tmp_path, OverlapLoader(), **SMALL) as rig:
            found = await asyncio.gather(encode(rig, "a", *TEXTS), encode(rig, "b", *TEXTS[::-1]))
            check(found[0], TEXTS)
            check(found[1], TEXTS[::-1])
            assert not rig.device._queue._jobs
        assert begun["ahead"] > 5

    play(scenario)


def test_without_the_way_none_is_begun_ahead(tmp_path, begun):
    async def scenario():
        async with running(tmp_path, ToyLoader(), **SMALL) as rig:
            check(await encode(rig, "a", *TEXTS), TEXTS)
        assert begun["ahead"] == 0

    play(scenario)


def test_one_text_that_fails_spares_all_others(tmp_path, begun):
    async def scenario():
        async with running(tmp_path, OverlapLoader(), **SMALL) as rig:
            texts = [*TEXTS[:9], POISON, *TEXTS[9:]]
            items = await encode(rig, "a", *texts)
            assert items[9].error.code == "INFERENCE_ERROR"
            check(items[:9] + items[10:], TEXTS)
        assert begun["ahead"]

    play(scenario)


def test_what_does_not_fit_goes_down_the_ladder_in_its_turn(tmp_path, begun):
    async def scenario():
        loader = OverlapLoader(fault=fits(60))
        async with running(tmp_path, loader, **SMALL) as rig:
            halved = out_of_memory_steps("halve")
            check(await encode(rig, "a", *TEXTS), TEXTS)
            assert out_of_memory_steps("halve") > halved
        assert begun["ahead"]

    play(scenario)


def test_two_that_are_on_their_way_and_do_not_fit_are_one_lesson(tmp_path, begun):
    async def scenario():
        loader = OverlapLoader(fault=fits(8_192))
        async with running(tmp_path, loader, max_batch_tokens=16_384, max_batch_sequences=512) as r:
            texts = [f"{number} " + "w " * 125 for number in range(200)]
            check(await encode(r, "a", *texts), texts)
            (budget,) = r.device._forwards.budgets.tokens.values()
            assert 8_000 < budget <= 8_192
        assert begun["ahead"]

    play(scenario)


def test_who_is_given_up_leaves_when_both_of_its_batches_are_off(tmp_path):
    async def scenario():
        gate = threading.Event()
        async with running(tmp_path, OverlapLoader(forward_gate=gate), **SMALL) as rig:
            given_up = asyncio.create_task(encode(rig, "a", *TEXTS))
            await until(lambda: any(job.is_running for job in rig.device._queue._jobs))
            other = asyncio.create_task(encode(rig, "a", *TEXTS[:3]))
            given_up.cancel()
            await until(lambda: any(job.left is not None for job in rig.device._queue._jobs))
            assert not given_up.done()
            gate.set()
            with pytest.raises(asyncio.CancelledError):
                await given_up
            check(await other, TEXTS[:3])
            assert not rig.device._queue._jobs
            assert rig.scheduler.queue_tokens == 0

    play(scenario)


def test_a_model_leaves_only_when_none_of_its_batches_runs(tmp_path, begun):
    """Two models of which one fits at a time, each asked for again and again."""

    async def scenario():
        loader = OverlapLoader(has_weights=True, size_bytes=600)
        async with running(tmp_path, loader, budget=1_000, host_budget=4_096, **SMALL) as rig:
            for _ in range(3):
                found = await asyncio.gather(*(encode(rig, name, *TEXTS) for name in "ab"))
                for items in found:
                    check(items, TEXTS)
        assert begun["ahead"]

    play(scenario)


def test_a_lost_device_answers_both_batches(tmp_path):
    async def scenario():
        def lost(batch):
            if batch.num_seqs == 3:
                raise SystemExit("lethal")

        loader = OverlapLoader(fault=lost)
        async with running(tmp_path, loader, max_batch_sequences=4) as rig:
            with pytest.raises(WorkerLost):
                await rig.engine.run(
                    "a", wire.EncodeRequest(items=[wire.Item(text=one) for one in TEXTS[:7]])
                )
            assert not rig.device.is_alive

    play(scenario)


def test_vectors_are_the_same_bits_with_and_without(tmp_path):
    async def scenario():
        found = []
        for loader in (OverlapLoader(), ToyLoader()):
            async with running(tmp_path, loader, **SMALL) as rig:
                found.append(await encode(rig, "a", *TEXTS))
        for one, other in zip(*found, strict=True):
            assert np.array_equal(one.dense.values, other.dense.values)

    play(scenario)
