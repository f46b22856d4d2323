"""The check at the end of a load, where a packed kernel can disagree with padded blocks."""

from dataclasses import replace

import pytest
import torch

from sie_mcp.adapters.adapter import PackedBatch
from sie_mcp.adapters.layers import attention as layer
from sie_mcp.adapters.self_check import check
from sie_mcp.errors import ModelLoadFailed
from tests.adapters.test_self_check import ToyEncoder
from tests.eager import batch_of, qkv

CUDA = torch.device("cuda", 0)


def _vectors(batch: PackedBatch) -> torch.Tensor:
    return torch.tensor(batch.lengths, device=CUDA).float()[:, None].repeat(1, 3)


def test_a_kernel_that_gives_other_numbers_fails() -> None:
    check(ToyEncoder(_vectors), CUDA)
    wrong = ToyEncoder(lambda batch: _vectors(batch) * (1.0 if batch.allows_kernels else 1.2))
    with pytest.raises(ModelLoadFailed, match=r"toy: dense differs by .* on padded blocks"):
        check(wrong, CUDA)


def test_a_batch_that_allows_no_kernel_runs_none(monkeypatch: pytest.MonkeyPatch) -> None:
    class Ran(Exception):
        """The kernel ran."""

    def kernel(*_: object) -> torch.Tensor:
        raise Ran

    monkeypatch.setattr(layer, "_packed_kernel", kernel)
    q, k, v = (one.to(CUDA, torch.bfloat16) for one in qkv(12))
    batch = batch_of((5, 7), CUDA)
    with pytest.raises(Ran):
        layer.attention(q, k, v, batch)
    layer.attention(q, k, v, replace(batch, allows_kernels=False))
