"""One short text at a time through the engine's whole path, beside sentence-transformers."""

from functools import partial
from typing import Any

from evals.bench import clock, st_peers
from evals.bench.engines import Asked, min_cosine, requests, running, vectors
from evals.bench.folders import make_folder

TEXT = "how do I change the address on my account"
ROUNDS, LIMIT_S, WARM = 300, 15.0, 10


def measure(asked: Asked) -> list[dict[str, Any]]:
    """Return a row for each model."""
    return clock.run(_measure(asked))


async def _measure(asked: Asked) -> list[dict[str, Any]]:
    return [await _row(asked, name) for name in asked.shapes]


async def _row(asked: Asked, name: str) -> dict[str, Any]:
    folder = make_folder(asked.work / f"short-{name}", name, tokenizer=asked.tokenizer)
    expected = st_peers.exact(folder, asked.device, [TEXT])
    peer = st_peers.encoder(folder, asked.device, st_peers.fast_dtype(asked.device))
    (request,) = requests([TEXT], 1)
    async with running(asked) as engine:
        answer = await engine.run(str(folder), request)
        times = await clock.by_turns(
            {
                "ours": partial(engine.run, str(folder), request),
                "peer": clock.blocking(st_peers.encoding(peer, [TEXT], 32)),
            },
            rounds=3 if asked.tiny else ROUNDS,
            limit_s=LIMIT_S,
            warm=1 if asked.tiny else WARM,
        )
        timing = (await engine.run(str(folder), request)).timing
    own, theirs = clock.p50_ms(times["ours"]), clock.p50_ms(times["peer"])
    return {
        "model": name,
        "ours_p50_ms": own,
        "st_p50_ms": theirs,
        "ratio": round(theirs / own, 2),
        "tokenise_ms": timing.tokenization_ms,
        "queue_ms": timing.queue_ms,
        "device_ms": timing.inference_ms,
        "finish_ms": timing.postprocessing_ms,
        "min_cosine": min_cosine(vectors([answer]), expected),
    }
