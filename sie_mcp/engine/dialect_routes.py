"""The routes of other servers' dialects: each body becomes requests of ours, and back again."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from urllib.parse import unquote

from starlette.requests import Request
from starlette.routing import Route

from sie_mcp import wire
from sie_mcp.dialects.operation import AUTO, MODEL_HEADER, DialectBody, Operation
from sie_mcp.dialects.table import OPERATIONS
from sie_mcp.engine.http import Reply, read_body, reply_to, route

# Names of a body's unknown fields in an answer's header.
MAX_NAMED = 10
# Answers requests of ours, in order, for whom the headers name.
Run = Callable[[Request, str, Sequence[wire.Request]], Awaitable[list[wire.Response]]]


class DialectRoutes:
    """One door for all: what differs is in the table.

    Args:
        run: Answers requests of ours.
        max_body_bytes: Of a body.
    """

    def __init__(self, run: Run, *, max_body_bytes: int) -> None:
        self._run = run
        self._max_body_bytes = max_body_bytes

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            Route(path, route(one.name, self._door(one)), methods=["POST"])
            for one in OPERATIONS
            for path in one.paths
        ]

    def _door(self, operation: Operation) -> Callable[[Request], Awaitable[Reply]]:
        async def door(request: Request) -> Reply:
            body = await read_body(request, operation.body, self._max_body_bytes)
            asked = operation.to_requests(body)
            answers = await self._run(request, model_of(request, body), asked)
            answer = await asyncio.to_thread(operation.from_responses, body, answers)
            return _with_ignored(reply_to(answer, answers), body)

        return door


def model_of(request: Request, body: DialectBody | None = None) -> str:
    """Return the model that is asked: the body's, the header's, or the default."""
    named = body.model if body is not None else None
    return named or unquote(request.headers.get(MODEL_HEADER, "")).strip() or AUTO


def _with_ignored(reply: Reply, body: DialectBody) -> Reply:
    """Name the fields that nothing reads: a misspelt one would otherwise look obeyed."""
    names = [name for name in body.model_extra or () if name.isidentifier() and name.isascii()]
    if not names:
        return reply
    headers = {**reply.headers, "X-SIE-Ignored-Fields": ",".join(sorted(names)[:MAX_NAMED])}
    return replace(reply, headers=headers)
