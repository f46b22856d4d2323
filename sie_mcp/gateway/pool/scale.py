"""`GET /internal/scale`: what each pool is wanted for, for whoever starts and stops its workers.

A scaler asks every gateway and adds up: each knows its own callers only. It names pools and counts,
nothing else, and asks for no key: a scaler has none. Keep it off the routes that callers reach.
"""

from collections.abc import Mapping
from typing import Protocol

import pydantic
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

SCALE_PATH = "/internal/scale"


class Wanted(Protocol):
    """A pool, as far as this goes."""

    @property
    def num_wanted(self) -> int:
        """Return the requests that run or wait."""


class Scale(pydantic.BaseModel):
    """What is wanted: every pool of the plan is named, those at zero too."""

    pools: dict[str, int]


class ScaleRoute:
    """Answers scalers.

    Args:
        pools: By name; read anew at every request.
    """

    def __init__(self, pools: Mapping[str, Wanted]) -> None:
        self._pools = pools

    def routes(self) -> list[Route]:
        """Return the route. It belongs beside the probes, outside the check of Host and keys."""
        return [Route(SCALE_PATH, self._scale)]

    async def _scale(self, _: Request) -> Response:
        wanted = Scale(pools={name: pool.num_wanted for name, pool in self._pools.items()})
        return JSONResponse(wanted.model_dump(), headers={"Cache-Control": "no-store"})
