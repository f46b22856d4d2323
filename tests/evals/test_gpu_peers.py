"""What the GPU bench compares with: each way runs all texts, here on the CPU."""

import pytest
import torch

from evals.bench import gpu_peers, shapes

CPU = torch.device("cpu")


@pytest.fixture
def seen(monkeypatch):
    """Note the sizes of batches, with padding, in place of a whole model."""
    sizes = []

    class Model:
        def __call__(self, input_ids, attention_mask):
            sizes.append((tuple(input_ids.shape), int(attention_mask.sum())))
            states = torch.zeros(*input_ids.shape, 4)
            return type("Output", (), {"last_hidden_state": states})

    monkeypatch.setattr(gpu_peers, "_model", lambda *_: Model())
    monkeypatch.setattr(gpu_peers, "SIZES", (2, 8))
    return sizes


@pytest.mark.parametrize("has_flash", [False, True])
def test_each_way_runs_every_token_once(seen, monkeypatch, has_flash):
    monkeypatch.setattr(gpu_peers.importlib.util, "find_spec", lambda _: has_flash or None)
    ways = gpu_peers.throughput_peers("MiniLM-L6", [3, 9, 4, 8], CPU)
    assert list(ways) == ["transformers", "unsorted", *(["flash_attn"] if has_flash else [])]
    found = {}
    for way, (small, large) in ways.items():
        small()
        found[way] = [shape for shape, _ in seen]
        assert sum(tokens for _, tokens in seen) == 24
        seen.clear()
        large()
        assert seen == [((4, 9), 24)]
        seen.clear()
    assert found["transformers"] == [(2, 9), (2, 4)]
    assert found["unsorted"] == [(2, 9), (2, 8)]


def test_a_peers_model_is_that_shape():
    model = gpu_peers._model("MiniLM-L6", CPU)
    assert model.config.hidden_size == shapes.config_of("MiniLM-L6")["hidden_size"]
    assert model.config._attn_implementation == gpu_peers.SDPA
    assert model.dtype == torch.float16
