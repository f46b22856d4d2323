"""One query with 100 documents of about 120 tokens: the engine's whole path beside CrossEncoder."""

from functools import partial
from typing import Any

import numpy as np
import torch

from evals.bench import clock, st_peers
from evals.bench.engines import Asked, running
from evals.bench.folders import make_folder, of_sizes
from sie_mcp import wire
from sie_mcp.engine.engine import Engine

NUM_DOCUMENTS, WORDS = 100, (60, 126)
QUERY = "Which of these passages says what the new law means for small towns?"
ROUNDS, LIMIT_S, WARM = 40, 40.0, 4
SIZES = (32, 128)


def measure(asked: Asked) -> list[dict[str, Any]]:
    """Return one row."""
    return clock.run(_measure(asked))


async def _measure(asked: Asked) -> list[dict[str, Any]]:
    folder = make_folder(
        asked.work / "rerank", asked.shape, tokenizer=asked.tokenizer, task="cross_encoder"
    )
    rng = np.random.default_rng(3)
    count = 8 if asked.tiny else NUM_DOCUMENTS
    documents = of_sizes(rng.integers(*WORDS, count).tolist(), rng)
    exact = st_peers.reranker(folder, asked.device, torch.float32)
    expected = st_peers.scoring(exact, QUERY, documents, 32)()
    peer = st_peers.reranker(folder, asked.device, st_peers.fast_dtype(asked.device))
    request = wire.ScoreRequest(
        query=wire.Item(text=QUERY), items=[wire.Item(text=one) for one in documents]
    )
    async with running(asked) as engine:
        found = await _scores(engine, str(folder), request)
        turns = {"ours": partial(engine.run, str(folder), request)}
        for size in SIZES:
            run = st_peers.scoring(peer, QUERY, documents, size)
            turns[f"CrossEncoder, {size}"] = clock.blocking(run)
        times = await clock.by_turns(
            turns,
            rounds=2 if asked.tiny else ROUNDS,
            limit_s=LIMIT_S,
            warm=1 if asked.tiny else WARM,
        )
        timing = (await engine.run(str(folder), request)).timing
    own = clock.p50_ms(times.pop("ours"))
    theirs = {name: clock.p50_ms(one) for name, one in times.items()}
    best = min(theirs, key=lambda name: theirs[name])
    return [
        {
            "model": asked.shape,
            "documents": count,
            "ours_p50_ms": own,
            "peer": best,
            "peer_p50_ms": theirs[best],
            "ratio": round(theirs[best] / own, 2),
            "tokenise_ms": timing.tokenization_ms,
            "queue_ms": timing.queue_ms,
            "device_ms": timing.inference_ms,
            "finish_ms": timing.postprocessing_ms,
            # Scores of random weights lie close together: of their spread, not of their size.
            "correlation": round(float(np.corrcoef(found, expected)[0, 1]), 5),
            "max_difference": round(float(np.abs(found - expected).max()), 6),
        }
    ]


async def _scores(engine: Engine, model: str, request: wire.ScoreRequest) -> np.ndarray:
    """Return scores in the order of the documents."""
    answer = await engine.run(model, request)
    assert isinstance(answer, wire.ScoreResponse)
    by_index = {one.index: one.score for one in answer.scores}
    return np.array([by_index[place] for place in range(len(by_index))])
