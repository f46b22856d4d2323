"""Measures, while nobody asks for anything, how large batches of the model used last should be.

Goes through the queue as any request does, with batches of a name of its own; stops when a request
comes, and begins again later. What others did to the machine meanwhile is not to be kept: see
`Passes`. Counts as nobody's use.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Protocol

from sie_mcp import metrics, wire
from sie_mcp.adapters.adapter import Adapter, Prepared
from sie_mcp.engine.batch_sizes import BatchSizes
from sie_mcp.engine.held_up import held_up_s
from sie_mcp.engine.idle_proof import request_of
from sie_mcp.engine.knee import Sweep, sizes
from sie_mcp.engine.lane import Lane
from sie_mcp.engine.passes import Passes
from sie_mcp.engine.tickets import Terms
from sie_mcp.errors import SieError

logger = logging.getLogger(__name__)

LOOK_EVERY_S = 5.0
# So long nobody must have asked.
IDLE_S = 10.0
LIMIT_S = 5.0
# A request that comes waits for one batch at most.
BATCH_LIMIT_S = 0.5
# The part of the time that threads may wait for a processor, together, for speeds to be their own.
MAX_HELD_UP = 0.2
# Requests that come now and then would else have the same measured again and again.
MAX_INTERRUPTED = 5
# About two hundred tokens: half of what most models read.
_ITEM = wire.Item(text="A blue cotton shirt with long sleeves, for men. " * 18)


class Activity(Protocol):
    """Knows when somebody asked last."""

    last_s: float
    in_flight: int

    def idle_s(self) -> float:
        """Seconds without a request."""


class Calibration:
    """Measures on one device, from the event loop.

    Args:
        lane: Of the device.
        batch_sizes: Says what is wanted, and hears what was found.
        turn: Held while measuring: devices of one process share its processors.
        clock: Seconds, monotonic.
        held_up: Seconds that threads waited for a processor; None where nobody knows.
    """

    def __init__(
        self,
        lane: Lane,
        batch_sizes: BatchSizes,
        turn: asyncio.Lock,
        *,
        clock: Callable[[], float] = time.perf_counter,
        held_up: Callable[[], float | None] = held_up_s,
    ) -> None:
        self._lane, self._turn = lane, turn
        self._sizes = batch_sizes
        self._clock, self._held_up = clock, held_up
        self._passes = Passes(batch_sizes.limits.default)
        # Of the model that was measured last, how often a request came in between.
        self._interrupted = ("", 0)

    async def run(self, activity: Activity, every_s: float = LOOK_EVERY_S) -> None:
        """Look for a model to measure whenever the worker is idle; ends when cancelled."""
        while self._lane.thread.failure is None:
            await asyncio.sleep(every_s)
            if activity.idle_s() >= IDLE_S and not self._lane.thread.has_work:
                async with self._turn:
                    await self.measure(activity)

    async def measure(self, activity: Activity) -> bool:
        """Measure the model used last, if that is wanted; False where nothing came of it."""
        with self._lane.residency.keep_latest() as adapter:
            if adapter is None or not self._is_due(adapter.card):
                return False
            try:
                return await self._measure(adapter, activity)
            except SieError as error:
                logger.warning("not measured model=%s error=%s", adapter.card.name, error)
            except Exception:
                # Nobody asked for this and nobody would hear of it; other models can be measured.
                logger.exception("measuring failed model=%s", adapter.card.name)
            metrics.CALIBRATIONS_FAILED.inc()
            self._sizes.give_up(adapter.card)
            return False

    def _is_due(self, card: wire.ModelCard) -> bool:
        return self._sizes.wants(card) and self._passes.is_due(card.revision or "", self._clock())

    async def _measure(self, adapter: Adapter, activity: Activity) -> bool:
        """Measure one model; False where that was disturbed, takes too long, or is to be confirmed.

        Raises:
            SieError: the model cannot run.
        """
        name = f"{adapter.card.name} (measured)"
        since_s, held_up_before_s = self._clock(), self._held_up()
        try:
            sweep = await self._sweep(name, adapter, activity)
        finally:
            self._sizes.forget(name)
        if sweep is None:
            self._note_interrupted(adapter.card)
            return False
        is_busy = self._is_busy(self._clock() - since_s, held_up_before_s)
        tokens = sweep.result()
        if tokens is None and not is_busy:
            # Tried again at the next start.
            logger.info("too slow to measure model=%s", adapter.card.name)
            self._sizes.give_up(adapter.card)
            return False
        believed = self._believed(adapter.card, None if is_busy else tokens)
        if believed is None:
            return False
        measured = self._sizes.found(adapter.card, believed, sweep.points)
        await asyncio.to_thread(self._sizes.keep, measured)
        return True

    def _is_busy(self, seconds: float, held_up_before_s: float | None) -> bool:
        """Whether others had so much of the processors meanwhile that speeds are not this one's."""
        held_up_now_s = self._held_up()
        if held_up_before_s is None or held_up_now_s is None:
            return False
        return held_up_now_s - held_up_before_s > MAX_HELD_UP * seconds

    def _believed(self, card: wire.ModelCard, tokens: int | None) -> int | None:
        """Return what holds from now on; None: the default, and it is measured again later."""
        model = card.revision or ""
        believed = self._passes.note(model, tokens, self._clock())
        if believed is None:
            found = "nothing: the machine is busy" if tokens is None else str(tokens)
            logger.info("to be confirmed model=%s found=%s", card.name, found)
            if self._passes.is_over(model):
                logger.info("no two measurements agree model=%s", card.name)
                self._sizes.give_up(card)
        return believed

    def _note_interrupted(self, card: wire.ModelCard) -> None:
        """Count; give a model up, until the next start, that is never left alone for so long."""
        name, times = self._interrupted
        times = times + 1 if name == card.name else 1
        self._interrupted = (card.name, times)
        if times >= MAX_INTERRUPTED:
            logger.info("never idle for long enough to measure model=%s", card.name)
            self._sizes.give_up(card)

    async def _sweep(self, name: str, adapter: Adapter, activity: Activity) -> Sweep | None:
        """Return the speeds; None: somebody asked for something meanwhile.

        Raises:
            SieError: the model cannot run.
        """
        since_s = activity.last_s
        sweep = Sweep(self._room(), limit_s=LIMIT_S, batch_limit_s=BATCH_LIMIT_S)
        batches: dict[int, Prepared] = {}
        while (size := sweep.next_size()) is not None:
            if size not in batches:
                batches[size] = await asyncio.to_thread(_prepared, adapter, size)
            prepared = batches[size]
            # The batch is one, whatever the tokens of an item.
            self._sizes.tokens[name] = max(size, prepared.num_tokens)
            seconds = await self._timed(name, adapter, prepared)
            if activity.in_flight or activity.last_s != since_s:
                return None
            sweep.note(prepared.num_tokens, seconds)
        return sweep

    async def _timed(self, name: str, adapter: Adapter, prepared: Prepared) -> float:
        started_s = self._clock()
        results, _ = await self._lane.thread.run(name, adapter, prepared, Terms("bulk"))
        seconds = self._clock() - started_s
        for result in results:
            if isinstance(result, SieError):
                raise result
        return seconds

    def _room(self) -> tuple[int, ...]:
        """Return the sizes whose workspace memory has now; the default's is always there."""
        limits = self._sizes.limits
        more = max(self._lane.ledger.free_bytes, 0) // limits.bytes_per_token
        return sizes(limits.default, min(limits.most, limits.default + more))


def _prepared(adapter: Adapter, size: int) -> Prepared:
    """Return about as many tokens, of one item at least."""
    one = adapter.prepare(request_of(adapter, [_ITEM]))
    return adapter.prepare(request_of(adapter, [_ITEM] * max(size // max(one.num_tokens, 1), 1)))
