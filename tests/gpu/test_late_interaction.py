"""Late interaction on the device: the kernel and torch's way against float64, one item or many."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from sie_mcp.adapters.adapter import Sequence
from sie_mcp.adapters.layers.maxsim import Compared, Question, maxsim, pairs_of
from sie_mcp.adapters.packing import pack

CUDA = torch.device("cuda", 0)
# A query before its items, long and short ones, and a text that nobody compares among them.
LENGTHS = [(32, 120, 7, 300, 1), (3, 64, 65), (140, 500)]


@pytest.mark.parametrize("dims", [96, 128, 1024])
@pytest.mark.parametrize("has_kernels", [True, False], ids=["kernel", "torch"])
def test_packed_scores_are_those_of_items_by_themselves(dims, has_kernels, record):
    rng = np.random.default_rng(dims)
    sequences = [Sequence(rng.integers(0, 50, 11))]
    for lengths in LENGTHS:
        question = Question()
        sequences += [
            Sequence(rng.integers(0, 50, n), extra=Compared(question, is_query=not place))
            for place, n in enumerate(lengths)
        ]
    batch = pack(sequences, CUDA, is_laid_out=True)
    if has_kernels:
        batch = replace(batch, paths=frozenset({"kernels"}))
    generator = torch.Generator(CUDA).manual_seed(dims)
    x = torch.randn(batch.num_tokens, dims, generator=generator, device=CUDA)
    x = torch.nn.functional.normalize(x, dim=-1)
    kept = batch.input_ids >= 10
    pairs = pairs_of(batch.extras)
    assert len(pairs) == 7
    with torch.inference_mode():
        found = maxsim(x, batch, pairs, kept, x.bfloat16(), skipped=1).cpu()
    parts, masks = x.double().split(batch.lengths), kept.split(batch.lengths)
    expected = torch.tensor(
        [
            float((parts[query][1:] @ parts[item][masks[item]].T).amax(1).sum())
            if masks[item].any()
            else 0.0
            for item, query in pairs
        ]
    )
    worst = float((found - expected).abs().max())
    record("maxsim", "kernel" if has_kernels else "torch", "float32", dims=dims, difference=worst)
    # torch's products may take TensorFloat-32 where the process allows it.
    assert worst < 2e-4
