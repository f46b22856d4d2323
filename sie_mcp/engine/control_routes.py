"""The routes of the memory account and of what moves models: load, unload, pin, unpin."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import pydantic
from starlette.requests import Request
from starlette.routing import Route

from sie_mcp.dialects.bodies import Reply
from sie_mcp.engine.caller import read_caller
from sie_mcp.engine.control import Control
from sie_mcp.engine.engine import Engine
from sie_mcp.engine.http import read_body, route
from sie_mcp.errors import InvalidInput, NotAllowed
from sie_mcp.http_ends import unless_gone
from sie_mcp.wire_memory import LoadRequest, PinRequest, UnloadRequest

BodyT = TypeVar("BodyT", bound=pydantic.BaseModel)
Answer = pydantic.BaseModel | Reply


class ControlRoutes:
    """Ten lines a door.

    Args:
        engine: Resolves names and describes models.
        control: Moves models.
        is_allowed: Whether callers may move models; the account may always be read.
        max_body_bytes: Of a body.
    """

    def __init__(
        self, engine: Engine, control: Control, *, is_allowed: bool, max_body_bytes: int
    ) -> None:
        self._engine = engine
        self._control = control
        self._is_allowed = is_allowed
        self._max_body_bytes = max_body_bytes

    def routes(self) -> list[Route]:
        """Return the routes."""
        doors: dict[str, Callable[[Request], Awaitable[Answer]]] = {
            "load": self._load,
            "unload": self._unload,
            "pin": self._pin,
            "unpin": self._unpin,
        }
        return [
            Route("/v1/memory", route("memory", self._memory)),
            *(
                Route(f"/v1/models/{{model:path}}/{verb}", route(verb, door), methods=["POST"])
                for verb, door in doors.items()
            ),
        ]

    async def _memory(self, _: Request) -> Answer:
        return self._control.account()

    async def _load(self, request: Request) -> Answer:
        model, body = await self._read(request, LoadRequest, may_come=True)
        await unless_gone(request, self._control.load(model, body.wait_s, pin=body.pin))
        card = await self._engine.model(model)
        return card if card.loaded else Reply(card, 202)

    async def _unload(self, request: Request) -> Answer:
        model, body = await self._read(request, UnloadRequest)
        await unless_gone(request, self._control.unload(model, body.wait_s, body.tier))
        return self._control.account()

    async def _pin(self, request: Request) -> Answer:
        model, _ = await self._read(request, PinRequest)
        if not self._control.pin(model):
            raise InvalidInput(
                f"{model} is not loaded; load it with {{'pin': true}}, or "
                f"`sie-mcp models load {model} --pin`"
            )
        return await self._engine.model(model)

    async def _unpin(self, request: Request) -> Answer:
        model, _ = await self._read(request, PinRequest)
        self._control.unpin(model)
        return self._control.account()

    async def _read(
        self, request: Request, body_type: type[BodyT], *, may_come: bool = False
    ) -> tuple[str, BodyT]:
        """Return the model's one name and the body; an empty body is one with nothing set.

        Raises:
            ModelNotFound: nothing is called so; `may_come` is for what may be fetched yet.
        """
        if not self._is_allowed:
            raise NotAllowed(
                "this server does not let callers move models; start it with "
                "SIE_MCP_ALLOW_MODEL_CONTROL=true, or use its local socket"
            )
        is_empty = request.headers.get("content-length", "0") == "0"
        if is_empty and "transfer-encoding" not in request.headers:
            body = body_type()
        else:
            body = await read_body(request, body_type, self._max_body_bytes)
        name = request.path_params["model"]
        self._engine.check_names([name], read_caller(request.headers))
        model = await self._engine.resolve(name)
        if not self._control.holds(model):
            await self._engine.check_known(model, may_come=may_come)
        return model, body
