"""Recorded forward passes: the same numbers as the pass, for any lengths, also after a swap."""

import numpy as np
import pytest
import torch

from sie_mcp.adapters import create
from sie_mcp.adapters.adapter import Sequence
from sie_mcp.adapters.graphs import FEW_TOKENS, USES_BEFORE, ForwardGraphs
from sie_mcp.adapters.packing import pack
from sie_mcp.engine.host_pages import HostPages
from tests.gpu.known import is_known
from tests.parity.checkpoints import save
from tests.parity.table import ROWS

CUDA = torch.device("cuda", 0)
MIB = 1024**2
FAMILIES = ["bert", "roberta", "xlm-roberta", "distilbert", "electra", "modernbert"]
ROWS_HERE = [row for row in ROWS if row.name in FAMILIES and is_known(row)]


def loaded(tmp_path, row):
    save(row, "dense", tmp_path)
    return create.load_adapter(
        create.read_recipe("m", tmp_path, None), device=CUDA, dtype=torch.bfloat16
    )


def batch_of(lengths, seed=0):
    rng = np.random.default_rng(seed)
    return pack([Sequence(rng.integers(3, 60, n)) for n in lengths], CUDA)


def both(model, batch):
    """Return what a replay gives and what the pass gives."""
    with torch.inference_mode():
        for _ in range(USES_BEFORE + 1):
            found = model.graphs.states(batch)
        assert found is not None
        return found.float().clone(), model.encoder(batch).float()


def assert_close(found, expected):
    a, b = found.flatten(), expected.flatten()
    assert torch.nn.functional.cosine_similarity(a, b, dim=0) >= 0.9999


@pytest.mark.parametrize("row", ROWS_HERE, ids=[row.name for row in ROWS_HERE])
def test_a_replay_gives_what_the_pass_gives(tmp_path, row):
    model = loaded(tmp_path, row)._model
    assert isinstance(model.graphs, ForwardGraphs)
    for seed, lengths in enumerate(
        [(5,), (16,), (3, 4, 9), (1, 15), (20, 30, 2), (1,) * 60, (90, 60), (1,), (16,)]
    ):
        assert_close(*both(model, batch_of(lengths, seed)))


def test_graphs_go_with_the_weights_and_come_back(tmp_path):
    row = next(row for row in ROWS_HERE if row.name == "bert")
    adapter = loaded(tmp_path, row)
    model, weights = adapter._model, adapter.weights
    batch = batch_of((7, 5))
    first, _ = both(model, batch)
    assert model.graphs.size_bytes > 0
    pages = HostPages(is_pinned=True, page_bytes=MIB)
    own = pages.get(range(-(-weights.size_bytes // pages.page_bytes)))
    weights.stage(own)
    weights.leave()
    assert model.graphs.size_bytes == 0
    other = torch.randn(weights.size_bytes // 4, device=CUDA)  # Perhaps where they lay.
    weights.enter(CUDA, own)
    weights.follow()
    again, _ = both(model, batch)
    assert torch.equal(first, again)
    assert other.isfinite().all()


def test_what_cannot_be_recorded_runs_as_before(tmp_path, caplog):
    row = next(row for row in ROWS_HERE if row.name == "bert")
    adapter = loaded(tmp_path, row)
    model = adapter._model
    encoder = model.encoder.forward

    def asks_the_host(batch):
        states = encoder(batch)
        return states * float(states.isfinite().all())

    model.encoder.forward = asks_the_host
    batch = batch_of((7, 5))
    with torch.inference_mode():
        for _ in range(USES_BEFORE + 2):
            assert model.graphs.states(batch) is None
        assert model.states(batch).isfinite().all()
        torch.cuda.synchronize()
    assert "not recorded" in caplog.text


def test_more_tokens_or_texts_than_a_graph_takes_run_as_they_are(tmp_path):
    row = next(row for row in ROWS_HERE if row.name == "bert")
    model = loaded(tmp_path, row)._model
    for lengths in [(60,) * (FEW_TOKENS // 60 + 1)]:
        batch = batch_of(lengths)
        with torch.inference_mode():
            for _ in range(USES_BEFORE + 2):
                assert model.graphs.states(batch) is None
