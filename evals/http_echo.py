"""A raw Starlette application that gives a body back: the least that HTTP can cost here."""

import argparse

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route


async def _echo(request: Request) -> Response:
    return Response(await request.body())


async def _ready(_: Request) -> Response:
    return Response()


def main() -> None:
    """Serve until told to end."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    app = Starlette(routes=[Route("/echo", _echo, methods=["POST"]), Route("/readyz", _ready)])
    uvicorn.run(app, port=parser.parse_args().port, log_level="error", access_log=False)


if __name__ == "__main__":
    main()
