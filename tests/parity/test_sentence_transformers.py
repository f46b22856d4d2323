"""Whole checkpoints against sentence-transformers reading the same folder, float32, CPU."""

import string
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import (
    CrossEncoder,
    MultiVectorEncoder,
    SentenceTransformer,
    SparseEncoder,
    quantize_embeddings,
)
from transformers import BertForMaskedLM, BertForSequenceClassification, BertModel

from tests.running import dense, encode, encode_request, load, run, scores
from tests.tiny import (
    HIDDEN_SIZE,
    NEW_TYPES,
    OLD_TYPES,
    bert_config,
    change_json,
    save_model,
    write_json,
    write_modules,
)

TOLERANCE = 1e-5
TEXTS = ["alpha beta gamma", "hello", "the " * 200, "What IS machine learning?!"]
IDENTITY = "torch.nn.modules.linear.Identity"
POOLING = {"embedding_dimension": HIDDEN_SIZE, "pooling_mode": "mean"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_model(tmp_path, BertModel(bert_config()))
    write_modules(tmp_path, [("Transformer", None), ("Pooling", POOLING), ("Normalize", {})])
    return tmp_path


def _reference(folder: Path) -> SentenceTransformer:
    return SentenceTransformer(str(folder), device="cpu", local_files_only=True)


def _assert_equal(folder: Path) -> None:
    expected = _reference(folder).encode(TEXTS)
    np.testing.assert_allclose(dense(load(folder), TEXTS), expected, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize(
    "modes",
    [
        *("cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"),
        ["mean", "cls"],
        ["lasttoken", "max", "weightedmean"],
    ],
    ids=str,
)
def test_every_way_of_pooling(folder: Path, modes: str | list[str]) -> None:
    write_modules(folder, [("Transformer", None), ("Pooling", POOLING | {"pooling_mode": modes})])
    _assert_equal(folder)


def _dense(in_features: int, out_features: int, **changes: Any) -> dict[str, Any]:
    config = {"in_features": in_features, "out_features": out_features, "bias": True}
    return config | {"activation_function": IDENTITY} | changes


def _write_stack(
    folder: Path, projections: list[dict[str, Any]], types: Mapping[str, str], *, normalize: bool
) -> None:
    modules: list[tuple[str, Any]] = [("Transformer", None), ("Pooling", POOLING)]
    modules += [("Dense", one) for one in projections]
    write_modules(folder, modules + [("Normalize", {})] * normalize, types)
    generator = torch.Generator().manual_seed(1)
    for index, config in enumerate(projections, start=2):
        shape = (config["out_features"], config["in_features"])
        tensors = {"linear.weight": torch.randn(shape, generator=generator) * 0.1}
        if config["bias"]:
            tensors["linear.bias"] = torch.randn(shape[0], generator=generator)
        if config.get("use_residual") and shape[0] != shape[1]:
            tensors["residual.weight"] = torch.randn(shape, generator=generator) * 0.1
        save_file(tensors, folder / f"{index}_Dense" / "model.safetensors")


@pytest.mark.parametrize("types", [OLD_TYPES, NEW_TYPES], ids=["old", "new"])
def test_two_projections_and_unit_length(folder: Path, types: Mapping[str, str]) -> None:
    """Case T09: old class paths and new ones."""
    stack = [_dense(HIDDEN_SIZE, 128, bias=False), _dense(128, HIDDEN_SIZE, bias=False)]
    _write_stack(folder, stack, types, normalize=True)
    _assert_equal(folder)
    np.testing.assert_allclose(np.linalg.norm(dense(load(folder), TEXTS), axis=1), 1.0, atol=1e-5)


@pytest.mark.parametrize(
    "changes",
    [
        {"activation_function": None},
        {"activation_function": "torch.nn.modules.activation.Tanh"},
        {"activation_function": "torch.nn.modules.activation.ReLU"},
        {"activation_function": "torch.nn.modules.activation.GELU"},
        {"activation_function": "torch.nn.modules.activation.SiLU"},
        {"activation_function": "torch.nn.modules.activation.Sigmoid"},
        {"bias": False},
        {"use_residual": True},
        {"out_features": HIDDEN_SIZE, "use_residual": True},
    ],
    ids=str,
)
def test_every_kind_of_projection(folder: Path, changes: dict[str, Any]) -> None:
    """Case T09: without activation_function it is tanh."""
    config = _dense(HIDDEN_SIZE, 24) | changes
    if config["activation_function"] is None:
        del config["activation_function"]
    _write_stack(folder, [config], NEW_TYPES, normalize=False)
    _assert_equal(folder)


@pytest.mark.parametrize("include_prompt", [True, False])
def test_prompts_of_queries_and_documents(folder: Path, include_prompt: bool) -> None:
    """Case T11, the first copy."""
    pooling = POOLING | {"include_prompt": include_prompt}
    write_modules(folder, [("Transformer", None), ("Pooling", pooling)])
    prompts = {"query": "query: ", "document": "passage: ", "sts": ""}
    write_json(folder, "config_sentence_transformers.json", {"prompts": prompts})
    reference, adapter = _reference(folder), load(folder)
    for expected, options in (
        (reference.encode_query(TEXTS), {"is_query": True}),
        (reference.encode(TEXTS), {}),
        (reference.encode_document(TEXTS), {"is_query": False}),
        (reference.encode(TEXTS, prompt_name="query"), {"prompt_name": "query"}),
        (reference.encode(TEXTS, prompt_name="sts"), {"prompt_name": "sts"}),
        (reference.encode(TEXTS, prompt="Q> "), {"prompt": "Q> "}),
    ):
        np.testing.assert_allclose(dense(adapter, TEXTS, **options), expected, atol=TOLERANCE)


def test_a_shorter_limit_and_lower_case(folder: Path) -> None:
    settings = {"max_seq_length": 20, "do_lower_case": True}
    write_json(folder, "sentence_bert_config.json", settings)
    _assert_equal(folder)


def test_fewer_dimensions_without_unit_length(folder: Path) -> None:
    write_modules(folder, [("Transformer", None), ("Pooling", POOLING)])
    expected = _reference(folder).encode(TEXTS, truncate_dim=16)
    found = dense(load(folder), TEXTS, dimensions=16)
    np.testing.assert_allclose(found, expected, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("dtype", ["binary", "ubinary"])
def test_packed_bits(folder: Path, dtype: str) -> None:
    expected = quantize_embeddings(_reference(folder).encode(TEXTS), dtype)
    request = encode_request(TEXTS)
    request.params.output_dtype = dtype  # type: ignore[assignment]
    found = np.stack([item.dense.values for item in run(load(folder), request).items])
    assert np.array_equal(found, expected)


@pytest.mark.parametrize("pooling", ["max", "sum"])
@pytest.mark.parametrize("activation", ["relu", "log1p_relu"])
def test_sparse_vectors(tmp_path: Path, pooling: str, activation: str) -> None:
    """Case T16, against the reference library."""
    save_model(tmp_path, BertForMaskedLM(bert_config()))
    config = {"pooling_strategy": pooling, "activation_function": activation}
    types = NEW_TYPES | {
        "Transformer": "sentence_transformers.sparse_encoder.models.MLMTransformer"
    }
    write_modules(tmp_path, [("Transformer", None), ("SpladePooling", config)], types)
    write_json(tmp_path, "config_sentence_transformers.json", {"model_type": "SparseEncoder"})
    reference = SparseEncoder(str(tmp_path), device="cpu", local_files_only=True)
    expected = reference.encode(TEXTS, convert_to_sparse_tensor=False).numpy()
    found = np.zeros_like(expected)
    for row, item in zip(found, encode(load(tmp_path), TEXTS, "sparse"), strict=True):
        row[item.sparse.indices] = item.sparse.values
    np.testing.assert_allclose(found, expected, atol=TOLERANCE, rtol=0)


def test_many_labels_of_cross_encoders(tmp_path: Path) -> None:
    save_model(tmp_path, BertForSequenceClassification(bert_config(num_labels=3)))
    reference = CrossEncoder(str(tmp_path), device="cpu", local_files_only=True)
    pairs = [("who wrote it", text) for text in TEXTS]
    expected = reference.predict(pairs, apply_softmax=True)
    for label, column in zip(("LABEL_0", "LABEL_1", "LABEL_2"), expected.T, strict=True):
        found = scores(load(tmp_path), "who wrote it", TEXTS, options={"label": label})
        np.testing.assert_allclose(found, column, atol=TOLERANCE, rtol=0)


def test_cross_encoders(tmp_path: Path) -> None:
    save_model(tmp_path, BertForSequenceClassification(bert_config(num_labels=1)))
    reference = CrossEncoder(str(tmp_path), device="cpu", local_files_only=True)
    expected = reference.predict([("who wrote it", text) for text in TEXTS])
    found = scores(load(tmp_path), "who wrote it", TEXTS)
    np.testing.assert_allclose(found, expected, atol=TOLERANCE, rtol=0)
    logits = reference.predict(
        [("the " * 90, text) for text in TEXTS], activation_fn=torch.nn.Identity()
    )
    raw = scores(load(tmp_path), "the " * 90, TEXTS, options={"raw_scores": True})
    np.testing.assert_allclose(raw, logits, atol=TOLERANCE, rtol=0)


def _pylate(folder: Path, **changes: Any) -> None:
    settings = {
        "model_type": "ColBERT",
        "query_prefix": "[unused0]",
        "document_prefix": "[unused1]",
        "query_length": 16,
        "document_length": 100,
        "attend_to_expansion_tokens": False,
        "skiplist_words": list(string.punctuation),
    }
    write_json(folder, "config_sentence_transformers.json", settings | changes)
    config = _dense(HIDDEN_SIZE, 16, bias=False)
    write_modules(folder, [("Transformer", None), ("Dense", config)], OLD_TYPES)
    weight = torch.randn(16, HIDDEN_SIZE, generator=torch.Generator().manual_seed(2))
    save_file({"linear.weight": weight}, folder / "1_Dense" / "model.safetensors")


def _assert_token_vectors_equal(folder: Path) -> None:
    reference = MultiVectorEncoder(str(folder), device="cpu", local_files_only=True)
    adapter = load(folder)
    for is_query, expected in (
        (True, reference.encode_query(TEXTS)),
        (False, reference.encode_document(TEXTS)),
    ):
        items = encode(adapter, TEXTS, "multivector", is_query=is_query)
        for item, other in zip(items, expected, strict=True):
            assert item.multivector.values.shape == tuple(other.shape)
            np.testing.assert_allclose(item.multivector.values, other, atol=TOLERANCE, rtol=0)
    expected_scores = reference.similarity(
        reference.encode_query(TEXTS[:1]), reference.encode_document(TEXTS)
    )[0]
    found = scores(adapter, TEXTS[0], TEXTS)
    np.testing.assert_allclose(found, expected_scores, atol=1e-4, rtol=0)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"attend_to_expansion_tokens": True},
        {"do_query_expansion": False},
        {"skiplist_words": []},
        {"prompts": {"query": "the ", "document": ""}},
    ],
    ids=str,
)
def test_token_vectors_as_pylate_writes_them(folder: Path, changes: dict[str, Any]) -> None:
    """Case T15, against the reference library."""
    _pylate(folder, **changes)
    _assert_token_vectors_equal(folder)


@pytest.mark.parametrize("strategy", ["fixed", "min"])
@pytest.mark.parametrize("attend", [True, False])
def test_token_vectors_as_the_library_itself_writes_them(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, strategy: str, attend: bool
) -> None:
    _pylate(folder)
    model = MultiVectorEncoder(str(folder), device="cpu", local_files_only=True)
    model[0].query_expansion = {"strategy": strategy, "attend": attend, "length": 12}
    saved = tmp_path_factory.mktemp("saved")
    model.save(str(saved), create_model_card=False)
    _assert_token_vectors_equal(saved)


@pytest.mark.parametrize(
    "changes", [{}, {"mask_punctuation": False}, {"query_maxlen": 10}], ids=str
)
def test_token_vectors_as_stanford_writes_them(folder: Path, changes: dict[str, Any]) -> None:
    for name in ("modules.json", "1_Pooling/config.json"):
        (folder / name).unlink()
    change_json(folder, "config.json", architectures=["HF_ColBERT"])
    write_json(folder, "artifact.metadata", {"query_maxlen": 16, "dim": 16} | changes)
    tensors = {f"bert.{name}": one for name, one in load_file(folder / "model.safetensors").items()}
    tensors["linear.weight"] = torch.randn(16, HIDDEN_SIZE)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    _assert_token_vectors_equal(folder)
