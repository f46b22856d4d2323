"""Sparse vectors on the device: the kernel and the choice of the largest give what torch gives."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from sie_mcp.adapters.heaviest import Limited
from sie_mcp.adapters.packing import unpack
from sie_mcp.adapters.recipe import Recipe
from sie_mcp.adapters.sparse import SparseOutput
from tests.eager import batch_of

CUDA = torch.device("cuda", 0)
DIMS = 30_522
LENGTHS = (3, 1500, 700, 1, 24)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("limit", [None, 1, 64, 1_024])
def test_packed_rows_give_the_same_bits_by_kernel_and_by_torch(dtype, limit, record):
    recipe = Recipe("m", Path(), "bert", {"vocab_size": DIMS}, ("sparse",), None)
    output = SparseOutput(recipe, SimpleNamespace(heads={"sparse": torch.nn.Identity()}))
    generator = torch.Generator(CUDA).manual_seed(0)
    logits = torch.randn(sum(LENGTHS), DIMS, generator=generator, device=CUDA)
    # Half precision has few numbers near the largest: ties are plenty. Half of the entries stay 0.
    logits = (logits - 3.0).to(dtype)
    batch = batch_of(LENGTHS, CUDA)
    fast = replace(batch, paths=frozenset({"kernels"}))
    if limit is not None:
        fast = replace(fast, extras=tuple(Limited(limit) for _ in LENGTHS))
    with torch.inference_mode():
        plain = unpack(output.forward(logits, batch), len(LENGTHS))
        found = unpack(output.forward(logits, fast), len(LENGTHS))
    for one, other in zip(found, plain, strict=True):
        expected = torch.from_numpy(other["sparse_values"])
        places = torch.sort(-expected, stable=True).indices[:limit].sort().values.numpy()
        kept = one["sparse_values"] != 0
        assert one["sparse_indices"][kept].tolist() == other["sparse_indices"][places].tolist()
        assert one["sparse_values"][kept].tolist() == other["sparse_values"][places].tolist()
    record("sparse", f"limit={limit}", str(dtype), rows=len(LENGTHS))


def test_a_limit_is_kept_without_asking_the_device():
    recipe = Recipe("m", Path(), "bert", {"vocab_size": DIMS}, ("sparse",), None)
    output = SparseOutput(recipe, SimpleNamespace(heads={"sparse": torch.nn.Identity()}))
    logits = torch.randn(sum(LENGTHS), DIMS, device=CUDA).bfloat16()
    batch = batch_of(LENGTHS, CUDA)
    batch = replace(batch, extras=tuple(Limited(8) for _ in LENGTHS), paths=frozenset({"kernels"}))
    output.forward(logits, batch)  # Kernels are made.
    torch.cuda.set_sync_debug_mode("error")
    try:
        output.forward(logits, batch)
    finally:
        torch.cuda.set_sync_debug_mode("default")
