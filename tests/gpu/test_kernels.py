"""Each kernel against its twin in both half precisions, and what graphs replay against the pass."""

import importlib

import numpy as np
import pytest
import torch

from sie_mcp.adapters.adapter import Sequence
from sie_mcp.adapters.layers.kernels.switch import usable
from sie_mcp.adapters.packing import pack

CUDA = torch.device("cuda", 0)
NAMES = ["attend", "embeddings", "gates", "norms", "pools", "turns"]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_a_kernel_gives_what_torch_gives(name, dtype):
    module = importlib.import_module(f"sie_mcp.adapters.layers.kernels.{name}")
    with torch.inference_mode():
        assert module.check(CUDA, dtype) <= module.TOLERANCE


@pytest.mark.parametrize("name", NAMES)
def test_a_kernel_is_on_here(name):
    batch = pack([Sequence(np.arange(3))], CUDA)
    assert usable(name, torch.zeros(3, 8, device=CUDA, dtype=torch.bfloat16), batch) is not None
