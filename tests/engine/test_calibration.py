"""Batch sizes measured while idle: used, kept, listed, and left alone where somebody asks."""

import asyncio
from collections.abc import Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
import torch

from sie_mcp.catalogue import batch_sizes
from sie_mcp.engine.batch_sizes import BatchSizes, Bounds, bounds
from sie_mcp.engine.calibration import MAX_INTERRUPTED, Calibration
from sie_mcp.engine.engine import Engine
from sie_mcp.engine.knee import Point
from sie_mcp.engine.server import Activity
from sie_mcp.metrics import REGISTRY
from tests.engine.conftest import play, running
from tests.engine.test_faults import encode
from tests.scripted_worker import until
from tests.toys import ToyLoader

CPU, LIMITS = torch.device("cpu"), Bounds(default=4_000, most=4_000, bytes_per_token=1)


class PackedLoader(ToyLoader):
    """Its models read packed texts, and are known by a revision."""

    def load(self, plan):
        adapter = super().load(plan)
        update = {"packed": True, "revision": f"revision of {plan.name}"}
        adapter.card = adapter.card.model_copy(update=update)
        return adapter


def known(tmp_path, reserved=None, limits=LIMITS) -> BatchSizes:
    heard = [] if reserved is None else reserved
    return BatchSizes(tmp_path, "a chip", limits, heard.append)


@dataclass
class Clock:
    """Seconds that pass while batches run, and at no other time.

    Attributes:
        rates: Tokens a second, for batches of about so many tokens and more.
        noise: What disturbs: longer by such a factor, for the tokens of a batch.
        held_up_s: How long threads have waited for a processor.
    """

    rates: dict[int, float]
    noise: Callable[[int], float] = lambda tokens: 1.0
    now_s: float = 0.0
    held_up_s: float | None = 0.0

    def __call__(self) -> float:
        return self.now_s

    def forward(self, batch) -> None:
        tokens = batch.num_tokens
        rate = self.rates[max(size for size in self.rates if size <= tokens)]
        self.now_s += self.noise(tokens) * tokens / rate


# The knee is the default of these tests.
RISING = {0: 1e5, 900: 1.2e5, 1_900: 1.4e5, 3_900: 2e5}


def calibration(rig, sizes, clock=None) -> Calibration:
    """Measure toys, whose speed the clock decides, on a machine that is all theirs."""
    rig.device.batch_sizes = sizes
    clock = clock or Clock(RISING)
    rig.loader.fault = clock.forward
    for adapter in rig.loader.adapters.values():
        adapter.fault = clock.forward
    return Calibration(
        rig.lanes.all[0], sizes, asyncio.Lock(), clock=clock, held_up=lambda: clock.held_up_s
    )


@asynccontextmanager
async def used_once(tmp_path, clock=None):
    """Give what measures a model that has answered once, what is known of it, and the model."""
    loader = PackedLoader()
    async with running(tmp_path, loader, budget=100_000) as rig:
        sizes = known(tmp_path)
        rig.device.batch_sizes = sizes
        await rig.engine.run("a", encode("x"))
        yield calibration(rig, sizes, clock), sizes, loader.adapters["a"]


def test_the_model_used_last_is_measured_once_and_never_again(tmp_path):
    async def scenario():
        loader = PackedLoader()
        async with running(tmp_path, loader, budget=100_000) as rig:
            sizes = known(tmp_path)
            one, activity = calibration(rig, sizes), Activity()
            assert not await one.measure(activity)  # No model is up.
            await rig.engine.run("a", encode("x"))
            idle_since_s, num_runs = activity.last_s, len(loader.adapters["a"].batches)
            assert await one.measure(activity)
            assert activity.last_s == idle_since_s
            assert len(loader.adapters["a"].batches) > num_runs
            tokens = sizes.tokens["a"]
            assert 250 <= tokens <= 4_000
            assert list(sizes.tokens) == ["a"]
            assert not await one.measure(activity)
            listed = (await rig.engine.models()).settings
            assert [(row.name, row.effective) for row in listed] == [
                ("max_batch_tokens of a", str(tokens))
            ]
        # The next start knows it as soon as the model runs.
        (kept,) = batch_sizes.read(tmp_path)
        assert (kept.model, kept.device, kept.tokens) == ("a", "a chip", tokens)
        async with used_once(tmp_path) as (one, sizes, _):
            assert sizes.tokens == {"a": tokens}
            assert not await one.measure(Activity())

    play(scenario)


def test_a_request_meanwhile_ends_it_and_it_is_tried_again(tmp_path):
    async def scenario():
        activity = Activity()
        async with used_once(tmp_path) as (one, sizes, adapter):
            activity.in_flight = 1
            assert not await one.measure(activity)
            assert sizes.tokens == {}
            assert len(adapter.batches) == 2
            activity.in_flight = 0
            assert await one.measure(activity)

    play(scenario)


def test_a_model_that_is_never_left_alone_is_given_up(tmp_path):
    async def scenario():
        activity = Activity()
        async with used_once(tmp_path) as (one, _, adapter):
            activity.in_flight = 1
            for _ in range(MAX_INTERRUPTED + 3):
                assert not await one.measure(activity)
            assert len(adapter.batches) == 1 + MAX_INTERRUPTED
            activity.in_flight = 0
            assert not await one.measure(activity)

    play(scenario)


def test_a_model_that_cannot_run_is_not_asked_again(tmp_path, caplog):
    async def scenario():
        async with used_once(tmp_path) as (one, _, adapter):
            adapter.error = ValueError("broken")
            assert not await one.measure(Activity())
            assert "not measured model=a" in caplog.text
            adapter.error = None
            assert not await one.measure(Activity())
            assert batch_sizes.read(tmp_path) == []

    play(scenario)


def test_a_fault_in_measuring_one_model_is_told_and_counted_and_others_are_measured(
    tmp_path, caplog, monkeypatch
):
    def broken(_):
        raise RuntimeError("no tokenizer foresaw this")

    async def scenario():
        loader = PackedLoader()
        async with running(tmp_path, loader, budget=100_000) as rig:
            sizes, activity = known(tmp_path), Activity()
            one = calibration(rig, sizes)
            monkeypatch.setattr("sie_mcp.engine.calibration.IDLE_S", 0.0)
            await rig.engine.run("a", encode("x"))
            monkeypatch.setattr(loader.adapters["a"], "prepare", broken)
            idle = asyncio.create_task(one.run(activity, every_s=0.001))
            await until(lambda: "measuring failed model=a" in caplog.text)
            await rig.engine.run("b", encode("x"))
            await until(lambda: "b" in sizes.tokens)
            assert not idle.done()
            assert "a" not in sizes.tokens
            assert "no tokenizer foresaw this" in caplog.text
            idle.cancel()

    before = failures()
    play(scenario)
    assert failures() == before + 1


def failures() -> float:
    return REGISTRY.get_sample_value("sie_calibrations_failed_total") or 0.0


def test_batches_have_the_measured_size_and_no_others(tmp_path):
    async def scenario():
        loader = PackedLoader()
        # A text has six tokens.
        async with running(tmp_path, loader, max_batch_tokens=13) as rig:
            sizes = rig.device.batch_sizes = known(tmp_path)
            for name, tokens in (("small", 6), ("large", 40)):
                sizes.found(await _card(rig.engine, name), tokens, [])
            for name in ("small", "large", "unknown"):
                await rig.engine.run(name, encode(*("x y" for _ in range(6))))
        most = {name: max(one.batches) for name, one in loader.adapters.items()}
        assert most == {"small": 1, "large": 6, "unknown": 2}

    play(scenario)


async def _card(engine: Engine, name: str):
    await engine.run(name, encode("x"))
    (card,) = [one for one in (await engine.models()).models if one.name == name]
    return card


def test_a_kept_size_is_of_its_revision_and_device_and_within_the_bounds(tmp_path):
    async def scenario():
        async with running(tmp_path, PackedLoader()) as rig:
            card = await _card(rig.engine, "a")
        reserved = []
        first = known(tmp_path, reserved)
        first.keep(first.found(card, 3_000, [Point(3_000, 3_000, 1.0)]))
        assert reserved == [3_000]
        again = known(tmp_path, limits=Bounds(1_000, 1_000, 1))
        again.hear("a", card.model_copy(update={"revision": "another"}))
        assert again.tokens == {}
        again.hear("a", card)
        assert again.tokens == {"a": 1_000}
        again.hear("a", card.model_copy(update={"revision": "another"}))
        assert again.tokens == {}
        other = BatchSizes(tmp_path, "another chip", LIMITS, reserved.append)
        other.hear("a", card)
        assert other.tokens == {}
        assert other.wants(card)
        assert not first.wants(card)
        for update in ({"packed": False}, {"inputs": ["image"]}, {"revision": None}):
            assert not other.wants(card.model_copy(update=update))

    play(scenario)


@pytest.mark.parametrize(
    ("device", "total", "most"),
    [("cpu", 10**9, 100), ("cuda", 10**9, 400), ("cuda", 16 * 250, 250), ("cuda", 16, 100)],
)
def test_only_a_gpu_with_room_tries_more_than_the_default(device, total, most):
    assert bounds(torch.device(device), 100, total, 1) == Bounds(100, most, 1)
