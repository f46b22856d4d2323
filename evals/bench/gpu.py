"""Packed forward passes on one CUDA device beside transformers, in the same run.

Random weights of real shapes; only real tokens are counted. Ours is the engine's own path: pack,
forward, pooling, copy back and the check of every number. Peers: transformers with SDPA in float16,
sorted by length and as texts come, and with flash-attn where that is installed; the best of two
batch sizes, mean pooling. The floor is the matrix products of each layer alone, at 65,536 tokens,
in turn with the others.
"""

import itertools
import statistics
import time
from collections.abc import Callable
from collections.abc import Sequence as Sequences
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from evals.bench.forwards import make_forwards, run_all
from evals.bench.gpu_peers import throughput_peers, transformers_latency
from evals.bench.gpu_profile import top_kernels
from evals.bench.shapes import SHAPES, WORKLOADS, batches, config_of, lengths, make_adapter
from evals.bench.shapes import sequences as texts_of
from sie_mcp.adapters.adapter import Adapter

# Some ten full batches of the larger budget; half of that for the largest model.
NUM_TEXTS = {"tail": 8_192, "256": 2_560, "queries": 32_768}
PART_OF = {"MiniLM-L6": 1, "bge-base": 1, "bge-large": 2}
BUDGETS = (16_384, 65_536)
ROUNDS = 3
PATHS = ("", "kernels,overlap", "kernels,graphs,overlap")
Row = dict[str, Any]
_CUDA = torch.device("cuda")


@dataclass(frozen=True, slots=True)
class Way:
    """How ours computes: the faster ways that it takes, and what its weights are."""

    paths: frozenset[str] = frozenset()
    dtype: torch.dtype = torch.bfloat16

    @property
    def named(self) -> dict[str, str]:
        """What a row says of it."""
        paths = ",".join(sorted(self.paths)) or "none"
        return {"paths": paths, "weights": str(self.dtype).removeprefix("torch.")}

    def adapter(self, name: str, task: str = "dense") -> Adapter:
        """Return a model of a shape."""
        return make_adapter(name, task=task, paths=self.paths, dtype=self.dtype)


def ways_of(paths: Sequences[str], *, fp8: bool) -> list[Way]:
    """Return ways from what commands say, `PATHS` where they say none.

    Args:
        paths: Names with commas between, for each way.
        fp8: The last way also in eight-bit floats.
    """
    ways = [Way(frozenset(filter(None, one.split(",")))) for one in paths or PATHS]
    return [*ways, Way(ways[-1].paths, torch.float8_e4m3fn)] if fp8 else ways


def measure(only: str, ways: Sequences[Way]) -> dict[str, list[Row]]:
    """Measure rows by part.

    Args:
        only: Names shapes, parts, or both with commas between; "": all.
        ways: How ours computes, a row for each.
    """
    parts = {"throughput": _throughput, "latency": _latency, "profile": _profile}
    known = {*SHAPES, *parts}
    named = set(filter(None, only.split(",")))
    if not named <= known:
        raise SystemExit(f"--only {only!r} is not known; known: {', '.join(sorted(known))}")
    found: dict[str, list[Row]] = {}
    for part, function in parts.items():
        found[part] = [
            row
            for name in SHAPES
            if name in (named & SHAPES.keys() or SHAPES)
            if part in (named & parts.keys() or parts)
            for row in function(name, ways)
        ]
    return found


def _throughput(name: str, ways: Sequences[Way]) -> list[Row]:
    adapters = [way.adapter(name) for way in ways]
    cosines = [_cosines(name, adapter) for adapter in adapters]
    forwards = make_forwards(_CUDA)
    rows = []
    for workload in WORKLOADS:
        work = lengths(workload, NUM_TEXTS[workload] // PART_OF[name])
        tokens, texts = sum(work), texts_of(work)
        products = _products(name, tokens)
        runs = [
            partial(run_all, forwards, adapter, batches(texts, budget))
            for budget in BUDGETS
            for adapter in adapters
        ]
        for run in (products, *runs):
            for _ in range(3):
                run()  # Until what recurs is recorded.
        peers = throughput_peers(name, work)
        # The products in turn with the others: a card's clock is another when it is warm.
        bare_s, *times = _in_turn([products, *runs, *itertools.chain(*peers.values())])
        floor = tokens / bare_s
        others = iter(times[len(runs) :])
        # Each with the size of batch that it is fastest with.
        rates = {way: tokens / min(next(others) for _ in own) for way, own in peers.items()}
        theirs = rates.pop("transformers")
        for (budget, place), taken in zip(
            itertools.product(BUDGETS, range(len(ways))), times[: len(runs)], strict=True
        ):
            ours = tokens / taken
            rows.append(
                {
                    "model": name,
                    "workload": workload,
                    "budget": budget,
                    **ways[place].named,
                    "ours": round(ours),
                    "transformers": round(theirs),
                    **{way: round(rate) for way, rate in rates.items()},
                    "floor": round(floor),
                    "ratio": round(ours / theirs, 2),
                    "of_floor": round(ours / floor, 3),
                    "min_cosine": round(min(cosines[place]), 6),
                    "mean_cosine": round(statistics.mean(cosines[place]), 6),
                }
            )
            print(rows[-1], flush=True)
    return rows


def _in_turn(runs: Sequences[Callable[[], object]]) -> list[float]:
    """Return the median seconds of each, run in turn."""
    times: list[list[float]] = [[] for _ in runs]
    for _ in range(ROUNDS):
        for run, own in zip(runs, times, strict=True):
            own.append(_once(run))
    return [statistics.median(own) for own in times]


def _latency(name: str, ways: Sequences[Way]) -> list[Row]:
    peer_ms = _p50(transformers_latency(name, 12), 60)
    return [row for way in ways for row in _latency_of(name, way, peer_ms)]


def _latency_of(name: str, way: Way, peer_ms: float) -> list[Row]:
    forwards = make_forwards(_CUDA)
    adapter = way.adapter(name)
    query = texts_of([12])
    rows = [
        {
            "model": name,
            "what": "one text of 12 tokens",
            **way.named,
            "ours_ms": _p50(lambda: forwards.run(adapter, query)),
            "transformers_ms": peer_ms,
            "min_cosine": round(min(_cosines(name, adapter, (12, 12, 12))), 6),
        }
    ]
    if name == "MiniLM-L6":
        reranker = way.adapter(name, "cross_encoder")
        pairs = texts_of([min(12 + one, 512) for one in lengths("tail", 100)], "logits")
        rows.append(
            {
                "model": name,
                "what": f"rerank 100 documents, {sum(len(one.input_ids) for one in pairs)} tokens",
                **way.named,
                "ours_ms": _p50(lambda: forwards.run(reranker, pairs), 60),
            }
        )
    return rows


def _profile(name: str, ways: Sequences[Way]) -> list[Row]:
    """Take the last of the ways apart."""
    adapter, forwards = ways[-1].adapter(name), make_forwards(_CUDA)
    rows = []
    for workload, budget in (("tail", 65_536), ("256", 65_536), ("tail", 16_384)):
        part = batches(texts_of(lengths(workload, 2_048)), budget)[0]
        kept = top_kernels(lambda p=part: forwards.run(adapter, p))
        wall = _p50(lambda p=part: forwards.run(adapter, p), 10)
        rows.append(
            {"model": name, "workload": workload, "budget": budget, "wall_ms": wall, **kept}
        )
    return rows


def _cosines(
    name: str, adapter: Adapter, work: tuple[int, ...] = (8, 500, 60, 33, 256)
) -> list[float]:
    """Return each text's cosine to the same weights in float32."""
    texts = texts_of(list(work))
    exact = make_adapter(name, dtype=torch.float32)
    found, expected = (
        [one["dense"][0].astype(np.float64) for one in make_forwards(_CUDA).run(which, texts)]
        for which in (adapter, exact)
    )
    return [
        float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))
        for a, b in zip(found, expected, strict=True)
    ]


def _products(name: str, tokens: int) -> Callable[[], None]:
    """Return what runs the four matrix products of every layer on so many tokens, and no more."""
    config = config_of(name)
    hidden, wide = config["hidden_size"], config["intermediate_size"]
    step = 65_536
    x = torch.randn(step, hidden, device="cuda", dtype=torch.bfloat16)
    y = torch.randn(step, wide, device="cuda", dtype=torch.bfloat16)
    weights = [
        torch.randn(a, b, device="cuda", dtype=torch.bfloat16)
        for a, b in ((hidden, 3 * hidden), (hidden, hidden), (hidden, wide), (wide, hidden))
    ]

    def run() -> None:
        for _ in range(config["num_hidden_layers"]):
            left = tokens
            while left > 0:
                rows = min(step, left)
                for weight in weights[:3]:
                    x[:rows] @ weight
                y[:rows] @ weights[3]
                left -= rows

    return run


def _p50(run: Callable[[], object], rounds: int = 200) -> float:
    """Return the median time in milliseconds."""
    times = []
    for _ in range(rounds + 10):
        torch.cuda.synchronize()
        started = time.perf_counter()
        run()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - started)
    return round(1000 * statistics.median(times[10:]), 3)


def _once(run: Callable[[], object]) -> float:
    torch.cuda.synchronize()
    started = time.perf_counter()
    run()
    torch.cuda.synchronize()
    return time.perf_counter() - started
