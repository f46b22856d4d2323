"""The batches that a recorded pass is checked with."""

import numpy as np
import pytest
import torch

from sie_mcp.adapters.adapter import Sequence
from sie_mcp.adapters.graphs import _others
from sie_mcp.adapters.packing import pack

CPU = torch.device("cpu")


@pytest.mark.parametrize("lengths", [(7,), (1,), (256,) * 40, (500, 3, 1, 60), (1,) * 9])
def test_none_is_longer_than_what_a_model_was_asked_for(lengths):
    ids = np.arange(sum(lengths))
    parts = np.split(ids, np.cumsum(lengths)[:-1])
    batch = pack([Sequence(part) for part in parts], CPU, is_laid_out=True)
    others = list(_others(batch))
    assert len(others) == 3
    for other in others:
        assert int(other.position_ids.max()) < max(lengths)
        assert other.input_ids.tolist() == ids[::-1].tolist()
        assert min(other.lengths) > 0
    # Others than its own, wherever a batch has more than one way to be cut.
    if max(lengths) > 1:
        assert any(other.lengths != batch.lengths for other in others)
