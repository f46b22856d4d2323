"""A call from inside: its answer is plain bytes, whatever its caller could unpack."""

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from sie_mcp.broker.messages import Call
from sie_mcp.compression import MIN_BYTES, choose_encoding
from sie_mcp.engine.pulling.inside import Inside
from tests.engine.conftest import play


@pytest.mark.parametrize("asked", [(), (("accept-encoding", "gzip, zstd"),)])
def test_an_answer_is_not_compressed(asked):
    async def answer(request: Request) -> Response:
        encoding = choose_encoding(request.headers.get("accept-encoding"), MIN_BYTES)
        return PlainTextResponse(f"{encoding}")

    async def scenario():
        inside = Inside(Starlette(routes=[Route("/v1/x", answer)]))
        found = await inside.run(Call("GET", "/v1/x", asked, b""), 1.0)
        assert (found.status, found.body) == (200, b"None")
        await inside.aclose()

    play(scenario)


@pytest.mark.parametrize("value", ["plain", "Zoë", "名前"])
def test_a_header_need_not_be_ascii(value):
    async def answer(request: Request) -> Response:
        return Response(request.headers["x-anything"].encode("latin-1"))

    async def scenario():
        inside = Inside(Starlette(routes=[Route("/v1/x", answer)]))
        found = await inside.run(Call("GET", "/v1/x", (("x-anything", value),), b""), 1.0)
        assert found.body.decode() == value
        await inside.aclose()

    play(scenario)
