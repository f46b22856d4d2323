"""The light side's one way to a worker: encode, score and extract over HTTP + MessagePack.

Splits long lists, keeps order, retries what is safe to retry (all three primitives are pure), and
rebuilds the worker's typed errors. Knows nothing of tools, MCP or how a worker is started.
"""

import copy
import uuid
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Self, TypeVar
from urllib.parse import urlencode

import anyio
import pydantic

from sie_mcp import usage, wire
from sie_mcp.access.account import Account, admit
from sie_mcp.chunks import SPLIT, Split, check_complete, chunks, first_error, merge_scores, totals
from sie_mcp.client.sending import Call, Sender
from sie_mcp.client.vectors import KnownVectors
from sie_mcp.codec import MSGPACK, encode_body
from sie_mcp.connection import Endpoint, Want
from sie_mcp.errors import InvalidInput
from sie_mcp.finding import Progress
from sie_mcp.local_models import model_in_path
from sie_mcp.retry import PACE, Pace
from sie_mcp.wants import want_of
from sie_mcp.wire_memory import LoadRequest, MemoryAccount, PinRequest, UnloadRequest

ResponseT = TypeVar("ResponseT", bound=wire.Response)
RequestT = TypeVar("RequestT", bound=wire.Request)
BodyT = TypeVar("BodyT", bound=pydantic.BaseModel)


class EngineClient:
    """Calls one worker. Safe for many tasks at once; close with `aclose`.

    Args:
        endpoint: Finds the worker for each call.
        load_wait_s: How long a call waits for a worker to start and a model to load before it
            raises ModelLoading.
        timeout_s: Longest wait for one answer.
        allows_local_models: Whether a path may name a model.
        worker_key: What the worker wants to be shown.
        split: How long lists are cut, and how many of their chunks are sent at a time.
        pace: How what failed is tried again.
        vectors: Where vectors are looked up first; None asks a worker for all.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        load_wait_s: float = 20.0,
        timeout_s: float = 600.0,
        allows_local_models: bool = True,
        worker_key: str | None = None,
        split: Split = SPLIT,
        pace: Pace = PACE,
        vectors: KnownVectors | None = None,
    ) -> None:
        self._sender = Sender(
            endpoint,
            load_wait_s=load_wait_s,
            timeout_s=timeout_s,
            allows_local_models=allows_local_models,
            worker_key=worker_key,
            pace=pace,
        )
        self._client_id = uuid.uuid4().hex
        self._allows_local_models = allows_local_models
        self._allowance: Account | None = None
        self._split = split
        self._vectors = vectors

    def named(self, client_id: str, allowance: Account | None = None) -> Self:
        """Return the same client under another name: a worker gives each name an equal part.

        Args:
            client_id: At most 64 characters.
            allowance: Of whoever has the name; None is anything.
        """
        other = copy.copy(self)
        other._client_id = client_id
        other._allowance = allowance
        return other

    async def encode(
        self,
        model: str,
        items: Sequence[wire.Item],
        params: wire.EncodeParams | None = None,
        *,
        progress: Progress | None = None,
    ) -> wire.EncodeResponse:
        """Encode items, in chunks; the answer has one entry an item, in order."""
        params = params or wire.EncodeParams()
        bodies = [wire.EncodeRequest(items=chunk, params=params) for chunk in self._cut(items)]
        ask = partial(self._encode, model, progress=progress)
        parts = await self._run_all(f"encode {model}", bodies, ask, progress)
        merged = [item for part in parts for item in part.items]
        return parts[0].model_copy(update={"items": merged, **totals(parts)})

    async def extract(
        self,
        model: str,
        items: Sequence[wire.Item],
        params: wire.ExtractParams | None = None,
        *,
        progress: Progress | None = None,
    ) -> wire.ExtractResponse:
        """Extract from items, in chunks; the answer has one entry an item, in order."""
        params = params or wire.ExtractParams()
        bodies = [wire.ExtractRequest(items=chunk, params=params) for chunk in self._cut(items)]
        path = self._path("extract", model)
        ask = partial(self._ask, path, model, wire.ExtractResponse, progress=progress)
        parts = await self._run_all(f"extract {model}", bodies, ask, progress)
        merged = [item for part in parts for item in part.items]
        return parts[0].model_copy(update={"items": merged, **totals(parts)})

    async def score(
        self,
        model: str,
        query: wire.Item,
        items: Sequence[wire.Item],
        *,
        instruction: str | None = None,
        options: wire.ScoreOptions | None = None,
        progress: Progress | None = None,
    ) -> wire.ScoreResponse:
        """Score items against a query, in chunks; highest first, ties by index."""
        options = options or wire.ScoreOptions()
        bodies = [
            wire.ScoreRequest(query=query, items=chunk, instruction=instruction, options=options)
            for chunk in self._cut(items)
        ]
        path = self._path("score", model)
        ask = partial(self._ask, path, model, wire.ScoreResponse, progress=progress)
        parts = await self._run_all(f"score {model}", bodies, ask, progress)
        scores = merge_scores(parts, items)
        return parts[0].model_copy(update={"scores": scores, **totals(parts)})

    async def models(self) -> wire.ModelList:
        """List the models a worker knows, with the memory account."""
        return await self._get("/v1/models", wire.ModelList)

    async def model(self, name: str) -> wire.ModelCard:
        """Describe one model.

        Raises:
            ModelNotFound: no such model.
        """
        path = f"/v1/models/{model_in_path(name, self._allows_local_models)}"
        return await self._get(path, wire.ModelCard)

    async def memory(self) -> MemoryAccount:
        """Return the memory account of every device of a worker."""
        return await self._get("/v1/memory", MemoryAccount)

    async def load(self, name: str, body: LoadRequest | None = None) -> wire.ModelCard:
        """Have a model brought up before its first request; the card says how far that is.

        Raises:
            SieError: the load's own, if the body waits for it; NotAllowed.
        """
        return await self._move(name, "load", body or LoadRequest(), wire.ModelCard)

    async def unload(self, name: str, body: UnloadRequest | None = None) -> MemoryAccount:
        """Give a model's memory back, and return the account after it.

        Raises:
            ModelInUse: requests hold it, and still do after the body's wait; NotAllowed.
        """
        return await self._move(name, "unload", body or UnloadRequest(), MemoryAccount)

    async def pin(self, name: str) -> wire.ModelCard:
        """Keep a model that is up on its device."""
        return await self._move(name, "pin", PinRequest(), wire.ModelCard)

    async def unpin(self, name: str) -> MemoryAccount:
        """Let a model leave again when there is need."""
        return await self._move(name, "unpin", PinRequest(), MemoryAccount)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._sender.aclose()

    async def _move(
        self, name: str, verb: str, body: pydantic.BaseModel, answer_type: type[BodyT]
    ) -> BodyT:
        path = f"/v1/models/{model_in_path(name, self._allows_local_models)}/{verb}"
        content = encode_body(body, MSGPACK)
        return await self._sender.send(Call("POST", path, self._client_id, content), answer_type)

    async def _get(self, path: str, answer_type: type[BodyT]) -> BodyT:
        return await self._sender.send(Call("GET", path, self._client_id), answer_type)

    def _cut(self, items: Sequence[wire.Item]) -> list[list[wire.Item]]:
        return chunks(items, self._split)

    def _path(self, verb: str, model: str) -> str:
        return f"/v1/{verb}/{model_in_path(model, self._allows_local_models)}"

    async def _encode(
        self, model: str, body: wire.EncodeRequest, *, priority: str, progress: Progress | None
    ) -> wire.EncodeResponse:
        """Answer a chunk; of vectors that are known only the model's revision is asked."""
        path = self._path("encode", model)
        is_parted = False

        async def ask(model: str, part: wire.EncodeRequest) -> wire.EncodeResponse:
            nonlocal is_parted
            is_parted = part is not body
            return await self._ask(
                path, model, wire.EncodeResponse, part, priority=priority, progress=progress
            )

        async def ask_revision(model: str, lora: str | None) -> wire.Revision:
            query = f"?{urlencode({'lora': lora})}" if lora else ""
            want = Want(model, lora or None)
            call = Call("GET", self._path("revision", model) + query, self._client_id, want=want)
            return await self._sender.send(call, wire.Revision, progress)

        if self._vectors is None:
            return await ask(model, body)
        if self._allowance is not None:
            self._allowance.check_model(model)
        try:
            return (await self._vectors.answer(model, body, ask, ask_revision)).response
        except InvalidInput:
            if not is_parted:
                raise
            # A refusal counts the items that were sent: these shall be the caller's own.
            return await ask(model, body)

    async def _ask(
        self,
        path: str,
        model: str,
        response_type: type[ResponseT],
        body: wire.Request,
        *,
        priority: str,
        progress: Progress | None,
    ) -> ResponseT:
        """Send a chunk, when the caller's account lets it."""
        content = encode_body(body, MSGPACK)
        wait_s = self._sender.left_s() if priority == "bulk" else 0.0
        await admit(self._allowance, model, len(content), wait_s=wait_s)
        call = Call("POST", path, self._client_id, content, want_of(model, body, priority))
        result = await self._sender.send(call, response_type, progress)
        check_complete(result, len(body.items))
        usage.add(len(body.items), result.usage.input_tokens)
        return result

    async def _run_all(
        self,
        name: str,
        bodies: Sequence[RequestT],
        ask: Callable[..., Awaitable[ResponseT]],
        progress: Progress | None,
    ) -> list[ResponseT]:
        """Ask for the chunks, a few at a time; the first error cancels the others."""
        results: list[ResponseT | None] = [None] * len(bodies)
        limiter = self._split.limiter()
        # What one request holds, somebody waits for; a longer list can stand back.
        priority = "bulk" if len(bodies) > 1 else "interactive"
        total = sum(len(body.items) for body in bodies)
        done = 0

        async def run(place: int, body: RequestT) -> None:
            nonlocal done
            async with limiter:
                results[place] = await ask(body, priority=priority)
            done += len(body.items)
            if progress and len(bodies) > 1:
                await progress(done, total, name)

        try:
            async with anyio.create_task_group() as group:
                for place, body in enumerate(bodies):
                    group.start_soon(run, place, body)
        except BaseExceptionGroup as group_error:
            raise first_error(group_error) from group_error
        return [result for result in results if result is not None]
