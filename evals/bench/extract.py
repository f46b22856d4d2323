"""GLiNER beside the gliner package, in the same run: `python -m evals.bench --gpu --only extract`.

Random weights of gliner_small-v2.1's shape (DeBERTa v3 small, 12 words a span); texts of 8 to 380
words, log-normal, some 1.4 tokens a word, five labels, about a finding in 15 words. Both read the
same checkpoint from one folder, on a card in bfloat16. Before anything is timed both are asked in
float32, where findings must be the same; what half precision keeps of ours is in the row, too.
Ours: prepare on one thread, packed forward, finish. Peer: `inference`, sorted by length, the best
of three batch sizes. Medians of interleaved rounds. Without the package the rows say so and hold
our speed alone.
"""

import importlib
import importlib.metadata
import importlib.util
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sie_mcp import wire
from sie_mcp.adapters.adapter import Adapter, Prepared, Result
from sie_mcp.adapters.create import load_adapter, read_recipe
from sie_mcp.adapters.packing import pack, unpack
from tests.parity.gliners import Kind, save_gliner

LABELS = ["person", "company", "city", "date", "product"]
BUDGET_TOKENS = {"cuda": 32_768, "cpu": 4_096}
PEER_BATCHES = {"cuda": (8, 32, 128), "cpu": (8, 32)}
WORDS_A_FINDING = 15
# Texts whose findings are compared in float32.
NUM_COMPARED = 48
# Scores closer to the threshold than this may fall on either side.
TOLERANCE = {"cpu": 1e-4, "cuda": 1e-3, "bfloat16": 0.02}
# Share of the findings that both have. A place's best span can be another by a hair where there
# are as many rivals as random weights make, most of all in half precision.
LEAST_SHARE = {"cpu": 1.0, "cuda": 0.99, "bfloat16": 0.7}
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

_Found = list[list[tuple[Any, ...]]]
_Run = Callable[["Work", int, float], _Found]


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
        shape: dict[str, Any] = {**_BASE, **(_TINY if tiny else _SMALL)}
        shape["intermediate_size"] = 4 * shape["hidden_size"]
        settings = {"hidden_size": shape["hidden_size"] if tiny else 512}
        # Wide enough that scores differ, and not so wide that all are 0 or 1.
        scale = 0.24 if tiny else 0.033
        kind = Kind("bench", "deberta-v2", shape, settings, tokenizer="metaspace", scale=scale)
        save_gliner(folder, kind, _words()[: len(_words()) * 9 // 10])
        name = "gliner, tiny" if tiny else "gliner-small"
        return [{"model": name, **_row(Work(folder, texts(num_texts), device, rounds))}]


def texts(count: int) -> list[str]:
    """Draw texts of mixed lengths."""
    rng = np.random.default_rng(0)
    lengths = np.clip(rng.lognormal(np.log(60), 0.9, count), 8, 380).astype(int)
    return [" ".join(rng.choice(_words(), size)) for size in lengths]


@cache
def _words() -> list[str]:
    """Draw words; the tokenizer knows nine of ten, and reads the others by their letters."""
    rng = np.random.default_rng(1)
    drawn = ("".join(rng.choice([*"aeioulnrst"], rng.integers(2, 8))) for _ in range(400))
    return list(dict.fromkeys(drawn))


def _row(work: Work) -> dict[str, Any]:
    """Measure; both sides in the dtype that the device is best at."""
    exact, best = torch.float32, torch.bfloat16 if work.device.type == "cuda" else torch.float32
    num_words = sum(len(text.split()) for text in work.texts)
    row: dict[str, Any] = {"labels": len(LABELS), "texts": len(work.texts), "words": num_words}
    adapter, peer = _load(work, exact), _peer(work, exact)
    few = replace(work, texts=work.texts[:NUM_COMPARED])
    threshold = _threshold(adapter, few)
    exactly = _ours(adapter, few, threshold)
    if peer is not None:
        row["same_findings_float32"] = _agreement(
            exactly, peer(few, 8, threshold), threshold, work.device.type
        )
    if best != exact:
        adapter, peer = _load(work, best), _peer(work, best)
    row["dtype"] = str(best).removeprefix("torch.")
    kind = "bfloat16" if best == torch.bfloat16 else work.device.type
    row["kept_of_float32"] = _agreement(_ours(adapter, few, threshold), exactly, threshold, kind)
    if peer is None:
        spent = [_time(lambda: _ours(adapter, work, threshold), work) for _ in range(work.rounds)]
        middle = statistics.median(spent)
        return row | {"ours_words_s": round(num_words / middle), "peer": "gliner is not installed"}
    both = _ours(adapter, work, threshold), peer(work, 8, threshold)
    row["findings"] = sum(len(one) for one in both[0])
    row["same_findings"] = _agreement(*both, threshold, kind)
    return row | _speeds(adapter, peer, work, threshold, num_words)


def _speeds(
    adapter: Adapter, peer: _Run, work: Work, threshold: float, num_words: int
) -> dict[str, Any]:
    """Time both in turns, the peer by the batch size that it is fastest with."""
    tried = {
        size: _time(partial(peer, work, size, threshold), work)
        for size in PEER_BATCHES[work.device.type]
    }
    size = min(tried, key=lambda one: tried[one])
    own, other = [], []
    for _ in range(work.rounds):
        own.append(num_words / _time(lambda: _ours(adapter, work, threshold), work))
        other.append(num_words / _time(lambda: peer(work, size, threshold), work))
    ours, theirs = statistics.median(own), statistics.median(other)
    prepared = adapter.prepare(_request(work, threshold))
    return {
        "ours_words_s": round(ours),
        "gliner_words_s": round(theirs),
        "gliner_batch": size,
        "gliner": importlib.metadata.version("gliner"),
        "ratio": round(ours / theirs, 2),
        # Of our time, as seconds of one pass over all texts.
        "prepare_s": round(_time(lambda: adapter.prepare(_request(work, threshold)), work), 3),
        "forward_s": round(_time(lambda: _forward(adapter, prepared, work), work), 3),
    }


def _load(work: Work, dtype: torch.dtype) -> Adapter:
    recipe = read_recipe("bench", work.folder, None)
    return load_adapter(recipe, device=work.device, dtype=dtype)


def _threshold(adapter: Adapter, few: Work) -> float:
    """Return what as many of random weights' scores are over as a model would find."""
    scores = sorted(one[3] for text in _ours(adapter, few, 0.0) for one in text)
    num_words = sum(len(text.split()) for text in few.texts)
    return round(min(scores[-max(num_words // WORDS_A_FINDING, 1)], 0.9), 3) if scores else 0.5


def _request(work: Work, threshold: float) -> wire.ExtractRequest:
    options = wire.ExtractOptions(threshold=threshold)
    params = wire.ExtractParams(labels=LABELS, options=options)
    return wire.ExtractRequest(items=[wire.Item(text=text) for text in work.texts], params=params)


def _ours(adapter: Adapter, work: Work, threshold: float) -> _Found:
    request = _request(work, threshold)
    prepared = adapter.prepare(request)
    answer = adapter.finish(request, prepared, _forward(adapter, prepared, work))
    assert isinstance(answer, wire.ExtractResponse)
    return [
        [(one.start, one.end, one.label, one.score) for one in item.entities]
        for item in answer.items
    ]


def _forward(adapter: Adapter, prepared: Prepared, work: Work) -> list[Result]:
    """Run all sequences, the longest first, as many at once as the budget has room for."""
    order = sorted(range(len(prepared.sequences)), key=lambda at: prepared.sequences[at].num_tokens)
    results: list[Result] = [{} for _ in order]
    budget = BUDGET_TOKENS[work.device.type]
    while order:
        part: list[int] = []
        used = 0
        while order and (not part or used + prepared.sequences[order[-1]].num_tokens <= budget):
            part.append(order.pop())
            used += prepared.sequences[part[-1]].num_tokens
        with torch.inference_mode():
            batch = pack([prepared.sequences[one] for one in part], work.device)
            found = unpack(adapter.forward(batch), len(part))
        for place, output in zip(part, found, strict=True):
            results[place] = output
    return results


def _peer(work: Work, dtype: torch.dtype) -> _Run | None:
    """Return the package's run by batch size and threshold; None: it is not installed."""
    if importlib.util.find_spec("gliner") is None:
        return None
    library = importlib.import_module("gliner")
    model = library.GLiNER.from_pretrained(str(work.folder), local_files_only=True).eval()
    model = model.to(work.device)
    model.model.to(dtype)

    def run(work: Work, size: int, threshold: float) -> _Found:
        order = sorted(range(len(work.texts)), key=lambda at: -len(work.texts[at]))
        ordered = [work.texts[at] for at in order]
        with torch.inference_mode():
            found = model.inference(ordered, LABELS, threshold=threshold, batch_size=size)
        rows: _Found = [[] for _ in order]
        for at, own in zip(order, found, strict=True):
            rows[at] = [(one["start"], one["end"], one["label"], one["score"]) for one in own]
        return rows

    return run


def _agreement(ours: _Found, theirs: _Found, threshold: float, kind: str) -> float:
    """Return which share of findings both have; those at the threshold do not count."""
    limit = threshold + TOLERANCE[kind]
    same = total = 0
    for one, other in zip(ours, theirs, strict=True):
        own, peer = ({row[:3] for row in rows if row[3] > limit} for rows in (one, other))
        everything = [{row[:3] for row in rows} for rows in (one, other)]
        same += len(own & everything[1]) + len(peer & everything[0])
        total += len(own) + len(peer)
    if not total:
        raise AssertionError(f"no finding is over {limit}: nothing was compared")
    share = same / total
    least = LEAST_SHARE[kind]
    if share < least:
        raise AssertionError(f"only {share:.3f} of the findings are the same; {least} is needed")
    return round(share, 4)


def _time(run: Callable[[], Any], work: Work) -> float:
    if work.device.type == "cuda":
        torch.cuda.synchronize()
    started = time.perf_counter()
    run()
    if work.device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - started
