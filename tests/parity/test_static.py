"""Static embeddings against model2vec and sentence-transformers reading the same folder."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from model2vec import StaticModel
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize, StaticEmbedding
from tokenizers import Tokenizer, models, pre_tokenizers

from sie_mcp.errors import InputTooLong
from tests.running import dense, encode, encode_request, load, scores
from tests.tiny import VOCABULARY, wordpiece

DIMS = 24
TOLERANCE = 1e-5
TEXTS = ["hello world", "alpha", "what is machine learning?", "hello 北 world", "the " * 700]


def _vectors(count: int = len(VOCABULARY), seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, DIMS)).astype(np.float32)


def distilled(**arguments: Any) -> StaticModel:
    """Return a model as distillation makes it."""
    arguments = {
        "vectors": _vectors(),
        "tokenizer": wordpiece(),
        "normalize": True,
        "config": {"model_type": "model2vec"},
    } | arguments
    return StaticModel(**arguments)


def _quantised(seed: int = 3) -> dict[str, Any]:
    """Return the layout with fewer vectors than tokens."""
    generator = np.random.default_rng(seed)
    return {
        "vectors": _vectors(20),
        "token_mapping": generator.integers(0, 20, len(VOCABULARY)),
        "weights": generator.uniform(0.1, 3.0, len(VOCABULARY)).astype(np.float32),
    }


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"normalize": False},
        {"max_length": 5},
        {"max_length": None},
        {"config": None},
        _quantised(),
        {"weights": np.linspace(0.5, 2.0, len(VOCABULARY), dtype=np.float32)},
        {key: value for key, value in _quantised().items() if key != "weights"},
        {"vectors": (_vectors() * 40).astype(np.int8)},
    ],
    ids=[
        "plain",
        "not normalised",
        "short",
        "no limit",
        "not distilled",
        "quantised vocabulary",
        "weights alone",
        "mapping alone",
        "int8",
    ],
)
def test_it_equals_model2vec(tmp_path: Path, arguments: dict[str, Any]) -> None:
    model = distilled(**arguments)
    model.save_pretrained(tmp_path)
    expected = model.encode(TEXTS)
    np.testing.assert_allclose(dense(load(tmp_path), TEXTS), expected, atol=TOLERANCE, rtol=0)


def test_half_precision_vectors_equal_model2vec_s_within_their_rounding(tmp_path: Path) -> None:
    model = distilled(vectors=_vectors().astype(np.float16))
    model.save_pretrained(tmp_path)
    np.testing.assert_allclose(dense(load(tmp_path), TEXTS), model.encode(TEXTS), atol=2e-3)


def test_unknown_tokens_are_dropped_and_not_counted(tmp_path: Path) -> None:
    distilled().save_pretrained(tmp_path)
    adapter = load(tmp_path)
    with_unknown, without = dense(adapter, ["hello 北 world", "hello world"])
    np.testing.assert_allclose(with_unknown, without, atol=1e-6)
    assert [item.num_tokens for item in encode(adapter, ["hello 北 world"])] == [2]


def test_a_text_of_unknown_tokens_alone_is_the_zero_vector(tmp_path: Path) -> None:
    model = distilled()
    model.save_pretrained(tmp_path)
    adapter = load(tmp_path)
    assert np.array_equal(dense(adapter, ["北"])[0], np.zeros(DIMS, np.float32))
    assert np.array_equal(model.encode(["北"])[0], np.zeros(DIMS, np.float32))
    assert scores(adapter, "北", ["hello", "北"]) == [0.0, 0.0]


def test_what_is_cut_is_told_even_where_characters_are_cut(tmp_path: Path) -> None:
    # Few tokens but many characters: model2vec cuts at 512 x the median length of a token.
    words = ["[UNK]", "a", "b", "w" * 3000]
    tokenizer = Tokenizer(models.WordLevel(dict(zip(words, range(4), strict=True)), "[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    model = distilled(vectors=_vectors(4), tokenizer=tokenizer)
    model.save_pretrained(tmp_path)
    adapter = load(tmp_path)
    text = "a b " + "w" * 3000
    np.testing.assert_allclose(dense(adapter, [text]), model.encode([text]), atol=TOLERANCE)
    assert [item.truncated for item in encode(adapter, [text, "a b", "a " * 600])] == [
        True,
        False,
        True,
    ]
    with pytest.raises(InputTooLong, match=r"items\[0\]"):
        adapter.prepare(encode_request([text], truncate=False))


@pytest.mark.parametrize("normalize", [True, False])
def test_it_equals_sentence_transformers(tmp_path: Path, normalize: bool) -> None:
    embedding = StaticEmbedding(wordpiece(), embedding_weights=_vectors())
    modules = [embedding, *([Normalize()] if normalize else [])]
    reference = SentenceTransformer(modules=modules, device="cpu")
    reference.save(str(tmp_path), create_model_card=False)
    adapter = load(tmp_path)
    np.testing.assert_allclose(dense(adapter, TEXTS), reference.encode(TEXTS), atol=TOLERANCE)
    items = encode(adapter, TEXTS)
    assert items[-1].num_tokens == 700
    assert not any(item.truncated for item in items)


def test_static_models_give_dense_vectors_and_score_by_cosine(tmp_path: Path) -> None:
    distilled(normalize=False).save_pretrained(tmp_path)
    adapter = load(tmp_path)
    assert adapter.card.outputs == ["dense"]
    vectors = dense(adapter, ["hello", *TEXTS], normalize=True)
    np.testing.assert_allclose(scores(adapter, "hello", TEXTS), vectors[1:] @ vectors[0], atol=1e-5)
