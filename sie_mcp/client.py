"""The light side's one way to a worker: encode, score and extract over HTTP + MessagePack.

Splits long lists, keeps order, retries what is safe to retry (all three primitives are pure), and
rebuilds the worker's typed errors. Knows nothing of tools, MCP or how a worker is started.
"""

import copy
import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import Self, TypeVar

import anyio
import httpx2
import pydantic

from sie_mcp import request_ids, tracing, usage, wire
from sie_mcp.access.account import Account, admit
from sie_mcp.answer import is_workers_own, read_answer
from sie_mcp.chunks import check_complete, chunks, first_error, merge_scores, totals
from sie_mcp.codec import MSGPACK, encode_body
from sie_mcp.connection import (
    ANYTHING,
    Address,
    Connections,
    Endpoint,
    Want,
    connection_error,
    one_try,
)
from sie_mcp.errors import ModelLoading, SieError, WorkerUnavailable
from sie_mcp.finding import NEWS_EVERY_S, Progress, find_worker
from sie_mcp.local_models import LOCAL_MODELS_HEADER, model_in_path
from sie_mcp.retry import Patience, Suspects
from sie_mcp.wants import want_of
from sie_mcp.wire_memory import LoadRequest, MemoryAccount, PinRequest, UnloadRequest

__all__ = ["EngineClient", "Progress"]

ResponseT = TypeVar("ResponseT", bound=wire.Response)
BodyT = TypeVar("BodyT", bound=pydantic.BaseModel)

MAX_CONCURRENT_CHUNKS = 4
# A worker refuses a wait of nothing, and one of a day.
SHORTEST_LOAD_WAIT_S = 0.05
SHORTEST_WAIT_S, LONGEST_WAIT_S = 0.001, 86_000.0
REQUEST_HEADERS = {"Accept": MSGPACK, "Content-Type": MSGPACK}


class EngineClient:
    """Calls one worker. Safe for many tasks at once; close with `aclose`.

    Args:
        endpoint: Finds the worker for each call.
        load_wait_s: How long a call waits for a worker to start and a model to load before it
            raises ModelLoading.
        timeout_s: Longest wait for one answer.
        allows_local_models: Whether a path may name a model.
        worker_key: What the worker wants to be shown.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        load_wait_s: float = 20.0,
        timeout_s: float = 600.0,
        allows_local_models: bool = True,
        worker_key: str | None = None,
    ) -> None:
        self._endpoint = endpoint
        self._load_wait_s = load_wait_s
        self._timeout_s = timeout_s
        self._client_id = uuid.uuid4().hex
        self._allows_local_models = allows_local_models
        self._allowance: Account | None = None
        self._connections = Connections(timeout_s=timeout_s, key=worker_key)
        self._suspects = Suspects()

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
        bodies = [wire.EncodeRequest(items=chunk, params=params) for chunk in chunks(items)]
        parts = await self._run_all("encode", model, bodies, wire.EncodeResponse, progress)
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
        bodies = [wire.ExtractRequest(items=chunk, params=params) for chunk in chunks(items)]
        parts = await self._run_all("extract", model, bodies, wire.ExtractResponse, progress)
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
            for chunk in chunks(items)
        ]
        parts = await self._run_all("score", model, bodies, wire.ScoreResponse, progress)
        scores = merge_scores(parts, items)
        return parts[0].model_copy(update={"scores": scores, **totals(parts)})

    async def models(self) -> wire.ModelList:
        """List the models a worker knows, with the memory account."""
        return await self._request("GET", "/v1/models", None, wire.ModelList, None)

    async def model(self, name: str) -> wire.ModelCard:
        """Describe one model.

        Raises:
            ModelNotFound: no such model.
        """
        return await self._request(
            "GET",
            f"/v1/models/{model_in_path(name, self._allows_local_models)}",
            None,
            wire.ModelCard,
            None,
        )

    async def memory(self) -> MemoryAccount:
        """Return the memory account of every device of a worker."""
        return await self._request("GET", "/v1/memory", None, MemoryAccount, None)

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
        await self._connections.aclose()

    async def _move(
        self, name: str, verb: str, body: pydantic.BaseModel, answer_type: type[BodyT]
    ) -> BodyT:
        path = f"/v1/models/{model_in_path(name, self._allows_local_models)}/{verb}"
        return await self._request("POST", path, encode_body(body, MSGPACK), answer_type, None)

    async def _run_all(
        self,
        primitive: str,
        model: str,
        bodies: Sequence[wire.Request],
        response_type: type[ResponseT],
        progress: Progress | None,
    ) -> list[ResponseT]:
        """Send the chunks, a few at a time; the first error cancels the others."""
        results: list[ResponseT | None] = [None] * len(bodies)
        limiter = anyio.CapacityLimiter(MAX_CONCURRENT_CHUNKS)
        path = f"/v1/{primitive}/{model_in_path(model, self._allows_local_models)}"
        # What one request holds, somebody waits for; a longer list can stand back.
        priority = "bulk" if len(bodies) > 1 else "interactive"
        total = sum(len(body.items) for body in bodies)
        done = 0

        async def run(place: int, body: wire.Request) -> None:
            nonlocal done
            async with limiter:
                content = encode_body(body, MSGPACK)
                wait_s = self._left_s() if len(bodies) > 1 else 0.0
                await admit(self._allowance, model, len(content), wait_s=wait_s)
                result = await self._request(
                    "POST",
                    path,
                    content,
                    response_type,
                    progress,
                    want_of(model, body, priority),
                )
                check_complete(result, len(body.items))
                usage.add(len(body.items), result.usage.input_tokens)
            results[place] = result
            done += len(body.items)
            if progress and len(bodies) > 1:
                await progress(done, total, f"{primitive} {model}")

        try:
            async with anyio.create_task_group() as group:
                for place, body in enumerate(bodies):
                    group.start_soon(run, place, body)
        except BaseExceptionGroup as group_error:
            raise first_error(group_error) from group_error
        return [result for result in results if result is not None]

    async def _request(
        self,
        method: str,
        path: str,
        content: bytes | None,
        body_type: type[BodyT],
        progress: Progress | None,
        want: Want = ANYTHING,
    ) -> BodyT:
        """Send until it works, or until patience with the kind of error ends."""
        patience = Patience(self._load_wait_s)
        while True:
            address = await find_worker(self._endpoint, want, patience, progress)
            load_wait_s = max(min(NEWS_EVERY_S, patience.load_left_s), SHORTEST_LOAD_WAIT_S)
            headers = REQUEST_HEADERS | {
                request_ids.HEADER: request_ids.current() or uuid.uuid4().hex,
                "X-SIE-Client": self._client_id,
                "X-SIE-Priority": want.priority or "interactive",
                "X-SIE-Timeout": f"{self._left_s():.3f}",
                "X-SIE-Load-Wait": f"{load_wait_s:.2f}",
                LOCAL_MODELS_HEADER: "yes" if self._allows_local_models else "no",
            }
            try:
                async with one_try(self._endpoint, address, want), self._suspects.turn(patience):
                    response = await self._send(address, method, path, content, headers)
                    patience.had_worker |= is_workers_own(response)
                    self._endpoint.learn(want, response.headers.get("X-SIE-Model"))
                    return read_answer(response, body_type)
            except SieError as error:
                if isinstance(error, WorkerUnavailable):
                    want = replace(want, tried=want.tried | {address.base_url})
                if isinstance(error, ModelLoading) and progress:
                    await progress(0, 1, f"{error} ({patience.waited_s:.0f} s)")
                pause_s = patience.pause_s(error)
                if pause_s is None:
                    patience.raise_last(error)
            await anyio.sleep(pause_s)

    def _left_s(self) -> float:
        """Return how long the answer is waited for: until the caller's deadline, or our own."""
        left_s = anyio.current_effective_deadline() - anyio.current_time()
        return min(max(left_s, SHORTEST_WAIT_S), self._timeout_s, LONGEST_WAIT_S)

    async def _send(
        self,
        address: Address,
        method: str,
        path: str,
        content: bytes | None,
        headers: dict[str, str],
    ) -> httpx2.Response:
        connections = self._connections.to(address)
        try:
            with tracing.span(f"{method} worker", "client", bytes=len(content or b"")):
                tracing.inject(headers)
                return await connections.request(method, path, content=content, headers=headers)
        except httpx2.RequestError as error:
            raise connection_error(error, address) from error
