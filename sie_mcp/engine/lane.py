"""One device with all that serves it: its models, its memory account, its queue and its thread.

And the choice among several: which lane runs a request. The decision itself is placement's.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from sie_mcp import wire_memory
from sie_mcp.engine.device import DeviceThread
from sie_mcp.engine.hardware import AllocatorBytes, allocator_bytes
from sie_mcp.engine.memory import Ledger
from sie_mcp.engine.placement import LaneState, place
from sie_mcp.engine.residency import Residency
from sie_mcp.errors import SieError
from sie_mcp.wire_fields import ModelState

logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class Lane:
    """One device. `name` tells two lanes of one device apart.

    Attributes:
        tokens: Estimated tokens of the requests that were sent here and are not answered.
    """

    name: str
    ledger: Ledger
    residency: Residency
    thread: DeviceThread
    tokens: int = 0

    def state(self, model: str, size_bytes: int) -> LaneState:
        """Return what a placement wants to know."""
        resident = self.ledger.get(model)
        is_loading = self.residency.is_loading(model)
        return LaneState(
            holds=is_loading or resident is not None,
            is_warm=model in self.residency.swaps.warm,
            is_ready=resident is not None and not is_loading and not resident.is_closing,
            wait_s=self.thread.wait_s,
            tokens=self.tokens,
            evicted_bytes=self.ledger.evicted_bytes(size_bytes),
            free_bytes=self.ledger.free_bytes,
            num_loading=self.residency.num_loading,
            load_s=resident.load_s if resident else 0.0,
        )

    @contextmanager
    def claimed(self, tokens: int) -> Iterator[None]:
        """Count a request's tokens as this lane's until it is answered."""
        self.tokens += tokens
        try:
            yield
        finally:
            self.tokens -= tokens

    def account(self, now_s: float) -> wire_memory.DeviceMemory:
        """Return the whole account of the device."""
        allocator = allocator_bytes(self.thread.device) or AllocatorBytes(None, None)
        ledger = self.ledger
        return wire_memory.DeviceMemory(
            device=self.name,
            budget_bytes=ledger.budget_bytes,
            reserved_bytes=ledger.reserved_bytes,
            resident_bytes=ledger.resident_bytes,
            free_bytes=ledger.free_bytes,
            pinned_bytes=ledger.pinned_bytes,
            queue_tokens=self.thread.queue_tokens,
            allocated_bytes=allocator.allocated,
            cached_bytes=allocator.cached,
            host=self._host(),
            thrash=self._thrash(now_s),
            models=self.models(now_s),
        )

    def models(self, now_s: float) -> list[wire_memory.ModelMemory]:
        """Return the account of each model that is here or coming, who leaves first first."""
        return [
            wire_memory.ModelMemory(
                name=one.name,
                device=self.name,
                state=_state(one.loaded_at_s),
                size_bytes=one.size_bytes,
                users=one.users,
                pinned=one.is_pinned,
                unused_s=round(max(now_s - one.last_used_s, 0.0), 3),
                load_s=round(one.load_s, 6),
                thrash=self._thrash(now_s, one.name),
            )
            for one in self.ledger.residents()
        ]

    def _host(self) -> wire_memory.HostMemory:
        host = self.residency.swaps.ledger
        return wire_memory.HostMemory(
            budget_bytes=host.budget_bytes,
            resident_bytes=host.used_bytes,
            models=[
                wire_memory.HostModel(name=one.name, size_bytes=one.size_bytes)
                for one in host.copies()
            ],
        )

    def _thrash(self, now_s: float, name: str | None = None) -> wire_memory.Thrash:
        figures = self.residency.thrash.figures(now_s, name)
        return wire_memory.Thrash.model_validate(figures, from_attributes=True)


class Lanes:
    """All devices of a worker, the first one first.

    Args:
        lanes: At least one.
        sizes: What a model is said to take, before it was ever loaded; 0 if nobody knows.
    """

    def __init__(self, lanes: Sequence[Lane], sizes: Callable[[str], int] = lambda _: 0) -> None:
        self.all = tuple(lanes)
        self._sizes = sizes

    @property
    def failure(self) -> str | None:
        """Why a device will never run a batch again; None while all do."""
        return next((lane.thread.failure for lane in self.all if lane.thread.failure), None)

    def choose(self, model: str) -> Lane:
        """Return the lane for a request, and begin a copy elsewhere if the model is that busy."""
        if len(self.all) == 1:
            return self.all[0]
        size_bytes = self._size(model)
        placing = place([lane.state(model, size_bytes) for lane in self.all])
        if placing.replicate_to is not None:
            self._replicate(model, self.all[placing.replicate_to])
        return self.all[placing.lane]

    def holding(self, model: str) -> list[Lane]:
        """Return the lanes where a model is, or is coming."""
        return [
            lane
            for lane in self.all
            if lane.ledger.get(model) is not None or lane.residency.is_loading(model)
        ]

    def _size(self, model: str) -> int:
        known = (lane.ledger.get(model) for lane in self.all)
        return next((one.size_bytes for one in known if one is not None), self._sizes(model))

    def _replicate(self, model: str, lane: Lane) -> None:
        try:
            lane.residency.start_load(model)
        except SieError as error:
            logger.debug("no copy model=%s device=%s error=%s", model, lane.name, error)
            return
        logger.info("copying model=%s device=%s", model, lane.name)


def _state(loaded_at_s: float | None) -> ModelState:
    return "loading" if loaded_at_s is None else "loaded"


def totals(lanes: Sequence[Lane]) -> dict[str, int]:
    """Return the account of all devices together, in bytes."""
    sums: dict[str, int] = {}
    for lane in lanes:
        for name, value in lane.residency.memory().items():
            sums[name] = sums.get(name, 0) + value
    return sums
