"""Sparse vectors, against the SPLADE formula on the logits of the reference model."""

from pathlib import Path
from types import SimpleNamespace
from typing import Literal

import numpy as np
import pytest
import torch
from torch import nn
from transformers import BertForMaskedLM

from sie_mcp import wire
from sie_mcp.adapters.adapter import Adapter
from sie_mcp.adapters.heaviest import MOST, common_limit, heaviest
from sie_mcp.adapters.packing import unpack
from sie_mcp.adapters.recipe import Recipe
from sie_mcp.adapters.sparse import MAX_LOGIT_TOKENS, SparseOutput, largest, nonzero
from sie_mcp.errors import InvalidInput
from tests.eager import batch_of
from tests.running import encode, encode_request, load, run, scores
from tests.tiny import VOCABULARY, bert_config, save_model, write_modules

TEXTS = ["alpha beta", "alpha " * 20, "what is machine learning?"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_model(tmp_path, BertForMaskedLM(bert_config()))
    return tmp_path


def _expected(folder: Path, adapter: Adapter, pooling: str, *, twice: bool) -> np.ndarray:
    model = BertForMaskedLM.from_pretrained(folder)
    rows = []
    for one in adapter.prepare(encode_request(TEXTS, "sparse")).sequences:
        with torch.no_grad():
            logits = model(torch.from_numpy(one.input_ids)[None]).logits[0]
        weights = torch.log1p(torch.relu(logits))
        weights = torch.log1p(weights) if twice else weights
        rows.append(weights.amax(0) if pooling == "max" else weights.sum(0))
    return torch.stack(rows).numpy()


def _spread(vectors: list[wire.Sparse]) -> np.ndarray:
    out = np.zeros((len(vectors), len(VOCABULARY)), np.float32)
    for row, vector in zip(out, vectors, strict=True):
        row[vector.indices] = vector.values
    return out


def _sparse(adapter: Adapter, texts: list[str]) -> list[wire.Sparse]:
    return [item.sparse for item in encode(adapter, texts, "sparse")]


@pytest.mark.parametrize("pooling", ["max", "sum"])
@pytest.mark.parametrize("activation", ["relu", "log1p_relu"])
def test_it_equals_the_formula(folder: Path, pooling: str, activation: str) -> None:
    """Case T16, with a pipeline; the reference reads each text alone."""
    config = {"pooling_strategy": pooling, "activation_function": activation}
    write_modules(folder, [("Transformer", None), ("SpladePooling", config)])
    adapter = load(folder)
    expected = _expected(folder, adapter, pooling, twice=activation == "log1p_relu")
    np.testing.assert_allclose(_spread(_sparse(adapter, TEXTS)), expected, atol=1e-5, rtol=0)


def test_a_bare_masked_language_model_is_sparse_where_the_catalogue_says_so(folder: Path) -> None:
    """Case T16, without a pipeline."""
    adapter = load(folder, tasks=("sparse",))
    expected = _expected(folder, adapter, "max", twice=False)
    np.testing.assert_allclose(_spread(_sparse(adapter, TEXTS)), expected, atol=1e-5, rtol=0)


def test_a_bare_masked_language_model_is_dense_otherwise(folder: Path) -> None:
    assert load(folder).card.outputs == ["dense", "multivector", "muvera"]


def test_only_weights_above_zero_are_kept_with_indices_ascending(folder: Path) -> None:
    """Case T16."""
    for vector in _sparse(load(folder, tasks=("sparse",)), TEXTS):
        assert vector.dims == len(VOCABULARY)
        assert 0 < len(vector.indices) < vector.dims
        assert (np.diff(vector.indices) > 0).all()
        assert (vector.values > 0).all()


def _recipe(pooling: Literal["max", "sum"]) -> Recipe:
    return Recipe(
        name="tiny",
        folder=Path(),
        architecture="bert",
        config={"vocab_size": 5},
        tasks=("sparse",),
        max_length=None,
        sparse_pooling=pooling,
    )


class _CountingHead(nn.Module):
    """Passes hidden states on as logits and keeps how many rows it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[int] = []

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        self.rows.append(len(hidden_states))
        return hidden_states


@pytest.mark.parametrize("pooling", ["max", "sum"])
def test_logits_are_made_a_bounded_number_of_tokens_at_a_time(pooling: str) -> None:
    head = _CountingHead()
    recipe = _recipe(pooling)
    model = SimpleNamespace(heads={"sparse": head})
    lengths = (3, 1500, 700, 1)
    logits = torch.randn(sum(lengths), 5, generator=torch.Generator().manual_seed(0))
    batch = batch_of(lengths, torch.device("cpu"))
    found = unpack(SparseOutput(recipe, model).forward(logits, batch), len(lengths))
    assert max(head.rows) <= MAX_LOGIT_TOKENS
    for own, output in zip(logits.split(lengths), found, strict=True):
        weights = torch.log1p(torch.relu(own))
        expected = weights.amax(0) if pooling == "max" else weights.sum(0)
        kept = torch.nonzero(expected).flatten()
        assert output["sparse_indices"].tolist() == kept.tolist()
        np.testing.assert_allclose(output["sparse_values"], expected[kept], rtol=1e-5)


def test_the_score_is_the_dot_product(folder: Path) -> None:
    adapter = load(folder, tasks=("sparse",))
    query, *others = _spread(_sparse(adapter, TEXTS))
    np.testing.assert_allclose(
        scores(adapter, TEXTS[0], TEXTS[1:]), [query @ other for other in others], rtol=1e-5
    )


def test_what_has_no_meaning_for_sparse_vectors_is_refused(folder: Path) -> None:
    adapter = load(folder, tasks=("sparse",))
    with pytest.raises(InvalidInput, match="dimensions does not apply"):
        adapter.prepare(encode_request(TEXTS, dimensions=3))
    request = encode_request(TEXTS)
    request.params.output_dtype = "binary"
    with pytest.raises(InvalidInput, match=r"binary does not apply.*float16"):
        run(adapter, request)


@pytest.mark.parametrize("most", [1, 5, 40, 2_000])
def test_the_largest_chosen_on_the_device_are_those_chosen_on_the_host(most: int) -> None:
    """Few different weights: most are ties."""
    generator = torch.Generator().manual_seed(most)
    weights = torch.randint(0, 4, (40, 50), generator=generator).float() / 2
    weights[3] = 0.0
    params = wire.EncodeParams(options=wire.EncodeOptions(max_active_dims=most))
    everything, chosen = (unpack(one, 40) for one in (nonzero(weights), largest(weights, most)))
    sparse = SparseOutput(_recipe("max"), SimpleNamespace())
    for one, other in zip(everything, chosen, strict=True):
        expected, found = (sparse.result(rows, None, params) for rows in (one, other))
        assert found.indices.tolist() == expected.indices.tolist()
        assert found.values.tolist() == expected.values.tolist()


def test_a_weight_that_is_no_number_is_always_among_the_largest() -> None:
    weights = torch.tensor([[0.0, 3.0, -torch.nan, 2.0], [1.0, 0.0, 0.0, torch.nan]])
    indices, values = heaviest(weights, 2)
    assert indices.tolist() == [[1, 2], [0, 3]]
    assert values.isnan().tolist() == [[False, True], [False, True]]


def test_a_batch_has_a_limit_where_each_of_its_sequences_has_one(folder: Path) -> None:
    adapter = load(folder, tasks=("sparse",))
    requests = [
        encode_request(TEXTS, "sparse", max_active_dims=most) for most in (3, 7, None, MOST + 1)
    ]
    few, more, free, many = ([one.extra for one in adapter.prepare(r).sequences] for r in requests)
    assert common_limit(few + more) == 7
    assert common_limit(few + free) is None
    assert common_limit(few + many) is None
