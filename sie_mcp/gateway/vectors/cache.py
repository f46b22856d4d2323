"""Vectors by content: what is known is looked up, and only the rest goes to a worker.

All vectors of an answer are of one revision, which a worker named for this very request: it is in
the answer for what was missing, and asked for where nothing is.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import anyio.to_thread

from sie_mcp import metrics, wire
from sie_mcp.client.vectors import Ask, AskRevision
from sie_mcp.config import Config
from sie_mcp.gateway.vectors.keys import keys_of, pack_item, unpack_item
from sie_mcp.gateway.vectors.store import VectorStore

# Names come from callers: those learned first are forgotten beyond this many.
MAX_NAMES = 1_024


@dataclass(frozen=True, slots=True)
class Found:
    """An answer, and how many of its items were known."""

    response: wire.EncodeResponse
    num_hits: int = 0


class VectorCache:
    """Answers encode requests.

    Args:
        store: Keeps them.
    """

    def __init__(self, store: VectorStore) -> None:
        self._store = store
        self._known: dict[tuple[str, str | None], wire.Revision] = {}

    async def answer(
        self,
        model: str,
        request: wire.EncodeRequest,
        ask: Ask,
        ask_revision: AskRevision,
        *,
        reads: bool = True,
    ) -> Found:
        """Answer a request; usage counts every item, as if each had been read now.

        Args:
            model: As the caller names it.
            request: What is asked.
            ask: Asks a worker for vectors.
            ask_revision: Asks a worker for the model's revision.
            reads: False: everything is asked for, and only kept.

        Raises:
            SieError: the worker's.
        """
        name = (model, request.params.options.lora)
        known = self._known.get(name) if reads else None
        found = await self._look_up(request, known)
        if known is not None and None not in found:
            now = await ask_revision(*name)
            self._learn(name, now)
            if now != known:
                known, found = now, await self._look_up(request, now)
            if None not in found:
                return _joined(request, known, found, None)
        response = await ask(model, _part(request, found))
        now = wire.Revision(model=response.model, revision=response.revision)
        self._learn(name, now)
        if now != known and len(response.items) < len(request.items):
            # What was found is of other numbers than what has come.
            found = [None] * len(request.items)
            response = await ask(model, request)
            now = wire.Revision(model=response.model, revision=response.revision)
            self._learn(name, now)
        await self._keep(request, now, found, response)
        return _joined(request, now, found, response)

    async def aclose(self) -> None:
        """Close the file."""
        await anyio.to_thread.run_sync(self._store.close)

    async def _look_up(
        self, request: wire.EncodeRequest, known: wire.Revision | None
    ) -> list[wire.EncodedItem | None]:
        """Return what is known of each item."""
        if known is None or known.revision is None:
            return [None] * len(request.items)
        return await anyio.to_thread.run_sync(_read, self._store, request, known)

    async def _keep(
        self,
        request: wire.EncodeRequest,
        now: wire.Revision,
        found: Sequence[wire.EncodedItem | None],
        response: wire.EncodeResponse,
    ) -> None:
        if now.revision is not None:
            part = _part(request, found)
            await anyio.to_thread.run_sync(_write, self._store, part, now, response.items)

    def _learn(self, name: tuple[str, str | None], now: wire.Revision) -> None:
        self._known.pop(name, None)
        while len(self._known) >= MAX_NAMES:
            del self._known[next(iter(self._known))]
        self._known[name] = now


def open_cache(config: Config) -> VectorCache | None:
    """Return the cache of the settings; nothing is opened before it is needed."""
    if not config.embedding_cache_bytes:
        return None
    path = config.embedding_cache_file or config.cache_dir / "embeddings.sqlite"
    return VectorCache(VectorStore(path, config.embedding_cache_bytes))


def _read(
    store: VectorStore, request: wire.EncodeRequest, known: wire.Revision
) -> list[wire.EncodedItem | None]:
    keys = keys_of(request, known.model, known.revision or "")
    values = store.get(keys)
    return [unpack_item(values[key]) if key in values else None for key in keys]


def _write(
    store: VectorStore,
    request: wire.EncodeRequest,
    now: wire.Revision,
    items: Sequence[wire.EncodedItem],
) -> None:
    keys = keys_of(request, now.model, now.revision or "")
    store.put(
        {key: pack_item(item) for key, item in zip(keys, items, strict=True) if item.error is None}
    )


def _part(
    request: wire.EncodeRequest, found: Sequence[wire.EncodedItem | None]
) -> wire.EncodeRequest:
    """Return what is left to ask for."""
    missing = [item for item, known in zip(request.items, found, strict=True) if known is None]
    return request if len(missing) == len(found) else request.model_copy(update={"items": missing})


def _joined(
    request: wire.EncodeRequest,
    now: wire.Revision,
    found: Sequence[wire.EncodedItem | None],
    response: wire.EncodeResponse | None,
) -> Found:
    """Put what was known and what has come into the order of the request."""
    come = iter(response.items if response is not None else ())
    items = [
        next(come) if known is None else known.model_copy(update={"id": item.id})
        for item, known in zip(request.items, found, strict=True)
    ]
    num_hits = sum(one is not None for one in found)
    metrics.CACHE_ITEMS.labels("hit").inc(num_hits)
    metrics.CACHE_ITEMS.labels("miss").inc(len(items) - num_hits)
    joined = wire.EncodeResponse(
        model=now.model,
        items=items,
        timing=response.timing if response is not None else wire.Timing(),
        usage=wire.Usage(input_tokens=sum(one.num_tokens for one in items)),
        revision=now.revision,
    )
    return Found(joined, num_hits)
