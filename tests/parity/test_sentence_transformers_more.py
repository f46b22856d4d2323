"""More against sentence-transformers reading the same folder: routers, LayerNorm, decoders."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from sentence_transformers import SentenceTransformer, SparseEncoder
from sentence_transformers.base.modules import Router
from sentence_transformers.base.modules.transformer import Transformer
from sentence_transformers.sparse_encoder.modules import SparseStaticEmbedding, SpladePooling
from transformers import BertForMaskedLM, BertModel

from sie_mcp import wire
from sie_mcp.errors import InvalidInput, ModelLoadFailed
from tests.parity.checkpoints import save
from tests.parity.table import ROWS
from tests.running import dense, encode_request, load, run, scores
from tests.tiny import HIDDEN_SIZE, bert_config, change_json, save_model, write_json, write_modules

TOLERANCE = 1e-5
TEXTS = ["alpha beta gamma alpha", "hello", "the " * 200, "What IS machine learning?!"]


def _sparse(adapter, texts: list[str], *, is_query: bool) -> np.ndarray:
    params = {"output_types": ["sparse"], "options": {"is_query": is_query}}
    items = [{"text": text} for text in texts]
    request = wire.EncodeRequest.model_validate({"items": items, "params": params})
    rows = []
    for item in run(adapter, request).items:
        row = np.zeros(item.sparse.dims, np.float32)
        row[item.sparse.indices] = item.sparse.values
        rows.append(row)
    return np.stack(rows)


@pytest.fixture
def inference_free(tmp_path: Path) -> Path:
    """Return a model whose queries are looked up, saved by the library."""
    torch.manual_seed(0)
    plain, folder = tmp_path / "plain", tmp_path / "router"
    save_model(plain, BertForMaskedLM(bert_config()))
    documents = Transformer(str(plain), transformer_task="fill-mask")
    weight = torch.rand(documents.config.vocab_size) * (
        torch.rand(documents.config.vocab_size) > 0.3
    )
    queries = SparseStaticEmbedding(documents.tokenizer, weight=weight)
    router = Router.for_query_document(
        query_modules=[queries],
        document_modules=[documents, SpladePooling("max", activation_function="log1p_relu")],
    )
    SparseEncoder(modules=[router], similarity_fn_name="dot").save(str(folder))
    return folder


def test_queries_are_looked_up_and_documents_encoded(inference_free: Path) -> None:
    reference = SparseEncoder(str(inference_free), device="cpu", local_files_only=True)
    adapter = load(inference_free)
    for is_query, encode in ((True, reference.encode_query), (False, reference.encode_document)):
        expected = encode(TEXTS, convert_to_sparse_tensor=False).numpy()
        assert expected.any()
        found = _sparse(adapter, TEXTS, is_query=is_query)
        np.testing.assert_allclose(found, expected, atol=TOLERANCE, rtol=0)
    queries = reference.encode_query(TEXTS[0], convert_to_sparse_tensor=False)
    documents = reference.encode_document(TEXTS[1:], convert_to_sparse_tensor=False)
    found = scores(adapter, TEXTS[0], TEXTS[1:])
    np.testing.assert_allclose(found, (documents @ queries).numpy(), atol=TOLERANCE, rtol=1e-5)
    assert adapter.card.decisions["queries"].startswith("weights of their tokens")


def test_a_query_runs_nothing(inference_free: Path) -> None:
    params = wire.EncodeParams(options=wire.EncodeOptions(is_query=True))
    request = wire.EncodeRequest(items=[wire.Item(text="alpha beta")], params=params)
    prepared = load(inference_free).prepare(request)
    assert prepared.sequences == []
    assert prepared.notes[0].num_tokens == 2


def test_weights_by_token_give_the_same(inference_free: Path, tmp_path: Path) -> None:
    """OpenSearch's own form: idf.json beside a masked language model."""
    expected = _sparse(load(inference_free), TEXTS, is_query=True)
    folder = tmp_path / "plain"
    reference = SparseEncoder(str(inference_free), device="cpu", local_files_only=True)
    queries = reference[0].sub_modules["query"][0]
    names = {place: token for token, place in queries.tokenizer.get_vocab().items()}
    idf = {names[place]: weight for place, weight in enumerate(queries.weight.tolist())}
    (folder / "idf.json").write_text(json.dumps(idf))
    splade = {"pooling_strategy": "max", "activation_function": "log1p_relu"}
    write_modules(folder, [("Transformer", None), ("SpladePooling", splade)])
    adapter = load(folder)
    np.testing.assert_allclose(_sparse(adapter, TEXTS, is_query=True), expected, atol=1e-6, rtol=0)
    assert "idf.json" in adapter.card.decisions["queries"]
    (folder / "idf.json").write_text('{"no such token": 1.0}')
    with pytest.raises(ModelLoadFailed, match=r"idf\.json: 'no such token' is no token"):
        load(folder)


def test_the_heaviest_entries_can_be_asked_for(inference_free: Path) -> None:
    adapter = load(inference_free)
    full = _sparse(adapter, TEXTS[:1], is_query=False)[0]
    params = {"options": {"max_active_dims": 3}}
    request = wire.EncodeRequest.model_validate({"items": [{"text": TEXTS[0]}], "params": params})
    sparse = run(adapter, request).items[0].sparse
    assert sorted(sparse.indices) == list(sparse.indices)
    assert set(sparse.indices) == set(np.argsort(-full, kind="stable")[:3])
    with pytest.raises(InvalidInput, match="max_active_dims keeps the heaviest"):
        params = {"options": {"dimensions": 3}}
        adapter.prepare(
            wire.EncodeRequest.model_validate({"items": [{"text": "a"}], "params": params})
        )


def test_a_query_route_of_another_kind_is_refused(inference_free: Path) -> None:
    change_json(
        inference_free,
        "router_config.json",
        structure={"query": ["document_1_SpladePooling"], "document": ["document_0_Transformer"]},
    )
    with pytest.raises(ModelLoadFailed, match="a query route of its own is not supported"):
        load(inference_free)


def test_a_layer_norm_before_unit_length(tmp_path: Path) -> None:
    save_model(tmp_path, BertModel(bert_config()))
    pooling = {"embedding_dimension": HIDDEN_SIZE, "pooling_mode": "mean"}
    norm = {"dimension": HIDDEN_SIZE}
    modules = [("Transformer", None), ("Pooling", pooling), ("LayerNorm", norm), ("Normalize", {})]
    write_modules(tmp_path, modules)
    tensors = {"norm.weight": torch.rand(HIDDEN_SIZE), "norm.bias": torch.rand(HIDDEN_SIZE)}
    save_file(tensors, tmp_path / "2_LayerNorm/model.safetensors")
    reference = SentenceTransformer(str(tmp_path), device="cpu", local_files_only=True)
    found = dense(load(tmp_path), TEXTS)
    np.testing.assert_allclose(found, reference.encode(TEXTS), atol=TOLERANCE, rtol=0)
    write_json(tmp_path, "2_LayerNorm/config.json", {})
    with pytest.raises(ModelLoadFailed, match=r"2_LayerNorm/config\.json has no 'dimension'"):
        load(tmp_path)


def test_a_decoder_s_last_token_whatever_side_is_padded(tmp_path: Path) -> None:
    """Case T04."""
    save(next(row for row in ROWS if row.name == "qwen3"), "dense", tmp_path)
    texts = ["morning", "a much longer sentence with many more words than the first one"]
    tokens = {"eos_token": "</s>", "pad_token": "[PAD]"}
    found = {}
    for side in ("left", "right"):
        settings = {"tokenizer_class": "PreTrainedTokenizerFast", "padding_side": side, **tokens}
        write_json(tmp_path, "tokenizer_config.json", settings)
        reference = SentenceTransformer(str(tmp_path), device="cpu", local_files_only=True)
        expected = reference.encode(texts)
        adapter = load(tmp_path)
        found[side] = dense(adapter, texts)
        norms = np.linalg.norm(found[side], axis=1) * np.linalg.norm(expected, axis=1)
        assert ((found[side] * expected).sum(axis=1) / norms).min() >= 0.99999
        last = [one.input_ids[-1] for one in adapter.prepare(encode_request(texts)).sequences]
        assert last == [reference.tokenizer.eos_token_id] * 2
        for text, vector in zip(texts, found[side], strict=True):
            np.testing.assert_allclose(dense(adapter, [text])[0], vector, atol=TOLERANCE, rtol=0)
    assert np.array_equal(found["left"], found["right"])
