"""The three primitives over many models: check, bring up, prepare, run, finish.

Knows the order of the steps and their limits; each step is somebody else's.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any, TypeVar, TypeVarTuple

from sie_mcp import tracing, wire
from sie_mcp.adapters.adapter import Adapter, Prepared
from sie_mcp.adapters.lora import Lora
from sie_mcp.adapters.token_ids import with_texts
from sie_mcp.catalogue.entries import Primitive, Role
from sie_mcp.engine.caller import Caller
from sie_mcp.engine.device_faults import DeviceLost
from sie_mcp.engine.effective import measured_settings
from sie_mcp.engine.fitness import check_fit, some
from sie_mcp.engine.lane import Lane, Lanes, totals
from sie_mcp.engine.listing import merged
from sie_mcp.engine.loras import LoraName, other_lora
from sie_mcp.engine.registry import AUTO, Registry
from sie_mcp.engine.request_checks import (
    MOST_CHARS_PER_TOKEN,
    Limits,
    check,
    check_count,
    check_tokens,
    estimated_tokens,
    is_small,
    primitive_of,
)
from sie_mcp.engine.revisions import joined, revision_of
from sie_mcp.engine.tickets import Terms
from sie_mcp.errors import (
    DeadlineExceeded,
    DownloadFailed,
    ModelNotFound,
    QueueFull,
    RateLimited,
    WorkerLost,
)
from sie_mcp.wants import lora_of
from sie_mcp.wire import Request, Response

MAX_EARLY_TOKENS = 4_096
UNKNOWN = Caller()

T = TypeVar("T")
ArgTs = TypeVarTuple("ArgTs")

logger = logging.getLogger(__name__)


class Engine:
    """Answers requests for any model. Lives on one event loop.

    Args:
        registry: Resolves names.
        lanes: Hold models and run sequences, one a device.
        limits: Of each request.
        num_threads: For tokenising and finishing.
        settings: Those of the worker, for who asks.
    """

    def __init__(
        self,
        registry: Registry,
        lanes: Lanes,
        limits: Limits,
        num_threads: int,
        settings: Sequence[wire.EffectiveSetting] = (),
    ) -> None:
        self._registry = registry
        self._settings = list(settings)
        self._lanes = lanes
        self._limits = limits
        self._threads = ThreadPoolExecutor(num_threads, thread_name_prefix="items")

    @property
    def settings(self) -> list[wire.EffectiveSetting]:
        """The worker's settings, and what was measured of models."""
        return [*self._settings, *measured_settings(self._lanes.all)]

    def check_room(self, body_bytes: int, caller: Caller = UNKNOWN) -> None:
        """Refuse a body that is sure to be refused, before it is read.

        Raises:
            QueueFull, RateLimited: too much is waiting, on all devices.
        """
        terms = Terms(caller.priority, caller.client)
        least = min(body_bytes // MOST_CHARS_PER_TOKEN, MAX_EARLY_TOKENS)
        for place, lane in enumerate(self._lanes.all, start=1):
            try:
                lane.thread.check_room(least, 1, terms)
            except (QueueFull, RateLimited):
                if place == len(self._lanes.all):
                    raise
            else:
                return

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
        self.check_names([model, lora_of(request)], caller)
        timeout_s, limit = self._limits.request_timeout_s, "request_timeout_s"
        if caller.timeout_s is not None and caller.timeout_s < timeout_s:
            timeout_s, limit = caller.timeout_s, "X-SIE-Timeout"
        terms = Terms(caller.priority, caller.client, time.monotonic() + timeout_s)
        try:
            async with asyncio.timeout(timeout_s):
                return await self._run(model, request, load_wait_s or timeout_s, terms)
        except TimeoutError as error:
            raise DeadlineExceeded(
                f"not done after {timeout_s:.3g} s ({limit}); send fewer items at once"
            ) from error

    @property
    def max_items(self) -> int:
        """How many items a request may have."""
        return self._limits.max_items

    def check_count(self, requests: Sequence[Request]) -> None:
        """Refuse what comes to too many items together.

        Raises:
            InvalidInput: naming the limit.
        """
        check_count(sum(len(one.items) for one in requests), self._limits)

    def check_texts(self, texts: Sequence[str]) -> None:
        """Refuse texts that would be refused as items.

        Raises:
            InvalidInput: naming the limit.
        """
        check(wire.EncodeRequest(items=[wire.Item(text=one) for one in texts]), self._limits)

    def check_names(self, names: Sequence[str | None], caller: Caller) -> None:
        """Refuse folders in the place of names, for callers that may not give them.

        Raises:
            NotAllowed: saying what would work.
        """
        if caller.allows_local_models and self._limits.allows_local_models:
            return
        for name in names:
            self._registry.check_local(name or "")

    async def models(self) -> wire.ModelList:
        """List the catalogue and every model that is up, coming up or failed."""
        cards = merged(self._registry.cards(), self._lanes.all, time.monotonic())
        defaults = await self._on_thread(self._registry.defaults)
        return wire.ModelList(
            models=list(cards.values()),
            defaults=defaults,
            memory=totals(self._lanes.all),
            settings=self.settings,
        )

    async def model(self, name: str) -> wire.ModelCard:
        """Describe one model.

        Raises:
            ModelNotFound: neither in the catalogue nor known from a request.
        """
        wanted = await self.resolve(name)
        for card in (await self.models()).models:
            if card.name == wanted:
                return card
        known = some(list(self._registry.cards()))
        raise ModelNotFound(f"no model {name!r}; known: {known}; others appear once they are used")

    async def revision(
        self, name: str, lora: str | None = None, caller: Caller = UNKNOWN
    ) -> wire.Revision:
        """Return which numbers a model gives now, alone or with an adapter.

        Raises:
            NotAllowed: a folder, from a caller that may name none.
        """
        self.check_names([name, lora], caller)
        model = await self.resolve(name)
        return wire.Revision(model=model, revision=revision_of(self._lanes.all, model, lora))

    async def resolve(self, name: str) -> str:
        """Return the one name that a model is kept under."""
        return await self._resolve(name, "encode")

    async def with_adapter(
        self,
        model: str,
        primitive: Primitive,
        use: Callable[[Adapter], T],
        caller: Caller = UNKNOWN,
    ) -> T:
        """Run `use` on a thread with a model that is up; what it does takes no device.

        Raises:
            SieError: the model cannot be had, or the caller's time is over.
        """
        self.check_names([model], caller)
        name = await self._resolve(model, primitive)
        timeout_s = min(
            caller.timeout_s or self._limits.request_timeout_s, self._limits.request_timeout_s
        )
        async with AsyncExitStack() as held:
            adapter = await _hold(held, self._lanes.choose(name), name, timeout_s)
            return await self._on_thread(use, adapter)

    async def aclose(self) -> None:
        """Stop: what waits is refused, loads are given up."""
        for lane in self._lanes.all:
            await lane.residency.aclose()
            await asyncio.get_running_loop().run_in_executor(None, lane.thread.stop)
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _run(
        self, model: str, request: Request, load_wait_s: float, terms: Terms
    ) -> Response:
        """Run on the first of the model's names that can be had: "auto" has several."""
        primitive = primitive_of(request)
        name = await self._resolve(model, primitive)
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
        lane = self._lanes.choose(name)
        with lane.claimed(estimated_tokens(request)):
            try:
                return await self._run_in(lane, name, request, load_wait_s, terms)
            except DeviceLost as error:
                # A load met it before any forward pass did.
                lane.thread.fail(str(error))
                raise WorkerLost("the worker is restarting; call again") from error

    async def _run_in(
        self, lane: Lane, name: str, request: Request, load_wait_s: float, terms: Terms
    ) -> Response:
        started_s = time.monotonic()
        async with AsyncExitStack() as held:
            adapter: Adapter = await _hold(held, lane, name, load_wait_s)
            check_fit(adapter.card, request, self._registry.cards)
            lora_name = other_lora(request, adapter.card, self._registry)
            lora: Lora | None = None
            if lora_name is not None:
                lora = await _hold(held, lane, LoraName(name, lora_name), load_wait_s)
            ready_s = time.monotonic()
            about = estimated_tokens(request, adapter.card.max_sequence_length)
            # Where others wait, those on the loop would be neither counted nor refused.
            is_quick = is_small(request)
            step = _at_once if is_quick and not lane.thread.has_work else self._on_thread
            with lane.thread.expecting(about, len(request.items), terms):
                request, prepared = await step(_prepare, adapter, request)
            check_tokens(prepared.num_tokens, self._limits)
            if lora is not None:
                prepared.sequences = [replace(one, lora=lora) for one in prepared.sequences]
            prepared_s = time.monotonic()
            results, queue_s = await lane.thread.run(name, adapter, prepared, terms)
            ran_s = time.monotonic()
            device_s = ran_s - prepared_s - queue_s
            lane.residency.worked(name, tokens=prepared.num_tokens, device_s=device_s)
            step = _at_once if is_quick else self._on_thread
            response: Response = await step(adapter.finish, request, prepared, results)
        ended_s = time.monotonic()
        tracing.annotate(
            model=name, device=lane.name, items=len(request.items), tokens=prepared.num_tokens
        )
        tracing.past_span("load", started_s, ready_s)
        tracing.past_span("tokenise", ready_s, prepared_s, tokens=prepared.num_tokens)
        tracing.past_span("queue", prepared_s, prepared_s + queue_s)
        tracing.past_span("run", prepared_s + queue_s, ran_s)
        timing = wire.Timing(
            total_ms=_ms(ended_s - started_s),
            queue_ms=_ms(queue_s),
            tokenization_ms=_ms(prepared_s - ready_s),
            inference_ms=_ms(device_s),
            postprocessing_ms=_ms(ended_s - ran_s),
        )
        # Made for this request alone.
        response.timing, response.model = timing, name
        if isinstance(response, wire.EncodeResponse):
            cards = [adapter.card] if lora is None else [adapter.card, lora.card]
            response.revision = joined([one.revision for one in cards])
        return response

    async def _resolve(self, name: str, role: Role) -> str:
        """Only the default has to be looked for on disk."""
        if name != AUTO:
            return self._registry.resolve(name, role)
        return await self._on_thread(self._registry.resolve, name, role)

    async def _on_thread(self, function: Callable[[*ArgTs], T], *args: *ArgTs) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, function, *args)


async def _at_once(function: Callable[[*ArgTs], T], *args: *ArgTs) -> T:
    """Run what takes less time than a thread takes to begin."""
    return function(*args)


def _prepare(adapter: Adapter, request: Request) -> tuple[Request, Prepared]:
    """Tokenise what has texts, or ids in their place."""
    request = with_texts(request, adapter.tokenizer, adapter.card.name)
    return request, adapter.prepare(request)


async def _hold(held: AsyncExitStack, lane: Lane, name: str, load_wait_s: float) -> Any:
    """Bring a model or an adapter up and keep it there until `held` is closed."""
    return await held.enter_async_context(lane.residency.acquire(name, load_wait_s))


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)
