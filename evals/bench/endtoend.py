"""Texts to vectors in one process: our engine, sentence-transformers, and the tokenizer alone.

Ours: requests of 512 texts, several at once, through an Engine as a worker has it. The tokenizer
alone (`encode_batch`, all cores) is what no engine can beat that takes texts.
"""

from functools import partial
from typing import Any

import torch
from tokenizers import Tokenizer

from evals.bench import clock, st_peers
from evals.bench.engines import Asked, answered, min_cosine, requests, running, vectors
from evals.bench.folders import make_folder, tail

BUDGETS = (16_384, 65_536)
SIZES = (1024, 256, 32)
# The smaller batches of a peer are slow: a part of the texts tells their rate.
PART = 4
REQUEST, AT_ONCE = 512, 16
ROUNDS, LIMIT_S = 5, 25.0
NUM_CHECKED = 256


def measure(asked: Asked) -> list[dict[str, Any]]:
    """Return a row for each budget."""
    return clock.run(_measure(asked))


async def _measure(asked: Asked) -> list[dict[str, Any]]:
    folder = make_folder(asked.work / "endtoend", asked.shape, tokenizer=asked.tokenizer)
    texts = tail(_num_texts(asked))
    checked = texts[:NUM_CHECKED]
    expected = st_peers.exact(folder, asked.device, checked)
    peer = st_peers.encoder(folder, asked.device, st_peers.fast_dtype(asked.device))
    alone = Tokenizer.from_file(str(folder / "tokenizer.json"))
    some = texts[: max(len(texts) // PART, 1)]
    st_rates = await _rates(
        {str(size): st_peers.encoding(peer, some, size) for size in SIZES[1:]}, len(some)
    )
    rows = []
    for budget in BUDGETS[:1] if asked.tiny else BUDGETS:
        async with running(asked, max_batch_tokens=budget, max_batch_sequences=4_096) as engine:
            model, sent = str(folder), requests(texts, REQUEST)
            answers = await answered(engine, model, requests(checked, REQUEST), AT_ONCE)
            times = await clock.by_turns(
                {
                    "ours": partial(answered, engine, model, sent, AT_ONCE),
                    "peer": clock.blocking(st_peers.encoding(peer, texts, SIZES[0])),
                    "tokenizer": clock.blocking(partial(_alone, alone, texts)),
                },
                rounds=1 if asked.tiny else ROUNDS,
                limit_s=LIMIT_S,
            )
        rates = {name: len(texts) / clock.median(one) for name, one in times.items()}
        rows.append(
            {
                "model": asked.shape,
                "texts": len(texts),
                "budget": budget,
                "ours_texts_s": round(rates["ours"]),
                "st_1024_texts_s": round(rates["peer"]),
                "st_256_texts_s": round(st_rates["256"]),
                "st_32_texts_s": round(st_rates["32"]),
                "tokenizer_texts_s": round(rates["tokenizer"]),
                "ratio": round(rates["ours"] / rates["peer"], 2),
                "of_tokenizer": round(rates["ours"] / rates["tokenizer"], 3),
                "spread": clock.spread(times["ours"]),
                "rounds": len(times["ours"]),
                "min_cosine": min_cosine(vectors(answers), expected),
            }
        )
    return rows


def _num_texts(asked: Asked) -> int:
    if asked.tiny:
        return 64
    return 20_000 if asked.device.type == "cuda" else 400


async def _rates(runs: dict[str, Any], num_texts: int) -> dict[str, float]:
    turns = {name: clock.blocking(one) for name, one in runs.items()}
    times = await clock.by_turns(turns, rounds=1, limit_s=LIMIT_S, warm=0)
    return {name: num_texts / clock.median(one) for name, one in times.items()}


def _alone(tokenizer: Tokenizer, texts: list[str]) -> int:
    """Tokenise as the library does on all cores; the ids are left where they are."""
    found = len(tokenizer.encode_batch(texts))
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return found
