"""The light side's one way to a worker: encode, score and extract over HTTP + MessagePack.

Splits long lists, keeps order, retries what is safe to retry (all three primitives are pure), and
rebuilds the worker's typed errors. Knows nothing of tools, MCP or how a worker is started.
"""

import itertools
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, cast

import anyio
import httpx2
import pydantic
import tenacity

from sie_mcp import wire
from sie_mcp.codec import MSGPACK, decode_body, encode_body, media_type_of
from sie_mcp.errors import ModelLoading, SieError, WorkerUnavailable, error_classes

# progress(done, total, message): how far a list is, or what is being waited for.
Progress = Callable[[int, int, str], Awaitable[None]]
ResponseT = TypeVar("ResponseT", bound=wire.Response)

CHUNK_ITEMS = 128
MAX_CONCURRENT_CHUNKS = 4
# A worker answers MODEL_LOADING after this long, so that progress can be shown.
LOAD_POLL_S = 2.0
CONNECT_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class Address:
    """Where a worker listens: a base URL, and a Unix socket path for local ones."""

    base_url: str
    uds: str | None = None


class Endpoint(Protocol):
    """Finds a worker; a local one starts or joins it first."""

    async def address(self) -> Address:
        """Return a worker that should answer.

        Raises:
            WorkerUnavailable: none could be found or started.
        """

    async def lost(self, address: Address) -> None:
        """Hear that the worker at this address did not answer."""


class FixedEndpoint:
    """A worker at a known URL."""

    def __init__(self, base_url: str) -> None:
        self._address = Address(base_url=base_url.rstrip("/"))

    async def address(self) -> Address:
        """Return the URL."""
        return self._address

    async def lost(self, address: Address) -> None:
        """Do nothing: whoever runs the worker restarts it."""


class EngineClient:
    """Calls one worker. Safe for many tasks at once; close with `aclose`.

    Args:
        endpoint: Finds the worker for each call.
        load_wait_s: How long a call waits for a model to load before it raises ModelLoading.
        timeout_s: Longest wait for one answer.
    """

    def __init__(
        self, endpoint: Endpoint, *, load_wait_s: float = 20.0, timeout_s: float = 600.0
    ) -> None:
        self._endpoint = endpoint
        self._load_wait_s = load_wait_s
        self._timeout_s = timeout_s
        self._sessions: dict[Address, httpx2.AsyncClient] = {}

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
        bodies = [wire.EncodeRequest(items=list(chunk), params=params) for chunk in _chunks(items)]
        parts = await self._run_all("encode", model, bodies, wire.EncodeResponse, progress)
        merged = [item for part in parts for item in part.items]
        return parts[0].model_copy(update={"items": merged, **_totals(parts)})

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
        bodies = [wire.ExtractRequest(items=list(chunk), params=params) for chunk in _chunks(items)]
        parts = await self._run_all("extract", model, bodies, wire.ExtractResponse, progress)
        merged = [item for part in parts for item in part.items]
        return parts[0].model_copy(update={"items": merged, **_totals(parts)})

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
        bodies = [
            wire.ScoreRequest(
                query=query,
                items=list(chunk),
                instruction=instruction,
                options=options or wire.ScoreOptions(),
            )
            for chunk in _chunks(items)
        ]
        parts = await self._run_all("score", model, bodies, wire.ScoreResponse, progress)
        return parts[0].model_copy(update={"scores": _merge_scores(parts), **_totals(parts)})

    async def models(self) -> wire.ModelList:
        """List the models a worker knows, with the memory account."""
        return wire.ModelList.model_validate(await self._get("/v1/models"))

    async def model(self, name: str) -> wire.ModelCard:
        """Describe one model.

        Raises:
            ModelNotFound: no such model.
        """
        return wire.ModelCard.model_validate(await self._get(f"/v1/models/{name}"))

    async def aclose(self) -> None:
        """Close all connections."""
        while self._sessions:
            _, session = self._sessions.popitem()
            await session.aclose()

    async def _run_all(
        self,
        primitive: str,
        model: str,
        bodies: Sequence[pydantic.BaseModel],
        response_type: type[ResponseT],
        progress: Progress | None,
    ) -> list[ResponseT]:
        """Send the chunks, a few at a time; the first error cancels the others."""
        results: list[ResponseT | None] = [None] * len(bodies)
        limiter = anyio.CapacityLimiter(MAX_CONCURRENT_CHUNKS)
        sizes = [len(body.items) for body in bodies]  # type: ignore[attr-defined]
        done = itertools.count(1)

        async def run(index: int) -> None:
            async with limiter:
                data = await self._post(f"/v1/{primitive}/{model}", bodies[index], progress)
                results[index] = cast("ResponseT", response_type.model_validate(data))
            finished = next(done)
            if progress and len(bodies) > 1:
                total = sum(sizes)
                await progress(min(finished * CHUNK_ITEMS, total), total, f"{primitive} {model}")

        try:
            async with anyio.create_task_group() as group:
                for index in range(len(bodies)):
                    group.start_soon(run, index)
        except BaseExceptionGroup as group_error:
            raise _first_error(group_error) from group_error
        return [result for result in results if result is not None]

    async def _get(self, path: str) -> Any:
        return await self._retry("GET", path, None, None)

    async def _post(self, path: str, body: pydantic.BaseModel, progress: Progress | None) -> Any:
        return await self._retry("POST", path, encode_body(body, MSGPACK), progress)

    async def _retry(
        self, method: str, path: str, content: bytes | None, progress: Progress | None
    ) -> Any:
        """Try until it works, the error is not retryable, or its kind's patience ends."""
        started = anyio.current_time()
        stop = _Patience(self._load_wait_s)
        async for attempt in tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception(_is_retryable),
            wait=_wait_as_told,
            stop=stop,
            sleep=anyio.sleep,
            reraise=True,
        ):
            with attempt:
                try:
                    return await self._send(method, path, content)
                except ModelLoading as error:
                    if progress:
                        waited = anyio.current_time() - started
                        await progress(0, 1, f"{error} ({waited:.0f} s)")
                    raise
        raise AssertionError("tenacity re-raises")  # pragma: no cover

    async def _send(self, method: str, path: str, content: bytes | None) -> Any:
        address = await self._endpoint.address()
        session = self._session(address)
        headers = {
            "Accept": MSGPACK,
            "Content-Type": MSGPACK,
            "X-SIE-Load-Wait": str(min(LOAD_POLL_S, self._load_wait_s)),
        }
        try:
            response = await session.request(method, path, content=content, headers=headers)
        except httpx2.TransportError as error:
            await self._endpoint.lost(address)
            raise WorkerUnavailable(
                f"the worker stopped answering ({type(error).__name__}); call again",
                retry_after_s=0.1,
            ) from error
        data = decode_body(response.content, media_type_of(response.headers.get("Content-Type")))
        if response.status_code >= 400:
            raise _rebuild_error(data, response)
        return data

    def _session(self, address: Address) -> httpx2.AsyncClient:
        if address not in self._sessions:
            transport = (
                httpx2.AsyncHTTPTransport(uds=address.uds) if address.uds is not None else None
            )
            self._sessions[address] = httpx2.AsyncClient(
                base_url=address.base_url,
                transport=transport,
                timeout=httpx2.Timeout(self._timeout_s, connect=CONNECT_TIMEOUT_S),
                trust_env=address.uds is None,
            )
        return self._sessions[address]


class _Patience:
    """Stop rule: a load is waited for in seconds, anything else in attempts."""

    def __init__(self, load_wait_s: float) -> None:
        self._loading = tenacity.stop_after_delay(load_wait_s)
        self._other = tenacity.stop_after_attempt(6)

    def __call__(self, state: tenacity.RetryCallState) -> bool:
        error = state.outcome.exception() if state.outcome else None
        stop = self._loading if isinstance(error, ModelLoading) else self._other
        return bool(stop(state))


def _is_retryable(error: BaseException) -> bool:
    return isinstance(error, SieError) and error.retryable


def _wait_as_told(state: tenacity.RetryCallState) -> float:
    """Honour Retry-After, doubled for each attempt up to 5 s; a load is polled by the worker."""
    error = state.outcome.exception() if state.outcome else None
    if isinstance(error, ModelLoading):
        return 0.05
    told = error.retry_after_s if isinstance(error, SieError) else None
    return float(min((told or 0.1) * 2 ** (state.attempt_number - 1), 5.0))


def _rebuild_error(data: Any, response: httpx2.Response) -> SieError:
    body = data.get("error", {}) if isinstance(data, dict) else {}
    code = response.headers.get("X-SIE-Error-Code") or body.get("code", "")
    message = body.get("message") or f"the worker answered {response.status_code}"
    retry_after = response.headers.get("Retry-After")
    cls = error_classes().get(code, SieError)
    return cls(message, retry_after_s=float(retry_after) if retry_after else None)


def _first_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return what a caller should see: our own error before anything else."""
    typed, _ = group.split(SieError)
    found: BaseException = typed or group
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found


def _chunks(items: Sequence[wire.Item]) -> list[Sequence[wire.Item]]:
    return [items[start : start + CHUNK_ITEMS] for start in range(0, len(items), CHUNK_ITEMS)]


def _totals(parts: Sequence[wire.Response]) -> dict[str, Any]:
    names = wire.Timing.model_fields
    timing = {name: max(getattr(part.timing, name) for part in parts) for name in names}
    tokens = sum(part.usage.input_tokens for part in parts)
    return {"timing": wire.Timing(**timing), "usage": wire.Usage(input_tokens=tokens)}


def _merge_scores(parts: Sequence[wire.ScoreResponse]) -> list[wire.Score]:
    scores = [
        score.model_copy(update={"index": score.index + number * CHUNK_ITEMS})
        for number, part in enumerate(parts)
        for score in part.scores
    ]
    scores.sort(key=lambda s: (s.score is None, -(s.score or 0.0), s.index))
    return [score.model_copy(update={"rank": rank}) for rank, score in enumerate(scores)]
