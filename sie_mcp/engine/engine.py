"""The three primitives over many models: check, bring up, prepare, run, finish.

Knows the order of the steps and their limits; each step is somebody else's.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Any, TypeVar, TypeVarTuple

from sie_mcp import wire
from sie_mcp.adapters.adapter import Adapter
from sie_mcp.adapters.lora import Lora
from sie_mcp.catalogue.entries import Primitive
from sie_mcp.engine.caller import Caller
from sie_mcp.engine.device import DeviceThread
from sie_mcp.engine.device_faults import DeviceLost
from sie_mcp.engine.loras import LoraName, other_lora
from sie_mcp.engine.registry import AUTO, Registry
from sie_mcp.engine.residency import Residency
from sie_mcp.engine.tickets import Terms
from sie_mcp.errors import (
    DeadlineExceeded,
    DownloadFailed,
    InvalidInput,
    ModelNotFound,
    WorkerLost,
)
from sie_mcp.wire import Request, Response

_NUM_NAMED = 20  # Names in an error.
UNKNOWN = Caller()

T = TypeVar("T")
ArgTs = TypeVarTuple("ArgTs")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Limits:
    """What one request may hold, and how long it may take."""

    max_items: int
    max_item_chars: int
    request_timeout_s: float


class Engine:
    """Answers requests for any model. Lives on one event loop.

    Args:
        registry: Resolves names.
        residency: Holds models on the device.
        device: Runs sequences.
        limits: Of each request.
        num_threads: For tokenising and finishing.
    """

    def __init__(
        self,
        registry: Registry,
        residency: Residency,
        device: DeviceThread,
        limits: Limits,
        num_threads: int,
    ) -> None:
        self._registry = registry
        self._residency = residency
        self._device = device
        self._limits = limits
        self._threads = ThreadPoolExecutor(num_threads, thread_name_prefix="items")

    async def run(
        self,
        model: str,
        request: Request,
        *,
        load_wait_s: float | None = None,
        caller: Caller = UNKNOWN,
    ) -> Response:
        """Answer one request; cancelling it drops what has not run.

        Args:
            model: Catalogue name, alias, hub id, folder or "auto".
            request: One of the three primitives' requests.
            load_wait_s: How long to wait for the model to load; None is the request's own limit.
            caller: Who asks, and how long they wait.

        Raises:
            SieError: any of the tree; per-item faults are in the response instead.
        """
        check(request, self._limits)
        timeout_s, limit = self._limits.request_timeout_s, "request_timeout_s"
        if caller.timeout_s is not None and caller.timeout_s < timeout_s:
            timeout_s, limit = caller.timeout_s, "X-SIE-Timeout"
        terms = Terms(caller.priority, caller.client, time.monotonic() + timeout_s)
        try:
            async with asyncio.timeout(timeout_s):
                return await self._run(model, request, load_wait_s or timeout_s, terms)
        except DeviceLost as error:
            # A load met it before any forward pass did.
            self._device.fail(str(error))
            raise WorkerLost("the worker is restarting; call again") from error
        except TimeoutError as error:
            raise DeadlineExceeded(
                f"not done after {timeout_s:.3g} s ({limit}); send fewer items at once"
            ) from error

    async def models(self) -> wire.ModelList:
        """List the catalogue and every model that is up, coming up or failed."""
        cards = self._registry.cards()
        for name, card in self._residency.cards().items():
            known = cards.get(name)
            is_up = card.state in ("loaded", "host")
            cards[name] = card if is_up or known is None else _with_state(known, card)
        defaults = await self._on_thread(self._registry.defaults)
        return wire.ModelList(
            models=list(cards.values()), defaults=defaults, memory=self._residency.memory()
        )

    async def model(self, name: str) -> wire.ModelCard:
        """Describe one model.

        Raises:
            ModelNotFound: neither in the catalogue nor known from a request.
        """
        primitive: Primitive = "encode"
        wanted = self._registry.resolve(name, primitive)
        for card in (await self.models()).models:
            if card.name == wanted:
                return card
        known = _some(list(self._registry.cards()))
        raise ModelNotFound(f"no model {name!r}; known: {known}; others appear once they are used")

    async def aclose(self) -> None:
        """Stop: what waits is refused, loads are given up."""
        await self._residency.aclose()
        await asyncio.get_running_loop().run_in_executor(None, self._device.stop)
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _run(
        self, model: str, request: Request, load_wait_s: float, terms: Terms
    ) -> Response:
        """Run on the first of the model's names that can be had: "auto" has several."""
        primitive = primitive_of(request)
        name = await self._on_thread(self._registry.resolve, model, primitive)
        names = [name]
        if model == AUTO:
            names += self._registry.alternatives(name, primitive)
        for place, candidate in enumerate(names):
            try:
                return await self._run_on(candidate, request, load_wait_s, terms)
            except (DownloadFailed, ModelNotFound) as error:
                if place == len(names) - 1:
                    raise
                logger.warning("default not to be had model=%s error=%s", candidate, error)
        raise AssertionError("the loop returns or raises")  # pragma: no cover

    async def _run_on(
        self, name: str, request: Request, load_wait_s: float, terms: Terms
    ) -> Response:
        started_s = time.monotonic()
        async with AsyncExitStack() as held:
            adapter: Adapter = await self._hold(held, name, load_wait_s)
            self._check_primitive(adapter, request)
            lora_name = other_lora(request, adapter.card, self._registry)
            lora: Lora | None = None
            if lora_name is not None:
                lora = await self._hold(held, LoraName(name, lora_name), load_wait_s)
            ready_s = time.monotonic()
            prepared = await self._on_thread(adapter.prepare, request)
            if lora is not None:
                prepared.sequences = [replace(one, lora=lora) for one in prepared.sequences]
            prepared_s = time.monotonic()
            results, queue_s = await self._device.run(name, adapter, prepared, terms)
            ran_s = time.monotonic()
            response: Response = await self._on_thread(adapter.finish, request, prepared, results)
        ended_s = time.monotonic()
        timing = wire.Timing(
            total_ms=_ms(ended_s - started_s),
            queue_ms=_ms(queue_s),
            tokenization_ms=_ms(prepared_s - ready_s),
            inference_ms=_ms(ran_s - prepared_s - queue_s),
            postprocessing_ms=_ms(ended_s - ran_s),
        )
        return response.model_copy(update={"timing": timing, "model": name})

    async def _hold(self, held: AsyncExitStack, name: str, load_wait_s: float) -> Any:
        """Bring a model or an adapter up and keep it there until `held` is closed."""
        return await held.enter_async_context(self._residency.acquire(name, load_wait_s))

    def _check_primitive(self, adapter: Adapter, request: Request) -> None:
        primitive = primitive_of(request)
        if primitive in adapter.card.primitives:
            return
        others = [
            card.name for card in self._registry.cards().values() if primitive in card.primitives
        ]
        can = " and ".join(adapter.card.primitives)
        raise InvalidInput(
            f"{adapter.card.name} can {can}, not {primitive}; models that can: {_some(others)}"
        )

    async def _on_thread(self, function: Callable[[*ArgTs], T], *args: *ArgTs) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, function, *args)


def _some(names: Sequence[str]) -> str:
    """Join the first names; an error need not hold the whole catalogue."""
    left = len(names) - _NUM_NAMED
    return ", ".join(names[:_NUM_NAMED]) + (f" and {left} more" if left > 0 else "")


def primitive_of(request: Request) -> Primitive:
    """Return which primitive a request is for."""
    if isinstance(request, wire.EncodeRequest):
        return "encode"
    return "score" if isinstance(request, wire.ScoreRequest) else "extract"


def check(request: Request, limits: Limits) -> None:
    """Refuse too many items, and texts that are missing, blank or too long.

    Raises:
        InvalidInput: naming the item and what would work.
    """
    if len(request.items) > limits.max_items:
        raise InvalidInput(
            f"{len(request.items)} items are over the limit of {limits.max_items} (max_items); "
            "send them in several requests"
        )
    for index, item in enumerate(request.items):
        _check_text(item, f"items[{index}]", limits)
    if isinstance(request, wire.ScoreRequest):
        _check_text(request.query, "query", limits)


def _check_text(item: wire.Item, where: str, limits: Limits) -> None:
    if item.text is None:
        raise InvalidInput(f"{where} has no text; send {{'text': '…'}}")
    if not item.text.strip():
        raise InvalidInput(
            f"{where}.text is empty; send at least one character that is not a space"
        )
    if len(item.text) > limits.max_item_chars:
        raise InvalidInput(
            f"{where}.text has {len(item.text):,} characters, the limit is "
            f"{limits.max_item_chars:,} (max_item_chars); split it"
        )


def _with_state(known: wire.ModelCard, seen: wire.ModelCard) -> wire.ModelCard:
    return known.model_copy(update={"state": seen.state, "last_error": seen.last_error})


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)
