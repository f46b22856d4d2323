"""Recorded forward passes: the same numbers as the pass, for any lengths, also after a swap."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from sie_mcp.adapters import create
from sie_mcp.adapters.adapter import Sequence
from sie_mcp.adapters.fast_paths import paths_of
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


PATHS = frozenset({"kernels", "graphs"})


def loaded(tmp_path, row, paths=PATHS):
    """Return what a load with the ways gives, and its module."""
    save(row, "dense", tmp_path)
    recipe = create.read_recipe("m", tmp_path, None)
    adapter = create.load_adapter(recipe, device=CUDA, dtype=torch.bfloat16, paths=paths)
    assert paths_of(adapter) == paths
    return adapter, adapter._adapter._model


def batch_of(lengths, seed=0, paths=PATHS):
    rng = np.random.default_rng(seed)
    sequences = [Sequence(rng.integers(3, 60, n)) for n in lengths]
    return replace(pack(sequences, CUDA, is_laid_out=True), paths=paths)


def both(model, batch):
    """Return what a replay gives and what the plain pass gives."""
    with torch.inference_mode():
        for _ in range(USES_BEFORE + 1):
            found = model.graphs.states(batch)
        assert found is not None
        plain = replace(batch, paths=frozenset())
        return found.float().clone(), model.encoder(plain).float()


def assert_close(found, expected):
    a, b = found.flatten(), expected.flatten()
    assert torch.nn.functional.cosine_similarity(a, b, dim=0) >= 0.9999


@pytest.mark.parametrize("paths", [PATHS, PATHS - {"kernels"}], ids=["kernels", "alone"])
@pytest.mark.parametrize("row", ROWS_HERE, ids=[row.name for row in ROWS_HERE])
def test_a_replay_gives_what_the_plain_pass_gives(tmp_path, row, paths):
    _, model = loaded(tmp_path, row, paths)
    assert isinstance(model.graphs, ForwardGraphs)
    for seed, lengths in enumerate(
        [(5,), (16,), (3, 4, 9), (1, 15), (20, 30, 2), (1,) * 60, (90, 60), (1,), (16,)]
    ):
        assert_close(*both(model, batch_of(lengths, seed, paths)))


def test_graphs_go_with_the_weights_and_come_back(tmp_path):
    row = next(row for row in ROWS_HERE if row.name == "bert")
    adapter, model = loaded(tmp_path, row)
    weights = adapter.weights
    batch = batch_of((7, 5))
    first, _ = both(model, batch)
    assert model.graphs.size_bytes > 0
    pages = HostPages(is_pinned=True, page_bytes=MIB)
    own = pages.get(range(-(-weights.size_bytes // pages.page_bytes)))
    weights.stage(own)
    weights.leave()
    assert model.graphs.size_bytes == 0
    other = torch.ones(weights.size_bytes // 4, device=CUDA)  # Perhaps where they lay.
    weights.enter(CUDA, own)
    weights.follow()
    again, _ = both(model, batch)
    assert torch.equal(first, again)
    assert other.isfinite().all()


def test_what_cannot_be_recorded_runs_as_before(tmp_path, caplog):
    row = next(row for row in ROWS_HERE if row.name == "bert")
    _, model = loaded(tmp_path, row)
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
    assert "faster way off path=graphs for=m" in caplog.text


def test_a_recording_that_broke_off_spoils_none_of_another_model(tmp_path, caplog):
    row = next(row for row in ROWS_HERE if row.name == "bert")
    broken, sound = (loaded(tmp_path / name, row)[1] for name in ("a", "b"))
    broken.encoder.forward = lambda batch: batch.input_ids[:, None] * batch.input_ids.sum().item()
    with torch.inference_mode():
        for _ in range(USES_BEFORE + 2):
            broken.graphs.states(batch_of((7, 5)))
    assert "faster way off path=graphs" in caplog.text
    assert_close(*both(sound, batch_of((7, 5))))


def test_more_tokens_or_texts_than_a_graph_takes_run_as_they_are(tmp_path):
    row = next(row for row in ROWS_HERE if row.name == "bert")
    _, model = loaded(tmp_path, row)
    # Without kernels few tokens are recorded; more texts than a size takes never are.
    few = batch_of((60,) * (FEW_TOKENS // 60 + 1), paths=PATHS - {"kernels"})
    many = batch_of((1,) * 20_000)
    with torch.inference_mode():
        for batch in (few, many):
            for _ in range(USES_BEFORE + 2):
                assert model.graphs.states(batch) is None
