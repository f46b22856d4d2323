"""sentence-transformers behind Starlette, requests batched: what a capable team writes in a day.

Speaks OpenAI's /v1/embeddings. Whatever waits when the model is free makes the next batch.
"""

import argparse
import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import torch
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from evals.bench import st_peers

MOST_TEXTS = 256


class Batching:
    """Collects texts while the model runs."""

    def __init__(self, folder: Path, device: torch.device) -> None:
        self._model = st_peers.encoder(folder, device, st_peers.fast_dtype(device))
        self._waiting: asyncio.Queue[tuple[str, asyncio.Future[Any]]] = asyncio.Queue(65_536)

    async def vector(self, text: str) -> Any:
        """Return the vector of a text."""
        done = asyncio.get_running_loop().create_future()
        await self._waiting.put((text, done))
        return await done

    async def run(self) -> None:
        """Run batches until cancelled."""
        while True:
            batch = [await self._waiting.get()]
            while len(batch) < MOST_TEXTS and not self._waiting.empty():
                batch.append(self._waiting.get_nowait())
            texts = [text for text, _ in batch]
            run = st_peers.encoding(self._model, texts, MOST_TEXTS)
            found: Any = await asyncio.to_thread(run)
            for (_, done), vector in zip(batch, found, strict=True):
                if not done.done():
                    done.set_result(vector)


def app(batching: Batching) -> Starlette:
    """Return the application."""

    async def embed(request: Request) -> Response:
        asked = (await request.json())["input"]
        texts = [asked] if isinstance(asked, str) else asked
        found = await asyncio.gather(*(batching.vector(one) for one in texts))
        data = [
            {"object": "embedding", "index": place, "embedding": one.astype(float).tolist()}
            for place, one in enumerate(found)
        ]
        return JSONResponse({"object": "list", "data": data})

    async def ready(_: Request) -> Response:
        return Response()

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        running = asyncio.create_task(batching.run())
        yield
        running.cancel()

    routes = [Route("/v1/embeddings", embed, methods=["POST"]), Route("/readyz", ready)]
    return Starlette(routes=routes, lifespan=lifespan)


def main() -> None:
    """Serve until told to end."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--device", required=True)
    parser.add_argument("--port", type=int, required=True)
    given = parser.parse_args()
    batching = Batching(given.folder, torch.device(given.device))
    uvicorn.run(app(batching), port=given.port, log_level="error", access_log=False)


if __name__ == "__main__":
    main()
