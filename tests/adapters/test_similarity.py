"""The score primitive on models without a scoring head: what is compared, and how."""

from pathlib import Path

import numpy as np
import pytest
from transformers import BertModel

from sie_mcp.errors import InferenceError
from tests.running import dense, encode, load, run, score_request, scores
from tests.tiny import bert_config, save_model

QUERY = "who wrote it"
TEXTS = ["alpha wrote it", "hello world", "the short document"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_model(tmp_path, BertModel(bert_config()))
    return tmp_path


def test_an_encoder_scores_by_its_token_vectors(folder: Path) -> None:
    adapter = load(folder)
    query = encode(adapter, [QUERY], "multivector", is_query=True)[0].multivector.values
    items = [item.multivector.values for item in encode(adapter, TEXTS, "multivector")]
    expected = [(query @ item.T).max(axis=1).sum() for item in items]
    np.testing.assert_allclose(scores(adapter, QUERY, TEXTS), expected, atol=1e-5)


def test_an_encoder_of_dense_vectors_alone_scores_by_cosine(folder: Path) -> None:
    adapter = load(folder, tasks=("dense",))
    vectors = dense(adapter, [QUERY, *TEXTS], normalize=True)
    np.testing.assert_allclose(scores(adapter, QUERY, TEXTS), vectors[1:] @ vectors[0], atol=1e-5)


def test_the_query_counts_as_read_and_gets_the_query_prompt(folder: Path) -> None:
    adapter = load(folder, tasks=("dense",), prompts={"query": "query: ", "document": "the "})
    answer = run(adapter, score_request(QUERY, TEXTS[:1]))
    assert answer.usage.input_tokens == (2 + 2 + 3) + (2 + 1 + 3)
    vectors = dense(adapter, ["query: " + QUERY, "the " + TEXTS[0]], prompt="", normalize=True)
    assert answer.scores[0].score == pytest.approx(float(vectors[0] @ vectors[1]), abs=1e-5)


def test_a_query_that_failed_fails_every_item(folder: Path) -> None:
    adapter = load(folder)
    request = score_request(QUERY, TEXTS)
    prepared = adapter.prepare(request)
    error = InferenceError("the forward pass failed")
    found = adapter.finish(request, prepared, [error] * 4).scores
    assert [one.error.message for one in found] == [str(error)] * 3
    assert [one.score for one in found] == [None] * 3
