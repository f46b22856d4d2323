"""What a reranker saves by computing once what all pairs of a request begin with, on this machine.

`python -m evals.shared_prefix [--device cuda]`: a random decoder asks about 40 documents of about
120 tokens, behind beginnings of several lengths; interleaved, medians. Prints a table.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Sequence as Series
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from sie_mcp.adapters.adapter import Adapter, Sequence
from sie_mcp.adapters.create import load_adapter, read_recipe
from sie_mcp.adapters.packing import pack, share_prefix, unpack
from tests.parity import rerankers

BEGINNINGS = (20, 60, 120, 400)
NUM_DOCUMENTS, DOCUMENT_TOKENS = 40, 120
NUM_RUNS = 3
SHAPE = {
    "hidden_size": 256,
    "intermediate_size": 768,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "max_position_embeddings": 1024,
    "initializer_range": 0.02,
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu")
    device = torch.device(parser.parse_args().device)
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    adapter = _adapter(device, dtype)
    print("| beginning | tokens whole | shared | whole, ms | shared, ms | faster | difference |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for length in BEGINNINGS:
        print(_row(adapter, device, length))


def _row(adapter: Adapter, device: torch.device, length: int) -> str:
    rng = np.random.default_rng(length)
    lengths = rng.integers(DOCUMENT_TOKENS // 2, DOCUMENT_TOKENS * 3 // 2, NUM_DOCUMENTS)
    first = rng.integers(3, 150, length)
    rows = [np.concatenate([first, [place], rng.integers(3, 150, n)]) for place, n in
            enumerate(lengths)]  # fmt: skip
    shared = share_prefix(rows, frozenset({"logits"}), min_shared=1)
    whole = [replace(one, input_ids=row, prefix=None)
             for one, row in zip(shared, rows, strict=True)]  # fmt: skip
    times: dict[str, list[float]] = {"whole": [], "shared": []}
    found = {}
    for _ in range(NUM_RUNS + 1):
        for name, sequences in (("whole", whole), ("shared", shared)):
            seconds, found[name] = _timed(adapter, device, sequences)
            times[name].append(seconds)
    a, b = (1e3 * statistics.median(times[name][1:]) for name in ("whole", "shared"))
    counts = (pack(one, torch.device("cpu")).num_tokens for one in (whole, shared))
    difference = float(np.abs(found["whole"] - found["shared"]).max())
    numbers = [f"{one:,}" for one in (length, *counts)]
    return f"| {' | '.join(numbers)} | {a:.0f} | {b:.0f} | {a / b:.2f}x | {difference:.1e} |"


def _timed(
    adapter: Adapter, device: torch.device, sequences: Series[Sequence]
) -> tuple[float, np.ndarray]:
    started_s = time.perf_counter()
    with torch.inference_mode():
        outputs = unpack(adapter.forward(pack(sequences, device)), len(sequences))
    seconds = time.perf_counter() - started_s
    return seconds, np.array([one["logits"][0, 0] for one in outputs])


def _adapter(device: torch.device, dtype: torch.dtype) -> Adapter:
    with tempfile.TemporaryDirectory() as folder:
        rerankers.save("qwen3", Path(folder))
        config = Qwen3Config(**{**rerankers.SIZES, **SHAPE, "tie_word_embeddings": True})
        torch.manual_seed(0)
        Qwen3ForCausalLM(config).save_pretrained(folder)
        source = rerankers.entry(score_template="qwen3")
        recipe = read_recipe("m", Path(folder), source)
        return load_adapter(recipe, device=device, dtype=dtype)


if __name__ == "__main__":
    main()
