"""Embedding on the CPU beside sentence-transformers, interleaved in one run; ratios only."""

import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from sentence_transformers import SentenceTransformer

from evals.bench.cpu_encode import encode
from evals.datasets import DATA
from sie_mcp.adapters import create
from sie_mcp.adapters.adapter import Adapter
from sie_mcp.adapters.layers.cpu.packed_linear import PackedLinear
from sie_mcp.catalogue.fetch import find_local
from sie_mcp.catalogue.files import load_catalogue
from sie_mcp.config import load_config
from sie_mcp.errors import ModelNotFound

MODEL = "all-MiniLM-L6-v2"
ROUNDS = 3
CPU = torch.device("cpu")


@dataclass(frozen=True, slots=True)
class Comparison:
    """Seconds of both on one workload, and the worst cosine between their vectors."""

    workload: str
    ours_s: float
    sentence_transformers_s: float
    min_cosine: float

    @property
    def ratio(self) -> float:
        """How many times faster ours is."""
        return self.sentence_transformers_s / self.ours_s


def measure() -> list[Comparison]:
    """Run both on short queries and on passages, in turn."""
    entry = load_catalogue().find(MODEL)
    folder = find_local(entry, load_config().cache_dir) if entry else None
    if folder is None:
        raise ModelNotFound(f"{MODEL} is not on disk; run `sie-mcp models pull starter`")
    recipe = create.read_recipe(MODEL, folder, entry)
    adapter = create.load_adapter(recipe, device=CPU, dtype=torch.float32, packing=PackedLinear)
    peer = SentenceTransformer(str(folder), device="cpu")
    return [_compare(name, texts, adapter, peer) for name, texts in workloads().items()]


def workloads() -> dict[str, list[str]]:
    """Make texts of real words: 1,000 queries of 5 to 13 words, 100 passages of 200 words."""
    rng = random.Random(0)
    words = (DATA / "state_of_the_union.txt").read_text("utf-8").split()
    return {
        "1,000 queries": [" ".join(rng.choices(words, k=rng.randint(5, 13))) for _ in range(1000)],
        "100 passages": [" ".join(rng.choices(words, k=200)) for _ in range(100)],
    }


def _compare(
    name: str, texts: list[str], adapter: Adapter, peer: SentenceTransformer
) -> Comparison:
    own_s, peer_s = [], []
    ours = theirs = np.zeros((0, 0))
    for _ in range(ROUNDS):
        seconds, ours = _timed(lambda: encode(adapter, texts))
        own_s.append(seconds)
        seconds, theirs = _timed(lambda: peer.encode(texts, show_progress_bar=False))
        peer_s.append(seconds)
    cosine = (ours * theirs).sum(1) / np.linalg.norm(theirs, axis=1) / np.linalg.norm(ours, axis=1)
    return Comparison(
        name, statistics.median(own_s), statistics.median(peer_s), float(cosine.min())
    )


def _timed(run: Callable[[], np.ndarray]) -> tuple[float, np.ndarray]:
    started = time.perf_counter()
    result = run()
    return time.perf_counter() - started, result
