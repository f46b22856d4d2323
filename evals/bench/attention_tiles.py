"""`python -m evals.bench.attention_tiles`: our attention on one device by its tiles and steps.

Says which numbers `attend.STEPS` and `tiles.tile_rows` should have; beside it, torch's own kernel.
"""

import argparse
import concurrent.futures
import itertools
import json
import multiprocessing
from pathlib import Path
from typing import Any

import torch
import triton
from torch.nn.attention.varlen import varlen_attn

from evals.bench.shapes import SHAPES, WORKLOADS, lengths
from sie_mcp.adapters.layers.kernels import attend as own
from sie_mcp.adapters.tiles import make_tiles

NUM_TOKENS = 65_536
CHOICES = {
    16: [(16, 1, 2), (16, 1, 3), (32, 1, 2), (16, 2, 2)],
    32: [(32, 1, 2), (32, 2, 2), (32, 2, 3), (64, 2, 2), (64, 1, 2)],
    64: list(itertools.product((32, 64, 128), (2, 4), (2, 3))),
    128: list(itertools.product((32, 64, 128), (4, 8), (2, 3))),
}


def main() -> int:
    """Measure and print, the fastest of each first."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    cases = [(name, rows, step) for name in SHAPES for rows in CHOICES for step in CHOICES[rows]]
    spawn = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(12, mp_context=spawn) as pool:
        list(pool.map(_compile, cases))  # For the cache of compiled kernels.
    rows = [row for name in SHAPES for work in WORKLOADS for row in _measure(name, work)]
    for row in rows:
        print(row)
    if given.out:
        given.out.write_text(json.dumps(rows, indent=1) + "\n")
    return 0


def _compile(case: tuple[str, int, tuple[int, int, int]]) -> None:
    name, rows, step = case
    _run(name, [rows], rows, step)()


def _run(name: str, work: list[int], rows: int, step: tuple[int, int, int]) -> Any:
    heads = SHAPES[name]["num_attention_heads"]
    q, k, v, _ = _inputs(name, heads, work)
    tiles = torch.from_numpy(make_tiles(work, rows)).cuda()

    def run() -> None:
        own.STEPS[rows] = step
        own.attend(q, k, v, tiles, tile_rows=rows, window=(-1, -1), scale=q.shape[-1] ** -0.5)

    return run


def _inputs(name: str, heads: int, work: list[int]) -> tuple[torch.Tensor, ...]:
    dim = SHAPES[name]["hidden_size"] // heads
    qkv = torch.randn(sum(work), 3, heads, dim, device="cuda", dtype=torch.bfloat16)
    ends = torch.tensor([0, *itertools.accumulate(work)], dtype=torch.int32, device="cuda")
    return (*qkv.unbind(1), ends)


def _measure(name: str, workload: str) -> list[dict[str, Any]]:
    work = lengths(workload, 8_192)
    sums = list(itertools.accumulate(work))
    work = sorted(
        (one for one, total in zip(work, sums, strict=True) if total <= NUM_TOKENS), reverse=True
    )
    found = []
    for rows, steps in CHOICES.items():
        for step in steps:
            run = _run(name, work, rows, step)
            found.append((triton.testing.do_bench(run, warmup=5, rep=15), rows, *step))
    heads = SHAPES[name]["num_attention_heads"]
    q, k, v, ends = _inputs(name, heads, work)
    longest = max(work)
    torchs = triton.testing.do_bench(
        lambda: varlen_attn(q, k, v, ends, ends, longest, longest), warmup=5, rep=15
    )
    head = {"shape": name, "workload": workload, "tokens": sum(work), "torch_ms": round(torchs, 4)}
    return [
        {**head, "ms": round(ms, 4), "rows": rows, "keys": keys, "warps": warps, "stages": stages}
        for ms, rows, keys, warps, stages in sorted(found)[:6]
    ]


if __name__ == "__main__":
    raise SystemExit(main())
