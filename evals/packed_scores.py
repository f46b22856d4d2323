"""MaxSim and the largest weights of sparse vectors on packed rows: each way beside the others.

`python -m evals.packed_scores [--device cuda]`. Interleaved, medians in milliseconds; the numbers
of each way are checked against the first one's in the same run.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import pairwise

import numpy as np
import torch

from sie_mcp.adapters.adapter import PackedBatch, Sequence
from sie_mcp.adapters.layers.maxsim import maxsim
from sie_mcp.adapters.packing import pack
from sie_mcp.adapters.similarity import maxsims
from sie_mcp.adapters.sparse import largest, nonzero

# Items, tokens of one, dimensions; the query has 32 tokens.
SHAPES = ((100, 120, 128), (100, 120, 384), (500, 30, 96), (15, 1030, 128))
VOCABULARY, NUM_TEXTS, LIMIT = 30_522, 64, 64
NUM_RUNS = 15

Ways = Mapping[str, Callable[[], np.ndarray]]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu")
    device = torch.device(parser.parse_args().device)
    with torch.inference_mode():
        for shape in SHAPES:
            items, tokens, dims = shape
            report(f"MaxSim, {items} items of {tokens} tokens, {dims} wide", _maxsim(shape, device))
        report(f"{LIMIT} largest of {VOCABULARY:,}, {NUM_TEXTS} texts", _largest(device))


def report(what: str, ways: Ways) -> None:
    """Run the ways in turn and print a line for each."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    first = next(iter(ways.values()))()
    for run in range(NUM_RUNS + 3):
        for name, way in ways.items():
            started_s = time.perf_counter()
            found = way()
            if run >= 3:
                times[name].append(time.perf_counter() - started_s)
            assert np.allclose(found, first, atol=1e-3), name
    for name, own in times.items():
        print(f"{what}: {name}: {1e3 * statistics.median(own):.3f} ms, best {1e3 * min(own):.3f}")


def _maxsim(shape: tuple[int, int, int], device: torch.device) -> Ways:
    items, tokens, dims = shape
    rng = np.random.default_rng(0)
    lengths = rng.integers(tokens // 2, tokens * 3 // 2, items)
    batch = pack([Sequence(np.arange(n)) for n in lengths], device, is_laid_out=True)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(batch.num_tokens + 32, dims, generator=generator).to(device)
    x = torch.nn.functional.normalize(x, dim=-1)
    query, vectors = x[:32], x[32:]
    pairs = [(place, 0) for place in range(items)]

    def one_by_one() -> np.ndarray:
        asked, host = query.cpu().numpy(), vectors.cpu().numpy()
        ends = pairwise(batch.offsets)
        return np.array([(asked @ host[a:b].T).max(axis=1).sum() for a, b in ends])

    def on_host() -> np.ndarray:
        host = vectors.cpu().numpy()
        ends = pairwise(batch.offsets)
        return maxsims(query.cpu().numpy(), [host[a:b] for a, b in ends])

    def packed(own: PackedBatch) -> np.ndarray:
        found: np.ndarray = maxsim(vectors, own, [query], pairs, x.bfloat16()).cpu().numpy()
        return found

    ways: dict[str, Callable[[], np.ndarray]] = {
        "copied, a loop over items": one_by_one,
        "copied, one product": on_host,
        "packed, torch": lambda: packed(batch),
    }
    if device.type == "cuda":
        fast = replace(batch, paths=frozenset({"kernels"}))
        ways["packed, kernel"] = lambda: packed(fast)
    return ways


def _largest(device: torch.device) -> Ways:
    generator = torch.Generator().manual_seed(0)
    weights = torch.randn(NUM_TEXTS, VOCABULARY, generator=generator).sub(2.0).relu().to(device)

    def after_copy() -> np.ndarray:
        rows = nonzero(weights)["sparse_values"]
        values, ends = rows.values.cpu().numpy(), rows.offsets
        parts = (values[a:b] for a, b in pairwise(ends))
        return np.concatenate(
            [one[np.sort(np.argsort(-one, kind="stable")[:LIMIT])] for one in parts]
        )

    def chosen() -> np.ndarray:
        values: np.ndarray = largest(weights, LIMIT)["sparse_values"].values.cpu().numpy()
        return values

    return {"all copied, chosen on the host": after_copy, "chosen where they lie": chosen}


if __name__ == "__main__":
    main()
