"""One request on one device, step by step: hold the model, prepare, run, finish.

Knows the order of the steps; each is somebody else's. Which device, and how long all may take, is
decided above.
"""

import time
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

from sie_mcp import tracing, wire
from sie_mcp.adapters.adapter import Adapter, Prepared
from sie_mcp.adapters.lora import Lora
from sie_mcp.adapters.token_ids import with_texts
from sie_mcp.engine.fitness import Asked, check_fit
from sie_mcp.engine.item_threads import ItemThreads, at_once
from sie_mcp.engine.lane import Lane
from sie_mcp.engine.loras import LoraName, other_lora
from sie_mcp.engine.registry import Registry
from sie_mcp.engine.request_checks import Limits, check_tokens, estimated_tokens, is_small
from sie_mcp.engine.revisions import joined
from sie_mcp.engine.step_times import StepTimes
from sie_mcp.engine.tickets import Terms
from sie_mcp.wire import Request, Response


class Steps:
    """Takes requests through them, on the event loop.

    Args:
        registry: Knows low-rank adapters, and other models for what one cannot do.
        limits: Of each request.
        threads: For tokenising and finishing.
    """

    def __init__(self, registry: Registry, limits: Limits, threads: ItemThreads) -> None:
        self._registry = registry
        self._limits = limits
        self._threads = threads

    async def run(
        self,
        lane: Lane,
        name: str,
        request: Request,
        load_wait_s: float,
        terms: Terms,
        asked: Asked,
    ) -> Response:
        """Answer one request for a model.

        Args:
            lane: Where.
            name: The name that the model is kept under.
            request: Checked already.
            load_wait_s: How long to wait for the model to load, and for its adapter.
            terms: Priority, client and deadline.
            asked: What the request says beside its body.

        Raises:
            SieError: any of the tree.
            DeviceLost: a load met it.
        """
        started_s = time.monotonic()
        async with AsyncExitStack() as held:
            adapter: Adapter = await hold(held, lane, name, load_wait_s)
            check_fit(adapter.card, request, self._registry.cards, asked)
            lora_name = other_lora(request, adapter.card, self._registry)
            lora: Lora | None = None
            if lora_name is not None:
                lora = await hold(held, lane, LoraName(name, lora_name), load_wait_s)
            ready_s = time.monotonic()
            about = estimated_tokens(request, adapter.card.max_sequence_length)
            # Where others wait, those on the loop would be neither counted nor refused.
            is_quick = is_small(request)
            step = at_once if is_quick and not lane.thread.has_work else self._threads.run
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
            step = at_once if is_quick else self._threads.run
            response: Response = await step(adapter.finish, request, prepared, results)
        times = StepTimes(started_s, ready_s, prepared_s, queue_s, ran_s, time.monotonic())
        tracing.annotate(
            model=name, device=lane.name, items=len(request.items), tokens=prepared.num_tokens
        )
        times.trace(prepared.num_tokens)
        # Made for this request alone.
        response.timing, response.model = times.timing(), name
        if isinstance(response, wire.EncodeResponse):
            cards = [adapter.card] if lora is None else [adapter.card, lora.card]
            response.revision = joined([one.revision for one in cards])
        return response


async def hold(held: AsyncExitStack, lane: Lane, name: str, load_wait_s: float) -> Any:
    """Bring a model or an adapter up and keep it there until `held` is closed."""
    return await held.enter_async_context(lane.residency.acquire(name, load_wait_s))


def _prepare(adapter: Adapter, request: Request) -> tuple[Request, Prepared]:
    """Tokenise what has texts, or ids in their place."""
    request = with_texts(request, adapter.tokenizer, adapter.card.name)
    return request, adapter.prepare(request)
