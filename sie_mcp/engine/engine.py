"""The three primitives over many models: what may be asked, of which model, on which device.

Knows names, limits and deadlines; how a request is then answered is known to steps.py.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import TypeVar

from sie_mcp import wire
from sie_mcp.adapters.adapter import Adapter
from sie_mcp.catalogue.entries import Primitive, Role
from sie_mcp.engine.caller import Caller
from sie_mcp.engine.device_faults import DeviceLost
from sie_mcp.engine.effective import measured_settings
from sie_mcp.engine.fitness import Asked, fitting, roles_of
from sie_mcp.engine.item_threads import ItemThreads
from sie_mcp.engine.lane import Lanes, totals
from sie_mcp.engine.listing import merged
from sie_mcp.engine.registry import AUTO, Registry
from sie_mcp.engine.request_checks import (
    MOST_CHARS_PER_TOKEN,
    Limits,
    check,
    check_count,
    estimated_tokens,
    primitive_of,
)
from sie_mcp.engine.revisions import revision_of
from sie_mcp.engine.steps import Steps, hold
from sie_mcp.engine.tickets import Terms
from sie_mcp.errors import (
    DeadlineExceeded,
    DownloadFailed,
    InvalidInput,
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
        self._threads = ItemThreads(num_threads)
        self._steps = Steps(registry, limits, self._threads)

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
        predicts: bool = False,
    ) -> Response:
        """Answer one request; cancelling it drops what has not run.

        Args:
            model: Catalogue name, alias, hub id, folder or "auto".
            request: One of the three primitives' requests.
            load_wait_s: How long to wait for the model to load; None is the request's own limit.
            caller: Who asks, and how long they wait.
            predicts: Only a model with labels of its own will do.

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
                wait_s = load_wait_s or timeout_s
                asked = Asked(predicts=predicts, names_none=model == AUTO)
                return await self._run(model, request, wait_s, terms, asked)
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
        defaults = await self._threads.run(self._registry.defaults)
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
        raise ModelNotFound(f"{self._registry.not_found(name)}; others appear once they are used")

    async def check_known(self, name: str, *, may_come: bool) -> None:
        """Refuse a name that stands for no model; one that `may_come` need only look like one.

        Raises:
            ModelNotFound: with near names.
        """
        await self._threads.run(partial(self._registry.check_known, name, may_come=may_come))

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
            adapter = await hold(held, self._lanes.choose(name), name, timeout_s)
            return await self._threads.run(use, adapter)

    async def aclose(self) -> None:
        """Stop: what waits is refused, loads are given up."""
        for lane in self._lanes.all:
            await lane.residency.aclose()
            await asyncio.get_running_loop().run_in_executor(None, lane.thread.stop)
        self._threads.close()

    async def _run(
        self, model: str, request: Request, load_wait_s: float, terms: Terms, asked: Asked
    ) -> Response:
        """Run on the first of the model's names that can be had: "auto" has several."""
        if asked.names_none:
            names = await self._threads.run(self._defaults, request, asked)
        else:
            names = [self._registry.resolve(model, primitive_of(request))]
        for place, candidate in enumerate(names):
            try:
                return await self._run_on(candidate, request, load_wait_s, terms, asked)
            except (DownloadFailed, ModelNotFound) as error:
                if place == len(names) - 1:
                    raise
                logger.warning("default not to be had model=%s error=%s", candidate, error)
        raise AssertionError("the loop returns or raises")  # pragma: no cover

    def _defaults(self, request: Request, asked: Asked) -> list[str]:
        """Return the defaults that can answer, in order; on a thread.

        Where none can by the catalogue's word, one that is on disk has its own files' word.

        Raises:
            InvalidInput: none can.
        """
        registry = self._registry
        names = [one for role in roles_of(request) for one in registry.candidates(role)]
        cards = ((one, registry.card(one)) for one in names)
        found = fitting(cards, request, registry.cards, asked)
        if not isinstance(found, InvalidInput):
            return found
        if names and registry.is_on_disk(names[0]):
            return names[:1]
        raise found

    async def _run_on(
        self, name: str, request: Request, load_wait_s: float, terms: Terms, asked: Asked
    ) -> Response:
        lane = self._lanes.choose(name)
        with lane.claimed(estimated_tokens(request)):
            try:
                return await self._steps.run(lane, name, request, load_wait_s, terms, asked)
            except DeviceLost as error:
                # A load met it before any forward pass did.
                lane.thread.fail(str(error))
                raise WorkerLost("the worker is restarting; call again") from error

    async def _resolve(self, name: str, role: Role) -> str:
        """Only the default has to be looked for on disk."""
        if name != AUTO:
            return self._registry.resolve(name, role)
        return await self._threads.run(self._registry.resolve, name, role)
