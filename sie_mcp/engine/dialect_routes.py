"""The routes of other servers' dialects: each body becomes requests of ours, and back again."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from starlette.requests import Request
from starlette.routing import Route

from sie_mcp import wire
from sie_mcp.dialects.bodies import Reply, are_small, ignored_fields, model_of, reply_to
from sie_mcp.dialects.operation import Operation
from sie_mcp.dialects.table import OPERATIONS
from sie_mcp.engine.http import read_body, route

# Answers requests of ours, in order, for whom the headers name; the last says whether only a model
# with labels of its own will do.
Run = Callable[[Request, str, Sequence[wire.Request], bool], Awaitable[list[wire.Response]]]


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
            model = model_of(request.headers, body)
            answers = await self._run(request, model, asked, operation.predicts)
            if are_small(answers):
                answer = operation.from_responses(body, answers)
            else:
                answer = await asyncio.to_thread(operation.from_responses, body, answers)
            reply = reply_to(answer, answers)
            return replace(reply, headers={**reply.headers, **ignored_fields(body)})

        return door
