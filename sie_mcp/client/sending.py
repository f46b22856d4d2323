"""One request to a worker, sent until it works or patience with its kind of error ends.

Knows HTTP, workers and their errors; knows nothing of primitives, lists or tools.
"""

import uuid
from dataclasses import dataclass, replace
from typing import TypeVar

import anyio
import httpx2
import pydantic

from sie_mcp import request_ids, tracing
from sie_mcp.answer import is_workers_own, read_answer
from sie_mcp.codec import MSGPACK
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
from sie_mcp.local_models import LOCAL_MODELS_HEADER
from sie_mcp.retry import Pace, Patience, Suspects

BodyT = TypeVar("BodyT", bound=pydantic.BaseModel)

# A worker refuses a wait of nothing, and one of a day.
SHORTEST_LOAD_WAIT_S = 0.05
SHORTEST_WAIT_S, LONGEST_WAIT_S = 0.001, 86_000.0
REQUEST_HEADERS = {"Accept": MSGPACK, "Content-Type": MSGPACK}


@dataclass(frozen=True, slots=True)
class Call:
    """What is sent, for whom, and what decides where."""

    method: str
    path: str
    client_id: str
    content: bytes | None = None
    want: Want = ANYTHING


class Sender:
    """Sends calls to the endpoint's workers; see `EngineClient` for its arguments."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        load_wait_s: float,
        timeout_s: float,
        allows_local_models: bool,
        worker_key: str | None,
        pace: Pace,
    ) -> None:
        self._endpoint = endpoint
        self._load_wait_s = load_wait_s
        self._timeout_s = timeout_s
        self._allows_local_models = allows_local_models
        self._pace = pace
        self._connections = Connections(timeout_s=timeout_s, key=worker_key)
        self._suspects = Suspects()

    async def send(
        self, call: Call, body_type: type[BodyT], progress: Progress | None = None
    ) -> BodyT:
        """Send until it works, or until patience with the kind of error ends."""
        patience = Patience(self._load_wait_s, self._pace)
        want = call.want
        while True:
            address = await find_worker(self._endpoint, want, patience, progress)
            headers = self._headers(call, patience)
            try:
                async with one_try(self._endpoint, address, want), self._suspects.turn(patience):
                    response = await self._once(address, call, headers)
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

    def left_s(self) -> float:
        """Return how long an answer is waited for: until the caller's deadline, or our own."""
        left_s = anyio.current_effective_deadline() - anyio.current_time()
        return min(max(left_s, SHORTEST_WAIT_S), self._timeout_s, LONGEST_WAIT_S)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._connections.aclose()

    def _headers(self, call: Call, patience: Patience) -> dict[str, str]:
        load_wait_s = max(min(NEWS_EVERY_S, patience.load_left_s), SHORTEST_LOAD_WAIT_S)
        return REQUEST_HEADERS | {
            request_ids.HEADER: request_ids.current() or uuid.uuid4().hex,
            "X-SIE-Client": call.client_id,
            "X-SIE-Priority": call.want.priority or "interactive",
            "X-SIE-Timeout": f"{self.left_s():.3f}",
            "X-SIE-Load-Wait": f"{load_wait_s:.2f}",
            LOCAL_MODELS_HEADER: "yes" if self._allows_local_models else "no",
        }

    async def _once(self, address: Address, call: Call, headers: dict[str, str]) -> httpx2.Response:
        connections = self._connections.to(address)
        content = call.content
        try:
            with tracing.span(f"{call.method} worker", "client", bytes=len(content or b"")):
                tracing.inject(headers)
                return await connections.request(
                    call.method, call.path, content=content, headers=headers
                )
        except httpx2.RequestError as error:
            raise connection_error(error, address) from error
