"""Late interaction on the device: the kernel and torch's way against float64, one item or many."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from sie_mcp.adapters.adapter import Sequence
from sie_mcp.adapters.layers.maxsim import maxsim
from sie_mcp.adapters.packing import pack

CUDA = torch.device("cuda", 0)
# Queries and the items of each, long and short ones, behind a text that nobody compares.
QUERIES = [31, 3, 140]
LENGTHS = [(120, 7, 300, 1), (64, 65), (500,)]


@pytest.mark.parametrize("dims", [96, 128, 1024])
@pytest.mark.parametrize("has_kernels", [True, False], ids=["kernel", "torch"])
def test_packed_scores_are_those_of_items_by_themselves(dims, has_kernels, record):
    rng = np.random.default_rng(dims)
    sequences, pairs = [Sequence(rng.integers(0, 50, 11))], []
    for number, lengths in enumerate(LENGTHS):
        pairs += [(len(sequences) + place, number) for place in range(len(lengths))]
        sequences += [Sequence(rng.integers(0, 50, n)) for n in lengths]
    batch = pack(sequences, CUDA, is_laid_out=True)
    if has_kernels:
        batch = replace(batch, paths=frozenset({"kernels"}))
    generator = torch.Generator(CUDA).manual_seed(dims)
    num_rows = batch.num_tokens + sum(QUERIES)
    x = torch.randn(num_rows, dims, generator=generator, device=CUDA)
    x, *queries = torch.nn.functional.normalize(x, dim=-1).split([batch.num_tokens, *QUERIES])
    kept = batch.input_ids >= 10
    with torch.inference_mode():
        found = maxsim(x, batch, queries, pairs, x.bfloat16(), kept).cpu()
    parts, masks = x.double().split(batch.lengths), kept.split(batch.lengths)
    expected = torch.tensor(
        [
            float((queries[query].double() @ parts[item][masks[item]].T).amax(1).sum())
            if masks[item].any()
            else 0.0
            for item, query in pairs
        ]
    )
    worst = float((found - expected).abs().max())
    record("maxsim", "kernel" if has_kernels else "torch", "float32", dims=dims, difference=worst)
    # torch's products may take TensorFloat-32 where the process allows it.
    assert worst < 2e-4
