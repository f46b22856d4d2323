"""Twelve models of one shape on one device against the same traffic on one of them."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

from evals.bench import clock, st_peers
from evals.bench.engines import Asked, min_cosine, requests, running, vectors
from evals.bench.folders import make_folder, tail
from sie_mcp import wire
from sie_mcp.engine.engine import Engine

NUM_MODELS = 12
ROUNDS, LIMIT_S = 7, 30.0
# Texts of a request, and callers side by side: people who search, and jobs.
TRAFFIC = {"4 texts a request": (4, 192), "64 texts a request": (64, 48)}


def measure(asked: Asked) -> list[dict[str, Any]]:
    """Return a row for each kind of traffic."""
    return clock.run(_measure(asked))


async def _measure(asked: Asked) -> list[dict[str, Any]]:
    folders = [
        make_folder(asked.work / f"mixed-{n}", asked.shape, tokenizer=asked.tokenizer, seed=n)
        for n in range(NUM_MODELS)
    ]
    models = [str(one) for one in folders]
    texts = tail(_num_texts(asked))
    checked = texts[:32]
    rows = []
    async with running(asked) as engine:
        found = await asyncio.gather(
            *(engine.run(one, requests(checked, len(checked))[0]) for one in models)
        )
        cosine = min(
            min_cosine(vectors([answer]), st_peers.exact(folder, asked.device, checked))
            for folder, answer in zip(folders, found, strict=True)
        )
        for name, (size, clients) in TRAFFIC.items():
            sent = requests(texts, size)
            times = await clock.by_turns(
                {
                    "one": partial(_turn, engine, models[:1], sent, clients),
                    "twelve": partial(_turn, engine, models, sent, clients),
                },
                rounds=1 if asked.tiny else ROUNDS,
                limit_s=LIMIT_S,
            )
            one, twelve = (len(texts) / clock.median(times[key]) for key in ("one", "twelve"))
            rows.append(
                {
                    "model": f"{NUM_MODELS} × {asked.shape}",
                    "traffic": name,
                    "clients": clients,
                    "one_texts_s": round(one),
                    "twelve_texts_s": round(twelve),
                    "share": round(twelve / one, 3),
                    "spread": clock.spread(times["twelve"]),
                    "min_cosine": cosine,
                }
            )
    return rows


def _num_texts(asked: Asked) -> int:
    if asked.tiny:
        return 96
    return 20_000 if asked.device.type == "cuda" else 1_200


async def _turn(
    engine: Engine, models: Sequence[str], sent: Sequence[wire.EncodeRequest], clients: int
) -> None:
    """Answer all requests, each of the next model, as many at once as there are clients."""
    places = iter(range(len(sent)))

    async def client() -> None:
        for place in places:
            await engine.run(models[place % len(models)], sent[place])

    await asyncio.gather(*(client() for _ in range(clients)))
