"""The programs' client, for async code: lists in, arrays and typed results out.

Stands on `EngineClient`, which cuts, sends and retries; adds shapes, sides, deadlines and errors of
single items. Knows nothing of stores or frameworks.
"""

from collections.abc import Sequence
from types import TracebackType
from typing import Self

import anyio
import numpy as np

import sie_mcp.client.results as results
from sie_mcp import wire
from sie_mcp.chunks import Split
from sie_mcp.client.engine import EngineClient
from sie_mcp.client.given import AUTO, Items, Side, as_item, as_items, within
from sie_mcp.client.options import DEFAULT_URL, OnProgress, Options, awaited
from sie_mcp.client.results import Classified, Encoded, Extracted, Item, Ranked, Scored
from sie_mcp.connection import FixedEndpoint
from sie_mcp.finding import Progress
from sie_mcp.retry import Pace
from sie_mcp.wire_memory import LoadRequest, MemoryAccount, UnloadRequest

# Callers that were refused together come back up to a quarter of their pause apart.
JITTER = 0.25
# A text has at most four bytes a character.
BYTES_PER_CHAR = 4


class AsyncClient:
    """Calls an engine, or a gateway in front of several. Safe for many tasks of one event loop.

    All that it calls can be repeated, so what may pass is tried again: a full queue, a limit, a
    worker that restarts, a model that loads. Everything else is raised with its own type of
    `sie_mcp.errors`, whose `str()` says what would work.

    Args:
        url: Of the gateway or worker; a trailing /v1 is dropped.
        api_key: Sent as a bearer credential.
        options: Limits and waits.
        on_progress: Told of lists of several requests and of waits, unless a call has its own.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        api_key: str | None = None,
        options: Options | None = None,
        on_progress: OnProgress | None = None,
    ) -> None:
        options = options or Options()
        self._on_progress = on_progress
        self._engine = EngineClient(
            FixedEndpoint(url.rstrip("/").removesuffix("/v1")),
            load_wait_s=options.load_wait_s,
            timeout_s=options.timeout_s,
            worker_key=api_key,
            split=Split(
                max_items=options.max_items,
                max_chars=max(options.max_request_bytes // BYTES_PER_CHAR, 1),
                shared=anyio.CapacityLimiter(options.max_concurrency),
            ),
            pace=Pace(longest_told_s=options.longest_retry_after_s, jitter=JITTER),
        )

    async def encode(
        self,
        items: Items,
        model: str = AUTO,
        *,
        side: Side | None = None,
        outputs: Sequence[wire.OutputType] | None = None,
        instruction: str | None = None,
        dimensions: int | None = None,
        output_dtype: wire.OutputDtype = "float32",
        options: wire.EncodeOptions | None = None,
        keep_errors: bool = False,
        deadline_s: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> Encoded:
        """Encode texts or images.

        Args:
            items: Texts or `Item`s; one that stands alone is a list of one.
            model: A catalogue name, a hub id, or "auto" for the engine's default.
            side: Chooses the model's prompt for queries or documents; None: the default prompt.
            outputs: Kinds of vectors; None: what the model is made for.
            instruction: What the query is for, where the model takes one.
            dimensions: Keep so many, where the model was trained for that.
            output_dtype: Of the dense vectors.
            options: Everything else; `side` and `dimensions` go before it.
            keep_errors: Give what can be given, and the errors of single items beside it.
            deadline_s: Longest time of the whole call, waits and retries included.
            on_progress: Told of this call.

        Raises:
            SieError: what went wrong, by its type; DeadlineExceeded after `deadline_s`.
        """
        is_query = None if side is None else side == "query"
        chosen = {"is_query": is_query, "dimensions": dimensions}
        given = {name: value for name, value in chosen.items() if value is not None}
        params = wire.EncodeParams(
            output_types=None if outputs is None else list(outputs),
            instruction=instruction,
            output_dtype=output_dtype,
            options=(options or wire.EncodeOptions()).model_copy(update=given),
        )
        listener = self._listener(on_progress)
        with within(deadline_s):
            answer = await self._engine.encode(model, as_items(items), params, progress=listener)
        errors = results.errors_of(answer.items, keep=keep_errors)
        return Encoded(answer.model, tuple(answer.items), answer.usage.input_tokens, errors)

    async def embed(
        self,
        items: Items,
        model: str = AUTO,
        *,
        side: Side | None = None,
        dimensions: int | None = None,
        deadline_s: float | None = None,
    ) -> np.ndarray:
        """Return dense vectors alone, float32 `(n, dims)`; see `encode`."""
        kinds: list[wire.OutputType] = ["dense"]
        found = await self.encode(
            items, model, side=side, outputs=kinds, dimensions=dimensions, deadline_s=deadline_s
        )
        return found.dense

    async def score(
        self,
        query: Item,
        items: Items,
        model: str = AUTO,
        *,
        instruction: str | None = None,
        options: wire.ScoreOptions | None = None,
        keep_errors: bool = False,
        deadline_s: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> Scored:
        """Score items against a query; the scores stay in the order sent. See `encode`."""
        listener = self._listener(on_progress)
        with within(deadline_s):
            answer = await self._engine.score(
                model,
                as_item(query),
                as_items(items),
                instruction=instruction,
                options=options,
                progress=listener,
            )
        return results.scored(answer, keep=keep_errors)

    async def rerank(
        self,
        query: Item,
        items: Items,
        model: str = AUTO,
        *,
        top_n: int | None = None,
        instruction: str | None = None,
        options: wire.ScoreOptions | None = None,
        deadline_s: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> list[Ranked]:
        """Rank items by their scores against a query: the best `top_n`, ties by their place."""
        listed = as_items(items)
        found = await self.score(
            query,
            listed,
            model,
            instruction=instruction,
            options=options,
            deadline_s=deadline_s,
            on_progress=on_progress,
        )
        order = np.argsort(-found.scores, kind="stable")[:top_n]
        return [Ranked(int(at), float(found.scores[at]), listed[at].text) for at in order]

    async def extract(
        self,
        items: Items,
        labels: Sequence[str] | None = None,
        model: str = AUTO,
        *,
        threshold: float | None = None,
        instruction: str | None = None,
        options: wire.ExtractOptions | None = None,
        keep_errors: bool = False,
        deadline_s: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> Extracted:
        """Find entities, relations, records or labels; `labels` None: all that the model knows.

        `threshold` None is the model's own; `options` says everything else. See `encode`.
        """
        given = {} if threshold is None else {"threshold": threshold}
        params = wire.ExtractParams(
            labels=None if labels is None else list(labels),
            instruction=instruction,
            options=(options or wire.ExtractOptions()).model_copy(update=given),
        )
        listener = self._listener(on_progress)
        with within(deadline_s):
            answer = await self._engine.extract(model, as_items(items), params, progress=listener)
        errors = results.errors_of(answer.items, keep=keep_errors)
        return Extracted(answer.model, tuple(answer.items), answer.usage.input_tokens, errors)

    async def classify(
        self,
        items: Items,
        labels: Sequence[str] | None = None,
        model: str = AUTO,
        *,
        multi_label: bool | None = None,
        options: wire.ExtractOptions | None = None,
        deadline_s: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> list[Classified]:
        """Choose among labels with a model that classifies; `labels` None: its own.

        Raises:
            InvalidInput: the model gives no labels of a whole item.
        """
        given = {} if multi_label is None else {"multi_label": multi_label}
        asked = (options or wire.ExtractOptions()).model_copy(update=given)
        found = await self.extract(
            items, labels, model, options=asked, deadline_s=deadline_s, on_progress=on_progress
        )
        return results.classified(found)

    async def models(self) -> wire.ModelList:
        """List the models the engine knows, its defaults and its memory."""
        return await self._engine.models()

    async def model(self, name: str) -> wire.ModelCard:
        """Describe one model.

        Raises:
            ModelNotFound: no such model.
        """
        return await self._engine.model(name)

    async def memory(self) -> MemoryAccount:
        """Return what lies on each device, in bytes."""
        return await self._engine.memory()

    async def load(self, name: str, *, wait_s: float = 0.0, pin: bool = False) -> wire.ModelCard:
        """Bring a model up before its first request, and wait so long for it.

        Raises:
            NotAllowed: the server does not let callers move models.
        """
        return await self._engine.load(name, LoadRequest(wait_s=wait_s, pin=pin))

    async def unload(self, name: str, *, wait_s: float = 0.0) -> MemoryAccount:
        """Give a model's memory back, after requests that hold it if it may wait so long.

        Raises:
            ModelInUse: requests hold it; NotAllowed.
        """
        return await self._engine.unload(name, UnloadRequest(wait_s=wait_s))

    async def pin(self, name: str) -> wire.ModelCard:
        """Keep a model that is up on its device."""
        return await self._engine.pin(name)

    async def unpin(self, name: str) -> MemoryAccount:
        """Let a model leave again."""
        return await self._engine.unpin(name)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._engine.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    def _listener(self, own: OnProgress | None) -> Progress | None:
        return awaited(own or self._on_progress)
