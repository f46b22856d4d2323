"""BGE-M3: three outputs of one forward pass, and the score that all three make."""

import numpy as np
import pytest
import torch

from sie_mcp import wire
from sie_mcp.errors import InvalidInput, ModelLoadFailed
from tests.parity.checkpoints import save, write_json
from tests.parity.padded import padded
from tests.parity.run import load, run
from tests.parity.table import ROWS

XLM_R = next(row for row in ROWS if row.name == "xlm-roberta")
TEXTS = ["morning coffee coffee river", "alpha", "stone river morning gamma"]
OUTPUTS = ["dense", "sparse", "multivector"]


@pytest.fixture
def model(tmp_path):
    return save_m3(tmp_path / "m3")


def save_m3(folder):
    """Write a folder as BGE-M3's; return it, its encoder, and its two layers."""
    encoder = save(XLM_R, "dense", folder)
    modules = ["Transformer", "Pooling", "Normalize"]
    write_json(
        folder / "modules.json",
        [
            {
                "idx": place,
                "path": "" if not place else f"{place}_{kind}",
                "type": f"sentence_transformers.models.{kind}",
            }
            for place, kind in enumerate(modules)
        ],
    )
    write_json(folder / "1_Pooling/config.json", {"pooling_mode_cls_token": True})
    torch.manual_seed(3)
    layers = {"sparse": torch.nn.Linear(32, 1), "colbert": torch.nn.Linear(32, 32)}
    for name, layer in layers.items():
        torch.save(layer.state_dict(), folder / f"{name}_linear.pt")
    return folder, encoder, layers


def encode(adapter, texts, **options):
    return run(
        adapter,
        wire.EncodeRequest.model_validate(
            {
                "items": [{"text": text} for text in texts],
                "params": {"output_types": OUTPUTS, "options": options},
            }
        ),
    )[0].items


@torch.no_grad()
def expected(encoder, layers, adapter, texts):
    """Return each text's three outputs by FlagEmbedding's formulas, on one padded batch."""
    request = wire.EncodeRequest(items=[wire.Item(text=text) for text in texts])
    sequences = adapter.prepare(request).sequences
    inputs, mask = padded(encoder, sequences)
    states = encoder(**inputs).last_hidden_state
    weights = torch.relu(layers["sparse"](states)).squeeze(-1)
    vectors = torch.nn.functional.normalize(layers["colbert"](states[:, 1:]), dim=-1)
    results = []
    for row, sequence in enumerate(sequences):
        lexical = {}
        for token, weight in zip(sequence.input_ids, weights[row].tolist(), strict=False):
            # <s>, <pad>, </s>, [UNK]: the four ids of the test tokenizer that are no words.
            if token not in (0, 1, 2, 3) and weight > lexical.get(int(token), 0.0):
                lexical[int(token)] = weight
        dense = torch.nn.functional.normalize(states[row, 0], dim=-1).numpy()
        results.append((dense, lexical, vectors[row][mask[row, 1:]].numpy()))
    return results


def furthest(folder, encoder, layers):
    """Return the largest difference of any number of the three outputs."""
    adapter = load(folder)
    worst = 0.0
    for item, (dense, lexical, vectors) in zip(
        encode(adapter, TEXTS), expected(encoder, layers, adapter, TEXTS), strict=True
    ):
        weights = [lexical[one] for one in sorted(lexical)]
        pairs = (
            (item.dense.values, dense),
            (item.sparse.values, weights),
            (item.multivector.values, vectors),
        )
        worst = max([worst, *(float(np.abs(a - b).max()) for a, b in pairs if len(a))])
    return worst


def test_one_forward_gives_three_outputs(model):
    """Case T17."""
    folder, encoder, layers = model
    adapter = load(folder)
    items = encode(adapter, TEXTS)
    for item, (dense, lexical, vectors) in zip(
        items, expected(encoder, layers, adapter, TEXTS), strict=True
    ):
        assert np.abs(item.dense.values - dense).max() <= 1e-5
        assert item.sparse.indices.tolist() == sorted(lexical)
        assert np.allclose(item.sparse.values, [lexical[one] for one in sorted(lexical)], atol=1e-5)
        assert item.multivector.values.shape == vectors.shape
        assert item.multivector.num_tokens == item.num_tokens - 1
        assert np.abs(item.multivector.values - vectors).max() <= 1e-5
    assert any(len(item.sparse.indices) for item in items)
    alone = encode(adapter, TEXTS[:1])[0]
    assert np.abs(alone.sparse.values - items[0].sparse.values).max() <= 1e-5
    assert adapter.card.outputs == ["dense", "multivector", "muvera", "sparse"]
    assert "sparse_linear.pt" in adapter.card.decisions["sparse"]


@pytest.mark.parametrize("weights", [None, {"dense": 1.0, "sparse": 0.3, "multivector": 1.0}])
def test_the_score_is_the_weighted_mean_of_three(model, weights):
    folder, encoder, layers = model
    adapter = load(folder)
    options = wire.ScoreOptions(weights=weights)
    request = wire.ScoreRequest(
        query=wire.Item(text=TEXTS[0]),
        items=[wire.Item(text=text) for text in TEXTS[1:]],
        options=options,
    )
    found = {one.index: one.score for one in run(adapter, request)[0].scores}
    (dense, lexical, vectors), *others = expected(encoder, layers, adapter, TEXTS)
    parts = weights or {"dense": 1.0, "sparse": 1.0, "multivector": 1.0}
    for index, (own, own_lexical, own_vectors) in enumerate(others):
        three = {
            "dense": float(dense @ own),
            "sparse": sum(weight * own_lexical.get(one, 0.0) for one, weight in lexical.items()),
            "multivector": float((vectors @ own_vectors.T).max(axis=1).mean()),
        }
        value = sum(parts[name] * three[name] for name in parts) / sum(parts.values())
        assert found[index] == pytest.approx(value, abs=1e-5)


def test_weights_for_what_is_not_there_are_refused(tmp_path):
    save(ROWS[0], "dense", tmp_path)
    adapter = load(tmp_path)
    for weights, message in (
        ({"sparse": 1.0}, "has no sparse vectors; it has: multivector, dense"),
        ({"dense": 0.0}, "at least one must be over 0"),
    ):
        request = wire.ScoreRequest(
            query=wire.Item(text="alpha"),
            items=[wire.Item(text="beta")],
            options=wire.ScoreOptions(weights=weights),
        )
        with pytest.raises(InvalidInput, match=message):
            adapter.prepare(request)


def test_a_layer_that_does_not_fit_is_named(model):
    folder, _, _ = model
    torch.save(torch.nn.Linear(16, 1).state_dict(), folder / "sparse_linear.pt")
    with pytest.raises(ModelLoadFailed, match=r"sparse_linear\.pt: a weight of 1 x 16"):
        load(folder)
