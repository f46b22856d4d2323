"""Weights moved to another architecture give the vectors of the one they were taken from."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from transformers import BertModel, LlamaConfig, LlamaForCausalLM

from evals.families import folders, surgery
from evals.families.folders import Checkpoint
from tests.running import encode, load
from tests.tiny import MAX_LENGTH, VOCABULARY, bert_config, randomise, wordpiece

TEXTS = ["hello world", "alpha", "what is machine learning? " * 12]
_LLAMA = {
    "vocab_size": len(VOCABULARY),
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": MAX_LENGTH,
    "pad_token_id": 0,
}


def _checkpoint(model: Any) -> Checkpoint:
    special = {"pad_token": "[PAD]"}
    config = {**model.config.to_diff_dict(), "architectures": [type(model).__name__]}
    tensors = {name: one for name, one in model.state_dict().items() if name != "lm_head.weight"}
    return Checkpoint(config, tensors, wordpiece(), max_length=MAX_LENGTH - 2, special=special)


def _bert() -> Checkpoint:
    source = _checkpoint(randomise(BertModel(bert_config())))
    config = {"hidden_act": "gelu", "pad_token_id": 0, **source.config}
    return Checkpoint(config, source.tensors, source.tokenizer, source.max_length, source.special)


def _llama() -> Checkpoint:
    return _checkpoint(randomise(LlamaForCausalLM(LlamaConfig(**_LLAMA))))


def _vectors(folder: Path) -> list[np.ndarray]:
    items = encode(load(folder), TEXTS, "dense", "multivector")
    return [np.concatenate([one.dense.values[None], one.multivector.values]) for one in items]


@pytest.mark.parametrize(
    ("make", "move", "model_type"),
    [
        (_bert, surgery.to_distilbert, "distilbert"),
        (_bert, lambda one: surgery.to_roberta(one, "roberta", "RobertaModel"), "roberta"),
        (_llama, surgery.to_qwen2, "qwen2"),
        (_llama, surgery.to_mistral, "mistral"),
    ],
    ids=["distilbert", "roberta", "qwen2", "mistral"],
)
def test_the_vectors_stay_the_same(
    make: Callable[[], Checkpoint],
    move: Callable[[Checkpoint], Checkpoint],
    model_type: str,
    tmp_path: Path,
) -> None:
    source = make()
    expected = _vectors(folders.write(source, tmp_path / "source"))
    moved = move(source)
    assert moved.config["model_type"] == model_type
    found = _vectors(folders.write(moved, tmp_path / "moved"))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5, rtol=0)


def test_colbert_s_vectors_are_the_encoder_s_turned_and_of_unit_length(tmp_path: Path) -> None:
    source = _bert()
    expected = _vectors(folders.write(source, tmp_path / "source"))
    projection = surgery.orthonormal(source.config["hidden_size"], 16)
    np.testing.assert_allclose(projection @ projection.T, np.eye(16), atol=1e-6)
    folder = surgery.write_colbert(source, projection, tmp_path / "colbert")
    for item, own in zip(encode(load(folder), TEXTS, "multivector"), expected, strict=True):
        turned = own[1:] @ projection.numpy().T
        turned /= np.linalg.norm(turned, axis=1, keepdims=True)
        np.testing.assert_allclose(item.multivector.values, turned, atol=1e-5, rtol=0)


def test_a_folder_that_is_written_is_read_back_as_it_was(tmp_path: Path) -> None:
    source = _bert()
    found = folders.read(folders.write(source, tmp_path))
    assert (found.config, found.max_length, found.special) == (
        source.config,
        source.max_length,
        source.special,
    )
    assert found.tensors.keys() == source.tensors.keys()
