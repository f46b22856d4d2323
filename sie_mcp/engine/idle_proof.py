"""The proof that an idle worker still works: now and then a real, tiny forward pass.

Goes through the queue as any request does, and is watched as any; so a device that was lost while
nobody asked is found before somebody does. Counts as nobody's use.
"""

import asyncio
import logging
from typing import Protocol

from sie_mcp import wire
from sie_mcp.adapters.adapter import Adapter
from sie_mcp.engine.device import DeviceThread
from sie_mcp.engine.residency import Residency
from sie_mcp.errors import SieError

logger = logging.getLogger(__name__)

PROVE_EVERY_S = 60.0
_ITEMS = [wire.Item(text="proof")]


class Idle(Protocol):
    """Knows how long nobody has asked for anything."""

    def idle_s(self) -> float:
        """Seconds without a request."""


class IdleProof:
    """Proves one device, from the event loop."""

    def __init__(self, residency: Residency, device: DeviceThread) -> None:
        self._residency = residency
        self._device = device

    async def run(self, activity: Idle, every_s: float = PROVE_EVERY_S) -> None:
        """Prove the device whenever it was idle for so long; ends when cancelled."""
        while self._device.failure is None:
            await asyncio.sleep(every_s)
            if activity.idle_s() >= every_s and not self._device.queue_tokens:
                await self.prove()

    async def prove(self) -> bool:
        """Run one short text through the model used last; False where there was none to run.

        A device that fails gives itself up; a model that fails is only reported.
        """
        with self._residency.keep_latest() as adapter:
            if adapter is None:
                return False
            name = adapter.card.name
            try:
                prepared = await asyncio.to_thread(adapter.prepare, _request(adapter))
                results, _ = await self._device.run(name, adapter, prepared)
            except SieError as error:
                logger.warning("no proof model=%s error=%s", name, error)
                return False
        for result in results:
            if isinstance(result, SieError):
                logger.warning("proof failed model=%s error=%s", name, result)
        return bool(results)


def request_of(adapter: Adapter, items: list[wire.Item]) -> wire.Request:
    """Return a plain request for these texts that the model takes."""
    primitives = adapter.card.primitives
    if "encode" in primitives:
        return wire.EncodeRequest(items=items)
    if "score" in primitives:
        return wire.ScoreRequest(query=_ITEMS[0], items=items)
    labels = None if adapter.card.labels else ["proof"]
    return wire.ExtractRequest(items=items, params=wire.ExtractParams(labels=labels))


def _request(adapter: Adapter) -> wire.Request:
    """Return the smallest request that the model takes."""
    return request_of(adapter, _ITEMS)
