"""GLiNER beside the gliner package, in the same run: `python -m evals.bench --gpu --only extract`.

Random weights of gliner_small-v2.1's shape (DeBERTa v3 small, 12 words a span); texts of 8 to 380
words, log-normal, five labels. Both read the same checkpoint from one folder, and the same findings
are asked of both before anything is timed. Ours: prepare on one thread, packed forward, finish.
Peer: `inference`, the best of two batch sizes, sorted by length. Medians of interleaved rounds.
Without the package the rows say so and hold our speed alone.
"""

import importlib
import importlib.util
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sie_mcp import wire
from sie_mcp.adapters.adapter import Adapter, Result
from sie_mcp.adapters.create import load_adapter, read_recipe
from sie_mcp.adapters.packing import pack, unpack
from tests.parity.gliners import Kind, save_gliner

LABELS = ["person", "company", "city", "date", "product"]
BUDGET_TOKENS = {"cuda": 32_768, "cpu": 4_096}
# Scores closer to the threshold than this may fall on either side.
TOLERANCE = {"cuda": 0.02, "cpu": 1e-4}
_BASE = {
    "relative_attention": True,
    "position_buckets": 256,
    "norm_rel_ebd": "layer_norm",
    "share_att_key": True,
    "pos_att_type": "p2c|c2p",
    "max_relative_positions": -1,
    "position_biased_input": False,
    "type_vocab_size": 0,
    "max_position_embeddings": 512,
    "pad_token_id": 0,
}
_SMALL = {"hidden_size": 768, "num_hidden_layers": 6, "num_attention_heads": 12}
_TINY = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}


@dataclass(frozen=True, slots=True)
class Work:
    """What is run: a folder's model, texts, and where."""

    folder: Path
    texts: list[str]
    device: torch.device
    rounds: int


def measure(device: torch.device, *, tiny: bool = False) -> list[dict[str, Any]]:
    """Measure and return plain rows for the record."""
    num_texts, rounds = (8, 1) if tiny else ({"cuda": 512, "cpu": 16}[device.type], 3)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        shape = {**_BASE, **(_TINY if tiny else _SMALL)}
        shape["intermediate_size"] = 4 * shape["hidden_size"]
        settings = {"hidden_size": shape["hidden_size"] if tiny else 512}
        # Wide enough that scores differ, and not so wide that all are 0 or 1.
        scale = 0.24 if tiny else 0.033
        kind = Kind("bench", "deberta-v2", shape, settings, tokenizer="metaspace", scale=scale)
        save_gliner(folder, kind)
        name = "gliner, tiny" if tiny else "gliner-small"
        return [{"model": name, **_row(Work(folder, texts(num_texts), device, rounds))}]


def texts(count: int) -> list[str]:
    """Draw texts of mixed lengths."""
    rng = np.random.default_rng(0)
    words = ["river", "stone", "Ann", "Berlin", "Acme", "1999", "coffee", "works", "for", "in"]
    lengths = np.clip(rng.lognormal(np.log(60), 0.9, count), 8, 380).astype(int)
    return [" ".join(rng.choice(words, size)) for size in lengths]


def _row(work: Work) -> dict[str, Any]:
    adapter = _load(work)
    peer = _peer(work)
    threshold = _threshold(adapter, work)
    row: dict[str, Any] = {"labels": len(LABELS), "texts": len(work.texts)}
    num_words = sum(len(text.split()) for text in work.texts)
    ours = lambda: _ours(adapter, work, threshold)  # noqa: E731
    if peer is None:
        middle = statistics.median(_time(ours, work.device) for _ in range(work.rounds))
        return row | {"ours_words_s": round(num_words / middle), "peer": "gliner is not installed"}
    row["same_findings"] = _agreement(ours(), peer(8, threshold), threshold, work)
    size = min((8, 32), key=lambda one: _time(lambda: peer(one, threshold), work.device))
    own, other = [], []
    for _ in range(work.rounds):
        own.append(num_words / _time(ours, work.device))
        other.append(num_words / _time(lambda: peer(size, threshold), work.device))
    middles = statistics.median(own), statistics.median(other)
    return row | {
        "ours_words_s": round(middles[0]),
        "gliner_words_s": round(middles[1]),
        "gliner_batch": size,
        "ratio": round(middles[0] / middles[1], 2),
    }


def _load(work: Work) -> Adapter:
    dtype = torch.bfloat16 if work.device.type == "cuda" else torch.float32
    recipe = read_recipe("bench", work.folder, None)
    return load_adapter(recipe, device=work.device, dtype=dtype)


def _threshold(adapter: Adapter, work: Work) -> float:
    """Return what few of random weights' scores are over, so that findings are like a model's."""
    few = Work(work.folder, work.texts[:4], work.device, 1)
    scores = sorted(one[3] for text in _ours(adapter, few, 0.0) for one in text)
    return round(min(scores[-max(len(scores) // 4, 1)], 0.9), 3) if scores else 0.5


def _ours(adapter: Adapter, work: Work, threshold: float) -> list[list[tuple[Any, ...]]]:
    options = wire.ExtractOptions(threshold=threshold)
    params = wire.ExtractParams(labels=LABELS, options=options)
    items = [wire.Item(text=text) for text in work.texts]
    request = wire.ExtractRequest(items=items, params=params)
    prepared = adapter.prepare(request)
    order = sorted(range(len(prepared.sequences)), key=lambda at: prepared.sequences[at].num_tokens)
    results: list[Result] = [{} for _ in order]
    budget = BUDGET_TOKENS[work.device.type]
    while order:
        part, used = [], 0
        while order and (not part or used + prepared.sequences[order[-1]].num_tokens <= budget):
            part.append(order.pop())
            used += prepared.sequences[part[-1]].num_tokens
        with torch.inference_mode():
            batch = pack([prepared.sequences[one] for one in part], work.device)
            found = unpack(adapter.forward(batch), len(part))
        for place, output in zip(part, found, strict=True):
            results[place] = output
    answer = adapter.finish(request, prepared, results)
    assert isinstance(answer, wire.ExtractResponse)
    return [
        [(one.start, one.end, one.label, one.score) for one in item.entities]
        for item in answer.items
    ]


def _peer(work: Work) -> Callable[[int, float], list[list[tuple[Any, ...]]]] | None:
    """Return the package's run by batch size and threshold; None: it is not installed."""
    if importlib.util.find_spec("gliner") is None:
        return None
    library = importlib.import_module("gliner")
    model = library.GLiNER.from_pretrained(str(work.folder), local_files_only=True).eval()
    model = model.to(work.device)
    if work.device.type == "cuda":
        model = model.half()
    order = sorted(range(len(work.texts)), key=lambda at: -len(work.texts[at]))
    ordered = [work.texts[at] for at in order]

    def run(size: int, threshold: float) -> list[list[tuple[Any, ...]]]:
        with torch.inference_mode():
            found = model.inference(ordered, LABELS, threshold=threshold, batch_size=size)
        rows: list[list[tuple[Any, ...]]] = [[] for _ in order]
        for at, own in zip(order, found, strict=True):
            rows[at] = [(one["start"], one["end"], one["label"], one["score"]) for one in own]
        return rows

    return run


def _agreement(ours: Any, theirs: Any, threshold: float, work: Work) -> float:
    """Return which share of findings both have; those at the threshold do not count.

    In half precision a place's best span can be another by a hair: that alone is no error.
    """
    limit = threshold + TOLERANCE[work.device.type]
    same = total = 0
    for one, other in zip(ours, theirs, strict=True):
        own, peer = ({row[:3] for row in rows if row[3] > limit} for rows in (one, other))
        everything = [{row[:3] for row in rows} for rows in (one, other)]
        same += len(own & everything[1]) + len(peer & everything[0])
        total += len(own) + len(peer)
    if not total:
        raise AssertionError(f"no finding is over {limit}: nothing was compared")
    share = same / total
    least = 1.0 if work.device.type == "cpu" else 0.9
    if share < least:
        raise AssertionError(f"only {share:.3f} of the findings are the same; {least} is needed")
    return round(share, 4)


def _time(run: Callable[[], Any], device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize()
    started = time.perf_counter()
    run()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - started
