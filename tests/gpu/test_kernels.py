"""Each kernel against its twin in both half precisions; on where asked for, and only there."""

import importlib
from dataclasses import replace

import numpy as np
import pytest
import torch

from sie_mcp.adapters.adapter import Sequence
from sie_mcp.adapters.layers.kernels.switch import usable
from sie_mcp.adapters.packing import pack

CUDA = torch.device("cuda", 0)
NAMES = ["attend", "embeddings", "gates", "maxsim", "norms", "peaks", "pools", "probes", "turns"]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_a_kernel_gives_what_torch_gives(name, dtype):
    module = importlib.import_module(f"sie_mcp.adapters.layers.kernels.{name}")
    with torch.inference_mode():
        assert module.check(CUDA, dtype) <= module.TOLERANCE


@pytest.mark.parametrize("name", NAMES)
def test_a_kernel_is_on_where_it_is_asked_for(name):
    plain = pack([Sequence(np.arange(3))], CUDA, is_laid_out=True)
    x = torch.zeros(3, 8, device=CUDA, dtype=torch.bfloat16)
    assert usable(name, x, plain) is None
    assert usable(name, x, replace(plain, paths=frozenset({"kernels"}))) is not None
